"""The published vectors of a whole fit hold, also for a second implementation.

The second one shares no code with the package: rational numbers, Python's integers and mpmath.
"""

from __future__ import annotations

import hashlib
import json
import runpy
from fractions import Fraction
from pathlib import Path

import pytest
from mpmath import mp, mpf

VECTORS = Path(__file__).parents[1] / "vectors"
PUBLISHED = json.loads((VECTORS / "fit.json").read_text())
SUMS = ("y", "d", "yy", "yd", "phi")
PHI_GRID = {plan["feature"]: plan["phi_grid"] for plan in PUBLISHED["plan"]}
COUNT = dict(enumerate(PUBLISHED["reveals"][0]["n"]))
number = float.fromhex


def values(feature, silo):
    column = [row[feature] for row in PUBLISHED["silos"][silo]]
    return [number(x) for x in column if x is not None]


def added(entry):
    """Sums over all silos, as integers."""
    return {key: sum(int(silo[key], 16) for silo in entry["silos"].values()) for key in SUMS}


def variance_and_sign(entry):
    n, S = COUNT[entry["feature"]], added(entry)
    V = n * S["yy"] - S["y"] ** 2
    K = n * S["yd"] - S["y"] * S["d"]
    score = S["phi"] * V - (n * K << PHI_GRID[entry["feature"]])
    return V, S["y"], -1 if score < 0 else 1


def revealed_signs():
    """(feature, lambda, sign) in the order of the steps."""
    return [
        (j, number(lmbda), delta)
        for line in PUBLISHED["reveals"]
        if line["reveal"] == "step"
        for j, lmbda, delta in zip(line["features"], line["lmbda"], line["delta"], strict=True)
    ]


def test_the_package_computes_what_is_published():
    made = runpy.run_path(str(VECTORS / "make_fit_vectors.py"))["vectors"]()
    assert json.loads(json.dumps(made)) == PUBLISHED


def test_the_digest_is_that_of_the_agreement():
    text = json.dumps(PUBLISHED["agreement"], sort_keys=True)
    assert hashlib.sha256(text.encode()).hexdigest() == PUBLISHED["digest"]


def test_counts_are_those_of_the_silos():
    assert (
        [sum(len(values(feature, silo)) for silo in PUBLISHED["silos"]) for feature in range(2)]
        == [12, 12]
        == list(COUNT.values())
    )


@pytest.mark.parametrize("silo", PUBLISHED["silos"])
def test_sums_are_those_of_the_definition(silo):
    """Of each silo, at every lambda, to 1e-14 of the sum of absolute values."""
    with mp.workprec(300):
        for entry in PUBLISHED["sums"]:
            lmbda, grid = mpf(number(entry["lambda"])), entry["grid"]
            y, d, phi = [], [], []
            for x in map(mpf, values(entry["feature"], silo)):
                L, u, side = (
                    (mp.log1p(abs(x)), lmbda, 1) if x >= 0 else (mp.log1p(-x), 2 - lmbda, -1)
                )
                w = mp.exp(u * L)
                y.append(side * (w - 1) / u if u else side * L)
                d.append((L * w - (w - 1) / u) / u if u else L**2 / 2)
                phi.append(side * L)
            exact = {
                "y": (y, grid),
                "d": (d, grid),
                "yy": ([a * a for a in y], 2 * grid),
                "yd": ([a * b for a, b in zip(y, d, strict=True)], 2 * grid),
                "phi": (phi, PHI_GRID[entry["feature"]]),
            }
            for key, (terms, bits) in exact.items():
                got = mp.ldexp(int(entry["silos"][silo][key], 16), -bits)
                assert abs(got - mp.fsum(terms)) <= mpf("1e-14") * mp.fsum(map(abs, terms))


def test_signs_are_those_of_the_sums():
    signs = revealed_signs()
    assert len(signs) == 20
    for (feature, lmbda, sign), entry in zip(signs, PUBLISHED["sums"], strict=False):
        assert (entry["feature"], number(entry["lambda"])) == (feature, lmbda)
        assert variance_and_sign(entry)[2] == sign
    assert {sign for *_, sign in signs} == {-1, 1}


@pytest.mark.parametrize("feature", [0, 1])
def test_lambdas_are_those_of_the_search(feature):
    """Double until the sign turns, then halve: the paper's algorithm 2."""
    lower, upper, lmbda = None, None, 0.0
    for j, visited, sign in revealed_signs():
        if j != feature:
            continue
        assert visited == lmbda
        if sign > 0:
            lower = lmbda
        else:
            upper = lmbda
        if lower is not None and upper is not None:
            lmbda = (lower + upper) / 2
        else:
            lmbda = max(2 * lmbda, 1.0) if sign > 0 else min(2 * lmbda, -1.0)
    assert number(PUBLISHED["result"]["lmbda"][feature]) == lmbda
    assert not PUBLISHED["result"]["at_bound"][feature]


@pytest.mark.parametrize("feature", [0, 1])
def test_moments_and_result_are_those_of_the_final_sums(feature):
    entry = PUBLISHED["sums"][20 + feature]
    V, S_y, _ = variance_and_sign(entry)
    known, line = PUBLISHED["reveals"][-2:]
    assert (known["reveal"], line["reveal"]) == ("magnitudes", "moments")
    place = line["features"].index(feature)
    magnitude = (V.bit_length() - 1) // 8
    assert known["magnitude"][known["features"].index(feature)] == magnitude
    V_low, y_low = 8 * (magnitude + 1) - 52, 4 * magnitude - 44
    assert int(line["V"][place], 16) == V >> V_low
    assert int(line["S_y"][place], 16) == S_y >> y_low
    # What is not opened counts as the middle of its range.
    opened_V, opened_y = (
        ((integer >> low) << low) + (1 << low - 1) for integer, low in ((V, V_low), (S_y, y_low))
    )
    n, grid, result = COUNT[feature], entry["grid"], PUBLISHED["result"]
    mean = Fraction(opened_y, n << grid)
    assert number(result["mean"][feature]) == float(mean)
    assert number(result["var"][feature]) == float(Fraction(opened_V, n * n << 2 * grid))
    assert (result["n"][feature], result["constant"][feature]) == (n, False)
    with mp.workprec(200):
        lmbda = mpf(number(result["lmbda"][feature]))
        exact_mean = mpf(mean.numerator) / mean.denominator
        u = lmbda if mean >= 0 else 2 - lmbda
        # (1 + |c|)^u at the center c; the constant of a decaying side is 1/|u| as a float64.
        bound = PUBLISHED["agreement"]["upper" if mean >= 0 else "lower"][feature]
        decays = -u * mp.log1p(abs(bound)) > 1
        constant = 1 / abs(float(u)) if decays else -1 / u
        slope = u * (abs(exact_mean) - constant)
        center = mp.sign(exact_mean) * (slope ** (1 / u) - 1)
        width = mp.sqrt(mpf(number(result["var"][feature]))) / slope
    low = center - mpf(number(result["center"][feature]))
    assert number(result["center"][feature]) == float(center)
    assert number(result["center_low"][feature]) == pytest.approx(float(low), rel=1e-10)
    assert result["converged"][feature]
    assert number(result["width"][feature]) == pytest.approx(float(width), rel=5e-16)


def test_everything_fits_its_plan():
    at = {(entry["feature"], entry["lambda"]): entry for entry in PUBLISHED["sums"]}
    for plan in PUBLISHED["plan"]:
        entry, n = at[plan["feature"], plan["lambda"]], COUNT[plan["feature"]]
        S, (V, *_) = added(entry), variance_and_sign(entry)
        assert entry["grid"] == plan["grid"]
        y_bits, d_bits = max(plan["y_bits"]), max(plan["d_bits"])
        assert abs(S["y"]) <= n << y_bits
        assert abs(S["yd"]) <= n << y_bits + d_bits
        assert V.bit_length() <= plan["v_bits"] < plan["sum_bits"] <= 64 * plan["limbs"]
        assert 64 * (plan["limbs"] - 1) < plan["sum_bits"], "no limb too many"
    assert len(at) == 22

"""docs/protocol.md: its numbers are those of the package, and its section 7.1 says all it must."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import warnings
from fractions import Fraction
from math import isnan, sqrt
from pathlib import Path

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from securefedyj import SecureFedYJ
from securefedyj.network.consortium import Consortium
from securefedyj.network.session import records
from securefedyj.network.session.journal import FORMAT
from securefedyj.numerics import elementary, wide
from securefedyj.numerics.encoding import Domain, choose_encoding
from securefedyj.numerics.search import recover_path
from securefedyj.numerics.sums import ArraySilo
from securefedyj.party.machine import MAX_AHEAD
from securefedyj.party.messages import VERSION
from securefedyj.protocol.reveals import KINDS, Moments

PAGE = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text(encoding="utf-8")


def test_the_digest_of_the_example_is_right():
    (text,) = re.findall(r'^    (\{"committee".*?\})$', PAGE, re.MULTILINE | re.DOTALL)
    text = re.sub(r"\s+", " ", text)
    assert text == json.dumps(json.loads(text), sort_keys=True)
    assert f"`{hashlib.sha256(text.encode()).hexdigest()}`" in PAGE


def test_the_agreement_has_the_keys_and_defaults_of_section_2():
    section = PAGE[PAGE.index("## 2. ") : PAGE.index("## 3. ")]
    table = section[: section.index("### 2.1")]
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", table, re.MULTILINE))
    fitted = SecureFedYJ().fit([np.arange(1.0, 40.0)[:, None]] * 3)
    agreed = fitted.transcript_.agreement.to_json()
    left_out = {key for key, text in rows.items() if "; left out if " in text}
    points = {"resolution", "digits", "rounded", "submitted", "claimed_points"}
    assert left_out == {"methods", *points}
    assert sorted(rows) == list(rows)
    assert set(rows) - left_out == set(agreed)
    said = {key: re.search(r"default (\S+)$", text) for key, text in rows.items()}
    shown = {key: found[1] for key, found in said.items() if found}
    expected = {"none": [], "false": False, "-1048576.0": [-(2.0**20)], "1048576.0": [2.0**20]}
    assert len(shown) == 8
    assert {key: expected.get(text, text) for key, text in shown.items()} == {
        key: agreed[key] if isinstance(agreed[key], list | bool) else str(agreed[key])
        for key in shown
    }
    for_networks = re.search(
        r"Those of a consortium.toml are `max_steps` (\d+),\s+`minimum_values` (\d+), "
        r"`result_bits` (\d+) and `verified` (\w+)\.",
        section,
    ).groups()
    names = ("max_steps", "minimum_values", "result_bits", "verified")
    defaults = {field.name: field.default for field in dataclasses.fields(Consortium)}
    assert for_networks == tuple(str(defaults[name]).lower() for name in names)
    assert defaults["levels_per_exchange"] == agreed["levels_per_exchange"]


def test_versions_and_bounds_are_those_of_the_package():
    page = " ".join(PAGE.split())
    for said in (
        f"Protocol version {VERSION}, in enough detail",
        f"| `version` | the protocol version, {VERSION} |",
        f"| 4 | 2 | version, {VERSION} |",
        f"| GREETING | `version`: {VERSION};",
        f'| `{{"state": {FORMAT}, ',
        f"which makes {MAX_AHEAD} in all. A message more than {MAX_AHEAD} rounds ahead",
        f"not there {MAX_AHEAD} rounds later",
    ):
        assert said in page


def test_the_lines_of_a_transcript_are_those_of_section_7_2():
    rows = dict(re.findall(r'^\| `"reveal": "(\w+)"` \| (.*) \|$', PAGE, re.MULTILINE))
    assert rows.keys() == KINDS.keys()
    for name, kind in KINDS.items():
        assert set(kind._fields) <= set(re.findall(r"`(\w+)`", rows[name])), name


RECORDS = ("Greeting", "Ready", "Begin", "Handover", "Done", "Leave", "End")


@pytest.mark.parametrize("name", RECORDS)
def test_the_fields_of_records_are_those_of_section_12_1(name):
    (said,) = re.findall(rf"^\| \d+ \| {name.upper()} \| (.*) \|$", PAGE, re.MULTILINE)
    fields = getattr(records, name).__struct_fields__
    assert tuple(re.findall(r"`(\w+)`", said)) == fields


@pytest.mark.parametrize(
    ("lower", "upper", "lmbda", "shown"), [(-3, 0.2, 2.75, 0), (-100, 100, 8.0, 1)]
)
def test_the_sums_of_the_example_are_those_of_a_silo(lower, upper, lmbda, shown):
    domain, n = Domain.from_bounds((lower, upper), 1), np.array([4])
    chosen, lmbdas = np.array([0]), np.array([lmbda])
    encoding = choose_encoding(domain, n, lmbdas)
    limbs = int(encoding.limbs[0])
    silo = ArraySilo(np.array([[-1.0], [0.125]]), domain, ["x"])
    sums = [*silo.sums(chosen, lmbdas, encoding, limbs), silo.phi_sum(chosen, limbs)]
    section = PAGE[PAGE.index("For section 4, with n = 4") :]
    grids = [tuple(map(int, bits)) for bits in re.findall(_BITS, section)]
    grid, v_bits, sum_bits = (int(bits[0]) for bits in encoding[:1] + encoding[3:])
    assert grids[shown] == (grid, v_bits, sum_bits)
    for name, total in zip(("y", "d", "yy", "yd", "phi"), sums, strict=True):
        pair = re.findall(rf"^    S_{name} += (-?0x\w+)\s+(-?0x\w+)$", section, re.MULTILINE)
        assert pair[0][shown] == hex(wide.to_ints(total)[0]), name


_BITS = r"f = (\d+), v_bits = (\d+), sum_bits = (\d+)"


def features() -> tuple[np.ndarray, list[tuple[float, float]]]:
    """Features of all kinds and their bounds, so that some lambdas are certain and others not."""
    rng = np.random.default_rng(11)
    columns, bounds = [], []
    for k in range(120):
        x = rng.normal(size=20) * 10.0 ** rng.uniform(-13, 3) + rng.choice([0, 0, 1, -1e3, 1e5])
        columns.append(np.exp(x) if k % 7 == 0 and abs(x).max() < 9 else x)
        largest = float(np.abs(columns[-1]).max())
        wide_enough = largest * 2.0 ** rng.uniform(0, 20)
        bounds.append((-wide_enough, wide_enough) if k % 2 else (-(2.0**20), 2.0**20))
    return np.array(columns).T, bounds


@pytest.mark.parametrize("max_steps", [12, 40, 60])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_converged_is_what_section_7_1_says(max_steps):
    X, bounds = features()
    yj = SecureFedYJ(engine="clear", bounds=bounds, max_steps=max_steps).fit([X])
    result = yj.transcript_.result
    opened = {
        j: (V, S_y)
        for reveal in yj.transcript_.all(Moments)
        for j, V, S_y in zip(reveal.features.tolist(), reveal.V, reveal.S_y, strict=True)
    }
    converged = [
        _is_sure(bounds[j], result, j, *opened[j])
        if result.constant[j]
        else _converged(bounds[j], max_steps, result, j)
        for j in range(X.shape[1])
    ]
    assert result.converged.tolist() == converged
    assert 20 < sum(converged) < 110


def test_a_constant_is_what_section_7_says():
    source = np.random.default_rng(12)
    few_digits = [0.0, 1, -8, 0.1, 1e-9, 37.5, 1.4e5, -1e6, 1 - 2**-53]
    X = np.array([*few_digits, *(10 ** source.uniform(-4, 6, 60))])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yj = SecureFedYJ(engine="clear").fit([np.tile(X, (3, 1))])
    (moments,) = yj.transcript_.all(Moments)
    sure = [
        _is_sure((-(2.0**20), 2.0**20), yj.transcript_.result, j, V, S_y)
        for j, V, S_y in zip(moments.features.tolist(), moments.V, moments.S_y, strict=True)
    ]
    assert yj.converged_.tolist() == sure
    assert 5 < sum(sure) < len(X)


def _is_sure(bounds, result, j, V, S_y):
    """Of a constant feature: the value is found as told, and no other one looks the same."""
    domain, n = Domain.from_bounds(bounds, 1), int(result.n[j])
    one, first = np.ones(1), np.array([0])
    encoding = choose_encoding(domain, np.array([n]), one)
    f, limbs = int(encoding.grid[0]), int(encoding.limbs[0])

    def fits(x):
        if not bounds[0] <= x <= bounds[1]:
            return False
        sums = ArraySilo(np.array([[x]]), domain, ["x"]).sums(first, one, encoding, limbs)
        return wide.to_ints(sums.y)[0] * n == S_y

    y = Fraction(S_y, n << f)
    c = float(y)  # lambda is 1
    ulp = np.spacing(float(elementary.log1p(np.array(abs(c)))))
    step = max(np.spacing(abs(c)), ulp * (1 + abs(c)) / 2)
    listed = [float(f"{c:.{k}e}") for k in range(17)] + [c + k * step for k in range(-8, 9)]
    places = [k for k, x in enumerate(listed) if fits(x)]
    value = listed[places[0]] if places else c
    center, width = (float(part[j]) for part in result.standardization[:2])
    assert (center, float(result.mean[j]), width) == (value, value, 1 / (1 + abs(value)))
    if V or not places:
        return False
    alike = max(
        2.0 ** (1 - f), np.spacing(float(elementary.log1p(np.array(abs(value))))) * (1 + abs(value))
    )
    few = value == 0 or 10.0 ** (places[0] + 1) * alike <= 1e-6 * abs(value)
    unseen = max(2.0 ** (1 - f), 2.0**-53 * (1 + abs(value))) if few else 0.0
    for sign in (-1, 1):
        x, further = value + sign * unseen, []
        while abs(x - value) > unseen:
            x = np.nextafter(x, value)
        while len(further) < 2:
            x = np.nextafter(x, sign * np.inf)
            if abs(x - value) > unseen:
                further.append(x)
        if any(map(fits, further)):
            return False
    return True


def _converged(bounds, max_steps, result, j):
    domain = Domain.from_bounds(bounds, 1)
    lmbda, n, at_bound = float(result.lmbda[j]), int(result.n[j]), bool(result.at_bound[j])
    center, width = (float(part[j]) for part in result.standardization[:2])
    promised = max(1e-9, 2.0 ** (10 - max_steps))
    tolerance = promised * max(abs(lmbda), 0.8 / width)
    path = recover_path(lmbda, max_steps, domain.limits(), at_bound)
    lower, upper = -np.inf, np.inf
    resolved = _error(domain, n, center, width, lmbda) <= tolerance
    for point, delta in zip(path.points[:, 0].tolist(), path.signs[:, 0].tolist(), strict=True):
        if isnan(point):
            break
        lower, upper = (point, upper) if delta > 0 else (lower, point)
        far = max(tolerance, min(abs(point - lmbda), ROOT3 / width))
        resolved &= _error(domain, n, center, width, point) <= far
    narrowest = promised * max(abs(lmbda), 1 / (width * sqrt(n)))
    return resolved and (at_bound or max(upper - lmbda, lmbda - lower) <= narrowest)


ROOT3 = 1.7320508075688772


def _error(domain, n, center, width, lmbda):
    encoding = choose_encoding(domain, np.array([n]), np.array([lmbda]))
    grids = [
        int(encoding.grid[0]) - 22 * (int(side.spare[0]) // 22)
        for side in (encoding.positive, encoding.negative)
    ]
    side = 0 if center >= 0 else 1
    u, L_max = (lmbda, domain.L_positive[0]) if side == 0 else (2 - lmbda, domain.L_negative[0])
    L = float(elementary.log1p(np.array(abs(center))))
    z = min(max(u * L, -700.0), 700.0)
    W = float(elementary.exponential(np.array([z]))[0])
    if abs(z) < 1e-4:
        y, d = L, L * L / 2
    else:
        y = (W - 1) / u
        d = (L * W - y) / u
    if abs(z) > 0.34:
        d = (L * W + y) / abs(u)
    decaying = -u * L_max > 1
    if decaying and abs(z) > 2.0**-3:
        A = (1 + abs(z)) / (u * u) + L / abs(u)
    else:
        A = (d + L * y) / W
    g = min(grids) if y <= W * width * sqrt(n) else grids[side]
    B = (1 + L) * 2.0**-g / W
    phi = 2.0 ** -(int(domain.phi_grid()[0]) + 1)
    return 3 * ((2.0**-53 * A + B) / width + phi) * (ROOT3 / width) ** 2

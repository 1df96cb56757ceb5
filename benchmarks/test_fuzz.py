"""The fuzzer of fits notices a fit that is wrong, in each of the ways in which one can be."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.fuzz import aimed, oracle
from benchmarks.fuzz import campaign as fuzz
from benchmarks.fuzz.__main__ import main
from benchmarks.fuzz.cases import FITS, Case, make, outcomes
from benchmarks.fuzz.verdict import judge, next_to_few_digits, reproduction
from securefedyj.numerics.elementary import log1p
from securefedyj.pooled.blocks import Held, survey
from securefedyj.pooled.sides import Sides

X = np.array([1.0, 2, 2, 4, 9, -3])
CASES = [Case("few", fit, X) for fit in ("newton", "federated")]
EQUAL = Case("few", "federated", np.full(3, 8.0))
# Families that are right at any rate, in a run of a second.
RUN = ["--features", "6", "--large", "0", "--seed", "3", "--family", "ordinary", "--family", "ties"]


def fitted(case):
    (outcome,) = outcomes([case])
    return outcome


@pytest.mark.parametrize("case", [*CASES, replace(EQUAL, x=np.zeros(3))])
def test_a_right_fit_is_right(case):
    assert judge(case, fitted(case)).right


WRONG = {
    "lmbda": lambda one: replace(one, lmbda=one.lmbda + 3e-9),
    "z": lambda one: replace(one, z=one.z + np.eye(6)[0] * 1.5e-9),
    "mean": lambda one: replace(one, z=one.z + 2e-9),
    "var": lambda one: replace(one, z=one.z * (1 + 0.9e-9)),  # each z is as near as it has to be
}


@pytest.mark.parametrize("case", CASES, ids=["pooled", "federated"])
@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_fit_is_wrong(case, what):
    verdict = judge(case, WRONG[what](fitted(case)))
    assert getattr(verdict, what) > oracle.PRECISION
    assert not verdict.right


@pytest.mark.parametrize("z", [np.nan, np.inf, np.finfo(np.float64).max])
@pytest.mark.parametrize("case", [CASES[0], EQUAL], ids=["varies", "constant"])
def test_a_value_that_is_no_number_or_saturated_is_wrong(case, z):
    outcome = fitted(case)
    assert not judge(case, replace(outcome, z=np.full_like(outcome.z, z))).right


@pytest.mark.parametrize("change", [{"z": np.full(3, 1e-20)}, {"lmbda": 1 + 1e-15}])
def test_a_constant_has_to_be_exact(change):
    assert not judge(EQUAL, replace(fitted(EQUAL), **change)).right


def test_a_constant_next_to_a_number_of_few_digits_is_taken_for_it():
    assert next_to_few_digits(0.03125000000000001)
    assert next_to_few_digits(1 - 2.0**-53)
    for exact in (0.03125, 1.0, 98.6, 0.0, 2.0**60 + 256):
        assert not next_to_few_digits(exact)


@pytest.mark.parametrize(
    ("difference", "right"), [(2.0**-51, False), (2.0**-52, True), (2.0**-61, True)]
)
def test_distinct_values_count_as_constant_only_where_the_documentation_says_so(difference, right):
    case = replace(EQUAL, x=np.array([1.0, 1, 1 + 2.0**-52]) * difference * 2.0**52)
    outcome = replace(fitted(EQUAL), lmbda=1.0, constant=True)
    assert judge(case, outcome).right == right


@pytest.mark.parametrize("off", [0.0, 0.4e-9, 0.9e-9, 1.1e-9, 1e-3])
@pytest.mark.parametrize("shift", [0.0, -1.3862943611198906])
def test_the_error_of_lambda_is_measured(off, shift):
    """Also near lambda = 0, where the unit is the one that the data have."""
    sample = oracle.Sample.of(np.expm1(np.log1p(np.array([0.5, 1, 3, 8])) + (shift and 0.1)))
    best = oracle.optimum(sample)
    unit = max(abs(float(best)), oracle.scale(sample, best))
    assert oracle.error(sample, float(best) + off * unit) == pytest.approx(off, rel=1e-5, abs=1e-12)


def wrong_outcomes(converged):
    def changed(cases):
        return [
            replace(outcome, converged=converged, z=outcome.z * (1 + 1e-6))
            for outcome in outcomes(cases)
        ]

    return changed


def test_a_run_that_finds_nothing_says_how_far_off_the_worst_is(capsys):
    assert main([*RUN, "--processes", "1"]) == 0
    pooled, federated = capsys.readouterr().out.splitlines()[-2:]
    found = "6 features of 2 families, 0 wrong and unflagged, 0 flagged; worst error of lambda"
    for line, kind in ((pooled, "pooled"), (federated, "federated")):
        assert line.startswith(f"{kind}: {found}")
        worst = re.findall(r"(mean|var)\(Z\) (\d\.\de-\d\d)", line)
        assert [name for name, _ in worst] == ["mean", "var"]
        assert all(0 < float(value) < oracle.PRECISION for _, value in worst)


def test_a_run_tells_of_a_wrong_fit_and_fails(monkeypatch, capsys):
    monkeypatch.setattr(fuzz, "outcomes", wrong_outcomes(converged=True))
    assert main([*RUN, "--processes", "1"]) == 1
    printed = capsys.readouterr().out
    assert "WRONG (federated, ordinary)" in printed
    assert "pooled: 6 features of 2 families, 6 wrong and unflagged" in printed


def test_a_wrong_fit_that_is_flagged_is_no_failure(monkeypatch, capsys):
    monkeypatch.setattr(fuzz, "outcomes", wrong_outcomes(converged=False))
    assert main([*RUN, "--processes", "1"]) == 0
    assert "0 wrong and unflagged, 6 flagged" in capsys.readouterr().out


@pytest.mark.processes
def test_a_run_finds_the_same_in_several_processes(capsys):
    printed = []
    for processes in ("1", "2"):
        assert main([*RUN, "--processes", processes]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]


def test_a_reproduction_has_as_few_values_as_show_the_error():
    x = np.array([3.0, 1, 7, 2, 9, 2])
    code = reproduction(replace(CASES[0], x=x), lambda part: bool(np.any(part == 7)))
    assert "np.array([1.0, 7.0])" in code or "np.array([7.0, 2.0])" in code


@pytest.mark.parametrize(
    ("fit", "name"),
    [(fit, name) for fit, families in FITS.items() if fit != "large" for name in families],
)
def test_a_feature_is_made_again_by_its_number(fit, name):
    for number in range(5):
        case = make(fit, name, 1, number)
        assert not np.isinf(case.x).any()
        assert len(case.values) >= 2
        assert oracle.Sample.of(case.x).constant == (name == "equal_values")
        again = eval(case.source, {"make": make})
        assert np.array_equal(again, case.x, equal_nan=True)


@pytest.mark.parametrize("n", [40, 100, 1500, 70_000])
def test_the_sampled_rows_are_those_that_decide_the_reference(n):
    x = np.linspace(1, 2, n)
    x[aimed.sampled_rows(n)[-33:]] = 1000.0  # of 64, or of all
    table = Held.copy_of(x[:, None])
    assert Sides(table, *survey(table)).measure.reference == 1000.0


@pytest.mark.parametrize("threshold", aimed.THRESHOLDS)
def test_values_and_bounds_are_at_every_threshold(threshold):
    values = bounds = 0
    for number in range(200):
        case = make("federated", "thresholds", 0, number)
        reached = {threshold / u for u in (0.5, 1, 2, 3, 4)}
        values += bool(reached & set(log1p(np.abs(case.values)).tolist()))
        if case.bounds is not None:
            bounds += bool(reached & set(log1p(np.abs(np.array(case.bounds))).tolist()))
    assert min(values, bounds) >= 10

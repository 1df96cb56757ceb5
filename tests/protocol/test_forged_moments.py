"""Moments that no values can have do not pass the audit; those of honest runs always do.

A forger recomputes the result, so that it follows from what was revealed: only the numbers
themselves can give him away.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from securefedyj import SecureFedYJ
from securefedyj.engines.clear import Clear
from securefedyj.errors import ProtocolError
from securefedyj.protocol.findings import Interval, reach_of
from securefedyj.protocol.reveals import Counts, Magnitudes, Moments, Variation, lowest_opened
from securefedyj.protocol.transcript import Transcript
from tests.datasets import NAMES as DATASETS
from tests.datasets import table
from tests.federated_data import agreement, run, shuffled
from tests.protocol.small_run import NAMES, STEPS, data, small_run, verified

WORDS = "no values within the bounds have such a"


def forged(feature: int, magnitude: int, V: int, S_y: int, start: Transcript | None = None) -> Any:
    """A whole run whose moments of one feature are these, as they would be opened."""
    transcript = small_run() if start is None else start
    *others, magnitudes, moments = transcript.reveals
    assert isinstance(magnitudes, Magnitudes)
    assert isinstance(moments, Moments)
    place = moments.features.tolist().index(feature)
    V_low, y_low = lowest_opened(np.array([magnitude]), transcript.agreement.result_bits)
    changed, V_all, S_all = magnitudes.magnitude.copy(), list(moments.V), list(moments.S_y)
    changed[place], V_all[place], S_all[place] = magnitude, V >> int(V_low[0]), S_y >> int(y_low[0])
    reveals = [
        *others,
        Magnitudes(magnitudes.features, changed),
        Moments(moments.features, V_all, S_all),
    ]
    return Transcript(transcript.agreement, reveals).with_result()


def findings_of(transcript: Transcript) -> list[str]:
    """What is found, and found as well where the same ends a verified run."""
    audit = transcript.audit()
    assert audit.passed == (not audit.findings)
    if [type(reveal) for reveal in transcript.reveals[-2:]] == [Magnitudes, Moments]:
        same = verified(transcript).audit()
        assert same.passed == audit.passed
        assert _without_the_schedule(same.findings) == _without_the_schedule(audit.findings)
    return audit.findings


def _without_the_schedule(findings: list[str]) -> list[str]:
    """Without the sentence that names the number of a reveal."""
    return [finding for finding in findings if "does not follow the schedule" not in finding]


def reach(feature: int) -> Any:
    result, domain = small_run().result, small_run().agreement.domain
    return reach_of(domain, result.n, result.lmbda)[feature]


def opened(feature: int) -> tuple[int, int, int]:
    """Magnitude, V and S_y of a feature in the small run, what is not opened at its middle."""
    *_, magnitudes, moments = small_run().reveals
    place = moments.features.tolist().index(feature)
    magnitude = int(magnitudes.magnitude[place])
    lows = [int(low[0]) for low in lowest_opened(np.array([magnitude]), 44)]
    V, S_y = (
        (values[place] << low) + (1 << low >> 1)
        for values, low in zip((moments.V, moments.S_y), lows, strict=True)
    )
    return magnitude, V, S_y


def test_the_forger_of_these_tests_changes_nothing_by_himself():
    for feature in range(5):
        assert findings_of(forged(feature, *opened(feature))) == []


# --- Flipped magnitude bits ------------------------------------------------------------------


@pytest.mark.parametrize("result_bits", [24, 44])
@pytest.mark.parametrize("reached", [0, 1, 2, 3])
def test_flipped_magnitude_bits_are_found(monkeypatch, reached, result_bits):
    """An opening is altered so that V seems to be near 0, and S_y is opened to its last bit.

    The run itself stops where V turns out not to reach the threshold; the audit finds the rest.
    """
    original, original_bits, armed = Clear.open_bits, Clear.bits, set()

    async def noted(self, a):  # only V and S_y are taken apart; their magnitudes are opened next
        armed.add(self)
        return await original_bits(self, a)

    async def altered(self, a):
        bits = (await original(self, a)).copy()
        if self in armed:
            armed.remove(self)
            bits.reshape(-1, 5)[reached:, :2] = 1  # of five features, the first two
        return bits

    honest = agreement(6, max_steps=STEPS, features=NAMES, result_bits=result_bits)
    parts = shuffled(data(), 3)
    assert findings_of(run(honest, parts)[0]) == []
    monkeypatch.setattr(Clear, "bits", noted)
    monkeypatch.setattr(Clear, "open_bits", altered)
    stops = reached in (1, 2)
    with pytest.raises(ProtocolError) if stops else nullcontext():
        found = run(honest, parts)[0]
        (magnitudes,) = found.all(Magnitudes)
        assert magnitudes.magnitude[:2].tolist() == [reached] * 2
        findings = findings_of(found)
        for name in ("income", "change"):
            assert any(f.startswith(f"feature '{name}': ") for f in findings)
        assert not any(word in f for f in findings for word in ("rare", "fixed", "single"))


def test_a_variance_near_zero_needs_values_on_the_grid():
    """Of n integers: n divides V + S_y^2, and V is at least that of neighbours."""
    n, q = reach(0).n, 12345678901 << 30
    assert n == 40
    neighbours = [q] * 37 + [q + 1] * 3
    S_y = sum(neighbours)
    V = n * sum(y * y for y in neighbours) - S_y**2
    assert V == 3 * 37
    assert findings_of(forged(0, 0, V, S_y)) == []
    for wrong in (V - 1, V + 1, V - n, 0, 1, n - 1):
        sentence = "feature 'income': no values on its grid have such a variance, with that mean"
        assert sentence in findings_of(forged(0, 0, wrong, S_y))
    assert findings_of(forged(0, 0, V + n, S_y)) == [], "one value further away, one closer"


def test_a_variance_of_zero_of_a_feature_that_varies_is_found():
    _, _, S_y = opened(0)
    sentence = "feature 'income': no values on its grid have such a variance, with that mean"
    assert sentence in findings_of(forged(0, 0, 0, S_y - S_y % 40 + 1))
    # Also where all values could be the same integer, if no float64 is transformed to it.
    mean = S_y // 40 | 1
    assert mean.bit_length() > 53
    sentence = "feature 'income': it has no variance, but no value has that mean"
    assert sentence in findings_of(forged(0, 0, 0, 40 * mean))


def test_a_single_value_that_no_silo_has_is_found():
    magnitude, V, S_y = opened(4)
    assert (magnitude, V, small_run().result.n[4]) == (0, 0, 1)
    altered = S_y | 1
    assert altered.bit_length() > 53
    assert "feature 'single': it has no variance, but no value has that mean" in findings_of(
        forged(4, 0, 0, altered)
    )
    assert "feature 'single': no values within the bounds have such a variance" in findings_of(
        forged(4, 0, 2, S_y)
    )


# --- Beyond the bounds -----------------------------------------------------------------------


@pytest.mark.parametrize("feature", [0, 1, 2])
@pytest.mark.parametrize("side", ["lowest", "highest"])
def test_a_mean_beyond_the_bounds_is_found(feature, side):
    can, (magnitude, V, _) = reach(feature), opened(feature)
    edge = can.n * getattr(can, side)
    sign = 1 if side == "highest" else -1
    wrong = edge + sign * (can.n * can.slack + (1 << 4 * magnitude))
    name = NAMES[feature]
    assert f"feature {name!r}: {WORDS} mean" in findings_of(forged(feature, magnitude, V, wrong))
    inside = edge - sign * can.n * can.slack
    assert f"feature {name!r}: {WORDS} mean" not in findings_of(
        forged(feature, magnitude, V, inside)
    )


@pytest.mark.parametrize("feature", [0, 1, 2])
def test_a_variance_beyond_the_bounds_is_found(feature):
    """With half of the values at each bound it is the largest; with another mean it is less."""
    can, name = reach(feature), NAMES[feature]
    S_y = can.n // 2 * can.lowest + (can.n - can.n // 2) * can.highest
    largest = can.largest_V(Interval(S_y, S_y))
    magnitude = (largest.bit_length() - 1) // 8
    assert f"feature {name!r}: {WORDS} variance" not in findings_of(
        forged(feature, magnitude, largest, S_y)
    )
    more = largest + (largest >> 30)
    assert f"feature {name!r}: {WORDS} variance" in findings_of(
        forged(feature, (more.bit_length() - 1) // 8, more, S_y)
    )
    closer = can.n * can.highest - (can.highest - can.lowest)
    assert f"feature {name!r}: {WORDS} variance" in findings_of(
        forged(feature, magnitude, largest, closer)
    )


def test_a_feature_that_does_not_vary_has_no_variance():
    """The bit that says so is altered: the feature is taken for constant, its variance for 0."""
    transcript = small_run()
    reveals: list[Any] = list(transcript.reveals)
    counts, variation = reveals[:2]
    assert isinstance(variation, Variation)
    n, lmbda = transcript.result.n, np.ones(6)
    can = reach_of(transcript.agreement.domain, n, lmbda)[0]
    varies = variation.varies.copy()
    varies[0] = False
    steps = [
        r._replace(features=r.features[1:], lmbda=r.lmbda[1:], delta=r.delta[1:])
        for r in reveals[2:-2]
    ]
    altered = [counts, Variation(variation.features, varies), *steps, *reveals[-2:]]
    start = Transcript(transcript.agreement, altered)
    V = 20 * 20 << 2 * 50
    found = forged(0, (V.bit_length() - 1) // 8, V, 40 << 60, start)
    assert found.result.constant[0]
    assert found.result.var[0] == 0
    sentence = "feature 'income': it does not vary, but has a variance"
    assert sentence in findings_of(found)
    assert sentence not in findings_of(forged(0, 0, 0, 40 << 60, start))
    assert can.largest_constant_V() < V


# --- Not as agreed ---------------------------------------------------------------------------


@pytest.mark.parametrize("result_bits", [8, 24, 35])
def test_more_bits_than_agreed_are_found(result_bits):
    transcript = small_run()
    coarse = replace(transcript.agreement, result_bits=result_bits)
    found = Transcript(coarse, list(transcript.reveals)).with_result()
    assert "feature 'income': the variance is not of the magnitude that was revealed" in (
        findings_of(found)
    )
    assert any("not of its magnitude and precision" in f for f in findings_of(found))


@pytest.mark.parametrize("magnitude", [10**3 + 100, 10**9, 2**62, 2**63 - 1])
def test_absurd_magnitudes_are_found_without_computing_with_them(magnitude):
    transcript = small_run()
    *others, magnitudes, moments = transcript.reveals
    changed = magnitudes.magnitude.copy()
    changed[0] = magnitude
    reveals = [*others, Magnitudes(magnitudes.features, changed), moments]
    found = Transcript(transcript.agreement, reveals, transcript.result)
    findings = findings_of(found)
    assert "feature 'income': no values have a variance of such a magnitude" in findings
    assert "FAILED" in found.audit().statement()


@pytest.mark.parametrize("count", [-1, 2**40 + 1, 2**63 - 1, -(2**63)])
def test_absurd_counts_are_found_without_computing_with_them(count):
    transcript = small_run()
    n = transcript.reveals[0].n.copy()
    n[0] = count
    counts = Counts(transcript.reveals[0].features, n)
    found = Transcript(transcript.agreement, [counts, *transcript.reveals[1:]], transcript.result)
    assert f"feature 'income': {count} values" in findings_of(found)
    assert "FAILED" in found.audit().statement()


@pytest.mark.parametrize("change", [{"max_steps": 10**9}, {"levels_per_exchange": 10**9}], ids=str)
def test_an_absurd_agreement_is_found_without_computing_with_it(change):
    transcript = small_run()
    absurd = replace(transcript.agreement, **change)
    (finding,) = findings_of(Transcript(absurd, transcript.reveals, transcript.result))
    assert finding.startswith("no run has such an agreement: ")


def test_part_of_a_run_does_not_pass():
    transcript = small_run()
    found = Transcript(transcript.agreement, transcript.reveals[:-1], transcript.result)
    assert "what was revealed is not a complete run" in findings_of(found)


def test_reveals_in_another_order_are_found():
    """All are there, each once: it is the order that no run has."""
    transcript = small_run()
    reveals = list(transcript.reveals)
    reveals[1], reveals[2] = reveals[2], reveals[1]
    (finding,) = findings_of(Transcript(transcript.agreement, reveals, transcript.result))
    assert finding.startswith(
        "what was revealed does not follow the schedule of a run: reveal 2: step"
    )


# --- Honest runs -----------------------------------------------------------------------------


@pytest.mark.parametrize("result_bits", [8, 24, 44])
@pytest.mark.parametrize("name", DATASETS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_all_data_sets_pass(name, result_bits):
    X = table(name)[:400]
    bounds = np.stack([np.minimum(X.min(axis=0), 0), np.maximum(X.max(axis=0), 1)], axis=1)
    for agreed in (None, bounds.tolist()):
        fitted = SecureFedYJ("clear", 30, bounds=agreed, result_bits=result_bits).fit([X])
        assert fitted.transcript_.audit().findings == []


close = st.sampled_from([0.3, 0.1 + 0.2, 1.0, float(np.nextafter(1, 2)), 6.7, 1e-17, 0.0, -1e-9])
values = st.one_of(
    close, st.floats(-100, 100), st.sampled_from([-100.0, 100.0, 5e-324, -5e-324, np.nan])
)


@settings(max_examples=40)
@given(
    rows=st.lists(st.tuples(values, values, close), min_size=1, max_size=9),
    steps=st.sampled_from([1, 7, 30]),
    bits=st.integers(8, 44),
    bounds=st.sampled_from([(-100, 100), None, (-100, 1e30), (-1e30, 100)]),
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_any_data_pass(rows, steps, bits, bounds):
    X = np.array(rows, dtype=np.float64).reshape(-1, 3)
    fitted = SecureFedYJ("clear", steps, bounds=bounds, result_bits=bits).fit([X])
    assert fitted.transcript_.audit().findings == []


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_values_that_fall_together_at_the_end_of_the_search_pass():
    """Neighbours among float64 may have two y at lambda = 0 and one at lambda*: variance 0."""
    rng = np.random.default_rng(3)
    x = rng.uniform(1, 50, 300)
    X = np.stack([x, np.nextafter(x, 99), np.nextafter(x, 99)])
    fitted = SecureFedYJ("clear").fit([X])
    together = (fitted.var_ == 0) & ~fitted.transcript_.result.constant
    assert together.any()
    assert not fitted.converged_[together].any()
    assert fitted.transcript_.audit().findings == []

"""The whole protocol: right, the same for every split and engine, and silent."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from securefedyj import SecureFedYJ
from securefedyj.engines.digests import DIGEST_BYTES
from securefedyj.engines.replicated.engine import Replicated
from securefedyj.errors import PartyStopped, ProtocolError
from securefedyj.numerics import wide
from securefedyj.numerics.encoding import Domain, choose_encoding
from securefedyj.numerics.sums import ArraySilo, OutOfBounds, Sums
from securefedyj.party import inprocess
from securefedyj.party.messages import Kind
from securefedyj.protocol.program import secure_fed_yj
from securefedyj.protocol.reveals import Magnitudes, Step
from securefedyj.protocol.schedule import TooFewValues
from tests import oracle
from tests.datasets import features, table
from tests.federated_data import (
    agreement,
    all_features,
    as_table,
    assemble,
    by_value,
    plain,
    run,
    shuffled,
    totals,
)
from tests.simulation import THREE, Recorder, simulate

FITTED = ("lambdas_", "mean_", "var_", "at_bound_", "n_samples_seen_")


def assert_same_bits(one: SecureFedYJ, other: SecureFedYJ) -> None:
    """Everything that a fit gives, and everything that it revealed on the way."""
    for name in FITTED:
        assert getattr(one, name).tobytes() == getattr(other, name).tobytes(), name
    for a, b in zip(one._standardization, other._standardization, strict=True):
        assert a.tobytes() == b.tobytes()
    assert plain(one.transcript_.reveals) == plain(other.transcript_.reveals)


# --- Right, and the same ---------------------------------------------------------------------

# Small and large lambdas, from all data sets; in the default domain, lambda of digits 7 and 56
# and of breast_cancer 7 and 14 lies beyond the edge, that of digits 63 shortly before.
CHOSEN = {
    "iris": (0,),
    "wine": (4, 12),
    "digits": (2, 3, 7, 56, 63),
    "breast_cancer": (3, 4, 7, 14),
}


@cache
def selection() -> np.ndarray:
    """Twelve features of all data sets, one of them with holes, one constant, one missing."""
    columns = [f.x for name, chosen in CHOSEN.items() for f in features(name) if f.column in chosen]
    holes = table("iris")[:, 2].copy()
    holes[np.random.default_rng(3).random(len(holes)) < 0.3] = np.nan
    return as_table([*columns, holes, table("digits")[:, 0], np.full(5, np.nan)])


# What the split could change would show in the first steps as in the last.
SHORT: dict[str, Any] = {"max_steps": 22, "levels_per_exchange": 2}


@cache
def pooled_selection() -> SecureFedYJ:
    return SecureFedYJ(engine="clear", **SHORT).fit([selection()])


def test_the_selection_has_features_of_every_kind():
    pooled = pooled_selection()
    assert pooled.at_bound_.sum() == 4
    assert np.isnan(selection()).any(axis=0).sum() > 7
    assert pooled.var_[-2:].tolist() == [0, 0]
    assert pooled.n_samples_seen_[-3:].tolist()[1:] == [1797, 0]
    assert 0 < pooled.n_samples_seen_[-3] < 150


@pytest.mark.parametrize("split", [shuffled, by_value], ids=["random", "by value"])
@pytest.mark.parametrize("silos", [3, 5, 10])
@pytest.mark.parametrize("engine", ["clear", "replicated"])
def test_result_does_not_depend_on_the_split_or_the_engine(engine, silos, split):
    parts = split(selection(), silos)
    fitted = SecureFedYJ(engine=engine, **SHORT).fit(parts)
    assert_same_bits(fitted, pooled_selection())
    assert fitted.transcript_.audit().passed


def test_all_108_features_are_those_of_the_oracle_with_the_bits_of_one_silo():
    every = all_features()
    X = as_table(feature.x for feature in every)
    options: dict[str, Any] = {"max_steps": 55, "levels_per_exchange": 2}
    fitted = SecureFedYJ(**options).fit(shuffled(X, 3))
    assert_same_bits(fitted, SecureFedYJ(engine="clear", **options).fit([X]))
    assert fitted.transcript_.audit().passed

    lmbda, mean, var = (
        np.array([getattr(f, name) for f in every]) for name in ("lmbda", "mean", "var")
    )
    limits = Domain.from_bounds(None, 1).limits()
    beyond = (lmbda < limits.lowest) | (lmbda > limits.highest)
    assert np.array_equal(fitted.at_bound_, beyond)
    assert beyond.sum() == 21
    assert np.all(fitted.lambdas_[beyond] == limits.lowest)
    inside = ~beyond
    np.testing.assert_allclose(fitted.lambdas_[inside], lmbda[inside], rtol=5e-13)
    np.testing.assert_allclose(fitted.mean_[inside], mean[inside], rtol=1e-12)
    np.testing.assert_allclose(fitted.var_[inside], var[inside], rtol=2e-12)


def test_the_default_forty_steps_are_right_to_nine_digits():
    every = [f for f in all_features() if f.dataset in ("iris", "wine")]
    fitted = SecureFedYJ(engine="clear").fit([as_table(f.x for f in every)])
    assert not fitted.at_bound_.any()
    np.testing.assert_allclose(fitted.lambdas_, [f.lmbda for f in every], rtol=1e-9)
    np.testing.assert_allclose(fitted.mean_, [f.mean for f in every], rtol=1e-9)
    np.testing.assert_allclose(fitted.var_, [f.var for f in every], rtol=1e-9)


def test_tight_bounds_admit_lambdas_far_away():
    """Bounds as the data sheet has them: pixels from 0 to 16, or what little of it is used."""
    every = [f for f in features("digits") if f.column in (7, 8, 15, 23, 40, 47, 55)]
    bounds = [(0, f.x.max()) for f in every]
    fitted = SecureFedYJ(engine="clear", bounds=bounds, max_steps=60).fit(
        [as_table(f.x for f in every)]
    )
    reached = ~fitted.at_bound_
    assert reached.sum() >= 4
    assert np.abs(fitted.lambdas_[reached]).max() > 40
    wanted = np.array([f.lmbda for f in every])
    np.testing.assert_allclose(fitted.lambdas_[reached], wanted[reached], rtol=1e-12)


def test_bounds_change_the_result_by_less_than_the_grid_allows():
    X = table("wine")
    wide_open = SecureFedYJ(engine="clear", max_steps=55).fit([X])
    tight = SecureFedYJ(engine="clear", max_steps=55, bounds=(0, 2000)).fit([X])
    np.testing.assert_allclose(tight.lambdas_, wide_open.lambdas_, rtol=1e-12)


@pytest.mark.parametrize("engine", ["clear", "replicated"])
def test_levels_per_exchange_change_nothing_that_can_be_seen(engine):
    rng = np.random.default_rng(8)
    X = as_table([rng.lognormal(size=60), rng.normal(size=50), [0.0] * 30 + [1.0], [2.0] * 7])
    fits = {
        levels: SecureFedYJ(engine, 19, levels_per_exchange=levels).fit(shuffled(X, 3))
        for levels in (1, 2, 4, 8)
    }
    assert fits[1].at_bound_.tolist() == [False, False, True, False]
    for levels in (2, 4, 8):
        assert_same_bits(fits[levels], fits[1])


@pytest.mark.parametrize(("steps", "levels"), [(10, 3), (10, 7), (8, 8), (7, 8)])
def test_levels_that_do_not_divide_the_steps(steps, levels):
    """The last exchange is shorter, or the only one."""
    X = np.random.default_rng(4).gamma(2, size=(40, 1))
    options: dict[str, Any] = {"engine": "clear", "max_steps": steps}
    one = SecureFedYJ(**options, levels_per_exchange=1).fit([X])
    assert_same_bits(SecureFedYJ(**options, levels_per_exchange=levels).fit([X]), one)


small = st.lists(
    st.lists(
        st.one_of(st.just(np.nan), st.floats(-100, 100), st.sampled_from([0.0, 1.0, -1.0])),
        min_size=2,
        max_size=2,
    ),
    max_size=12,
)


@settings(max_examples=15)
@given(st.lists(small, min_size=3, max_size=5).filter(any))  # some silo has rows
def test_any_split_of_any_data_gives_the_bits_of_one_silo(silos):
    tables = [np.array(rows, dtype=np.float64).reshape(-1, 2) for rows in silos]
    options: dict[str, Any] = {"max_steps": 11, "levels_per_exchange": 4, "bounds": (-100, 100)}
    one = SecureFedYJ(engine="clear", **options).fit([np.concatenate(tables)])
    assert_same_bits(SecureFedYJ(**options).fit(tables), one)
    assert one.transcript_.audit().passed


# --- Cost ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("levels", "most"), [(4, 190), (8, 125)])
def test_rounds_of_forty_steps(levels, most):
    X = np.random.default_rng(1).lognormal(size=(60, 2))
    fitted = SecureFedYJ(levels_per_exchange=levels).fit(shuffled(X, 3))
    assert fitted.cost_.rounds <= most


def test_bytes_of_a_hundred_features():
    rng = np.random.default_rng(1)
    X = np.concatenate([rng.lognormal(size=(600, 50)), rng.normal(size=(600, 50))], axis=1)
    fitted = SecureFedYJ(levels_per_exchange=1).fit(shuffled(X, 3))
    for peers in fitted.cost_.bytes_sent.values():
        assert all(sent <= 40_000 * 100 for sent in peers.values())


# --- Roles -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small_table() -> np.ndarray:
    rng = np.random.default_rng(11)
    return np.stack([rng.lognormal(size=40), rng.normal(size=40), rng.uniform(0, 9, 40)], axis=1)


@pytest.fixture(scope="module")
def one_silo(small_table) -> SecureFedYJ:
    return SecureFedYJ(engine="clear").fit([small_table])


def test_two_silos_and_a_coordinator_without_data(small_table, one_silo):
    fitted = SecureFedYJ().fit([small_table[:7], small_table[7:], None])
    assert_same_bits(fitted, one_silo)
    assert len(fitted.transcript_.agreement.parties) == 3
    assert fitted.transcript_.agreement.helpers == ("silo 3",)
    assert fitted.transcript_.agreement.silos == ("silo 1", "silo 2")


def test_a_coordinator_may_stand_first(small_table, one_silo):
    assert_same_bits(SecureFedYJ().fit([None, small_table[:7], small_table[7:]]), one_silo)


def test_silos_outside_the_committee(small_table, one_silo):
    fitted = SecureFedYJ().fit(np.array_split(small_table, 5))
    assert_same_bits(fitted, one_silo)
    agreed = fitted.transcript_.agreement
    assert agreed.committee == agreed.parties[:3]


def test_a_silo_without_rows_and_one_without_values_of_a_feature(small_table, one_silo):
    # The second feature of the first silo is moved to rows of their own at the second.
    first, second = small_table[:10].copy(), np.full((10, 3), np.nan)
    second[:, 1] = first[:, 1]
    first[:, 1] = np.nan
    parts = [first, np.concatenate([second, small_table[10:]]), small_table[:0]]
    assert_same_bits(SecureFedYJ().fit(parts), one_silo)


def test_all_parties_end_with_the_same_transcript(small_table):
    agreed = agreement(3, silos=5, engine="replicated", max_steps=8)
    first, *others = run(agreed, np.array_split(small_table, 5))
    for other in others:
        assert list(other.to_lines()) == list(first.to_lines())


def test_values_at_their_bounds_and_zero_as_a_bound():
    """Zero belongs to the side of the positive values, also where there are no others."""
    X = np.array([[-5.0, 0.0], [0.0, 9.0], [-4.0, 1.0], [-1.0, 0.5]])
    fitted = SecureFedYJ(engine="clear", max_steps=60, bounds=[(-5, 0), (0, 9)]).fit([X])
    expected = [float(oracle.optimum(column)) for column in X.T]
    np.testing.assert_allclose(fitted.lambdas_, expected, rtol=1e-13)


@pytest.mark.parametrize("engine", ["clear", "replicated"])
def test_features_without_variance_without_values_and_with_one_value(engine):
    constants = [0.0, 1.0, 5.25, 1e-3, 1234.5, 2.0**20, -1.0, -100.0, -3e5, -(2.0**20)]
    X = np.full((9, len(constants) + 3), np.nan)
    X[:, : len(constants)] = constants
    X[4, -3:-1] = [17.5, -17.5]
    fitted = SecureFedYJ(engine=engine, levels_per_exchange=2).fit(np.array_split(X, 3))
    assert fitted.lambdas_.tolist() == [1.0] * X.shape[1]
    assert fitted.var_.tolist() == [0.0] * X.shape[1]
    assert not fitted.at_bound_.any()
    assert fitted.n_samples_seen_.tolist() == [9] * len(constants) + [1, 1, 0]
    expected = [*constants, 17.5, -17.5, 0.0]
    np.testing.assert_allclose(fitted.mean_, expected, rtol=1e-12, atol=0)
    Z = fitted.transform(np.array([expected]))
    np.testing.assert_allclose(Z / (1 + np.abs(expected)), 0, atol=1e-12)
    assert fitted.transcript_.audit().passed


# --- Errors ----------------------------------------------------------------------------------


@pytest.mark.parametrize("silos", [1, 2])
def test_too_few_parties_are_refused_with_the_reason(small_table, silos):
    with pytest.raises(ValueError, match="cannot keep secrets from each other") as caught:
        SecureFedYJ().fit(np.array_split(small_table, silos))
    assert str(caught.value).startswith(f"{silos} parties")
    assert "fit([X_1, X_2, None])" in str(caught.value)


def test_an_array_instead_of_a_list_is_refused(small_table):
    for pooled in (small_table, pd.DataFrame(small_table)):
        with pytest.raises(ValueError, match=r"list with one table per silo.* use ExpYJ"):
            SecureFedYJ().fit(pooled)


def test_nobody_with_data_is_refused():
    with pytest.raises(ValueError, match="at least one silo must have data"):
        SecureFedYJ().fit([None, None, None])
    with pytest.raises(ValueError, match="at least one silo must have data"):
        SecureFedYJ().fit([])


def test_silos_with_different_columns_are_refused_by_number(small_table):
    with pytest.raises(ValueError, match=r"silo 2: X has 2 features, .* expecting 3 features"):
        SecureFedYJ().fit([small_table, small_table[:, :2], small_table])


def test_silos_with_other_names_or_another_order_are_refused_by_name(small_table):
    frame = pd.DataFrame(small_table, columns=["age", "dose", "weight"])
    other = frame.rename(columns={"dose": "dosage"})
    with pytest.raises(ValueError, match=r"(?s)silo 3: .*dosage.*dose"):
        SecureFedYJ().fit([frame, frame, other])
    with pytest.raises(ValueError, match=r"(?s)silo 2: .*order"):
        SecureFedYJ().fit([frame, frame[["dose", "age", "weight"]], frame])


def test_values_that_are_no_numbers_are_refused_at_their_silo(small_table):
    with pytest.raises(ValueError, match=r"silo 2: .*string"):
        SecureFedYJ().fit([small_table, [["a", "b", "c"]], small_table])
    infinite = small_table.copy()
    infinite[3, 1] = np.inf
    with pytest.raises(ValueError, match=r"silo 3: .*infinity"):
        SecureFedYJ().fit([small_table, small_table, infinite])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"engine": "paillier"}, "engine must be one of .* got 'paillier'"),
        ({"max_steps": 0}, "max_steps must be a positive integer, got 0"),
        ({"max_steps": 4.0}, "max_steps must be a positive integer, got 4.0"),
        ({"levels_per_exchange": -1}, "levels_per_exchange must be a positive integer, got -1"),
        ({"levels_per_exchange": 9}, "levels_per_exchange must be a whole number <= 8, not 9"),
        ({"max_steps": 201}, "max_steps must be a whole number <= 200, not 201"),
        ({"result_bits": 7}, "result_bits must be a whole number >= 8, not 7"),
        ({"result_bits": 45}, "result_bits must be a whole number <= 44, not 45"),
        ({"result_bits": True}, "result_bits must be a positive integer, got True"),
        ({"bounds": (5, 4)}, "lower < upper"),
        ({"bounds": (-1e-300, 1e-299)}, "below 1e-292 there is no grid for sums"),
        ({"bounds": [(0, 1)] * 2}, "3 pairs"),
    ],
)
def test_wrong_parameters_are_refused_in_fit(small_table, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        SecureFedYJ(**options).fit(np.array_split(small_table, 3))


def test_a_value_outside_the_bounds_is_an_error_at_its_silo_and_the_others_only_stop(small_table):
    parts = np.array_split(small_table.copy(), 3)
    parts[1][2, 2] = 777.125
    agreed = agreement(3, engine="replicated", bounds=[(0, 60), (-9, 9), (0, 10)])
    parties, recorder = assemble([agreed] * 3, parts), Recorder()
    with pytest.raises(OutOfBounds, match=r"'feature 2' has 1 value\(s\) .* \[0, 10\]"):
        inprocess.run(parties, recorder)
    assert isinstance(parties[1].error, OutOfBounds)
    assert "777" not in str(parties[1].error)
    for party in (parties[0], parties[2]):
        assert isinstance(party.error, PartyStopped)
        text = str(party.error) + "".join(party.error.__notes__)
        assert "silo 2" in text
        assert not re.search(r"feature|bound|777|10\b", text)
    # What left the silo is its greeting and that it stops.
    sent = [(m.kind, m.payload) for m in recorder.messages if m.sender == "silo 2"]
    assert {kind for kind, _ in sent} == {Kind.HELLO, Kind.STOP}
    assert all(payload == b"" for kind, payload in sent if kind == Kind.STOP)


def test_the_estimator_says_the_same(small_table):
    with pytest.raises(OutOfBounds, match=r"'2' has 40 value\(s\) outside .* \[10, 20\]"):
        SecureFedYJ(bounds=[(0, 60), (-9, 9), (10, 20)]).fit([small_table] * 3)


DISAGREEMENTS: dict[str, dict[str, Any]] = {
    "bounds": {"domain": Domain.from_bounds((-100, 101), 3)},
    "max_steps": {"max_steps": 9},
    "levels": {"levels_per_exchange": 2},
    "feature names": {"features": ("feature 0", "feature 1", "feature two")},
    "feature order": {"features": ("feature 0", "feature 2", "feature 1")},
    "engine": {"engine": "clear"},
    "committee": {"committee": ("silo 2", "silo 1", "silo 3")},
    "minimum of values": {"minimum_values": 10},
    "precision": {"result_bits": 24},
    "helpers": {"helpers": ("silo 3",)},
}


@pytest.mark.parametrize("stranger", [0, 2])
@pytest.mark.parametrize("change", DISAGREEMENTS)
def test_silos_that_disagree_are_stopped_before_data_are_touched(
    small_table, monkeypatch, change, stranger
):
    constructed = []

    def spy(self, *args, original=ArraySilo.__init__, **kwargs):
        constructed.append(self)
        original(self, *args, **kwargs)

    monkeypatch.setattr(ArraySilo, "__init__", spy)
    agreed = agreement(3, engine="replicated", bounds=(-100, 100), max_steps=8)
    parts = np.array_split(small_table, 3)
    agreements = [agreed] * 3
    agreements[stranger] = replace(agreed, **DISAGREEMENTS[change])
    parties = assemble(agreements, parts)
    with pytest.raises(ProtocolError, match="has other public parameters"):
        inprocess.run(parties)
    assert all(isinstance(party.error, ProtocolError | PartyStopped) for party in parties)
    assert constructed == []
    run(agreed, parts)
    assert len(constructed) == 3, "the spy would have seen it"


@pytest.mark.parametrize("engine", ["clear", "replicated"])
def test_too_few_values_stop_the_run_after_the_counts(small_table, engine):
    parts = np.array_split(small_table.copy(), 3)
    parts[0][:5, 1] = np.nan
    enough = agreement(3, engine=engine, minimum_values=35, max_steps=4)
    assert run(enough, parts)[0].result.n.tolist() == [40, 35, 40]
    parties, recorder = assemble([replace(enough, minimum_values=36)] * 3, parts), Recorder()
    with pytest.raises(TooFewValues, match=r"fewer than 36 values .*'feature 1' \(35\)") as caught:
        inprocess.run(parties, recorder)
    assert "feature 0" not in str(caught.value)
    # Everybody sees the counts, so that everybody stops; no sum is shared after them.
    assert all(isinstance(party.error, TooFewValues | PartyStopped) for party in parties)
    inputs = {message.round for message in recorder.messages if message.kind & Kind.INPUT}
    assert len(inputs) == 1


# --- Silent ----------------------------------------------------------------------------------


def silo_integers(tables, transcript) -> tuple[list[int], list[int]]:
    """Every sum of every silo at the visited lambdas; and what a silo shares of them."""
    agreed, n = transcript.agreement, transcript.result.n
    visited = [(r.features, r.lmbda, 5) for r in transcript.all(Step)]
    visited.append((np.arange(len(n)), transcript.result.lmbda, 2))
    sums, shared = [], []
    for chosen, lmbda, terms in visited:
        domain = agreed.domain.take(chosen)
        encoding = choose_encoding(domain, n[chosen], lmbda)
        for X in tables:
            found = totals(X[:, chosen], domain, lmbda, encoding, 32)
            for count, shift, S in zip(n[chosen].tolist(), domain.phi_grid(), found, strict=True):
                m = count << int(shift)
                sums += S
                shared += [S.y, count * S.yy, m * S.d, count * m * S.yd, S.phi][:terms]
    return sums, shared


def mentioned(value: int, text: str) -> bool:
    """Whether a long integer stands in a text, in decimal or hexadecimal."""
    return str(abs(value)) in text or f"{abs(value):x}" in text


@pytest.fixture(scope="module")
def distinctive() -> list[np.ndarray]:
    """Values that would be recognized wherever they appear."""
    rng = np.random.default_rng(77)
    return np.array_split(np.round(rng.lognormal(3, 1, size=(30, 2)), 9), 3)


def test_no_value_and_no_sum_stands_in_anything_that_can_be_printed(distinctive):
    fitted = SecureFedYJ(max_steps=12, levels_per_exchange=2).fit(distinctive)
    transcript = fitted.transcript_
    audit = transcript.audit()
    shown = [fitted, fitted.cost_, transcript, audit, audit.statement(), transcript.agreement]
    text = "".join(f"{thing!r} {thing}" for thing in shown)
    text += "".join(map(str, transcript.to_lines()))
    for value in np.concatenate(distinctive).ravel().tolist():
        assert repr(value) not in text
        assert value.hex() not in text
    integers = {value for group in silo_integers(distinctive, transcript) for value in group}
    assert len(integers) > 200
    assert not any(mentioned(value, text) for value in integers)
    # Nor the sums over all silos, of which no more than S_y and V are opened, and not in full.
    pooled, _ = silo_integers([np.concatenate(distinctive)], transcript)
    assert not any(mentioned(value, text) for value in pooled)
    assert mentioned(transcript.reveals[-1].V[0], text), "what is revealed does stand there"


def test_no_sum_is_sent_as_it_is(distinctive):
    """Little-endian words of the sums in the messages: all with `clear`, none with `replicated`."""
    words = {}
    for engine in ("clear", "replicated"):
        recorder = Recorder()
        agreed = agreement(2, engine=engine, max_steps=6, levels_per_exchange=1)
        transcript, *_ = run(agreed, distinctive, recorder)
        words[engine] = {
            message.payload[i : i + 8]
            for message in recorder.messages
            for i in range(0, len(message.payload) - 7, 8)
        }
    _, shared = silo_integers(distinctive, transcript)
    # The lowest word of a multiple of 2^52 is too often zero: take the second.
    second = {wide.to_bytes(wide.from_ints([value], 32))[8:16] for value in shared}
    assert second <= words["clear"]
    assert not second & words["replicated"]


class Repeated:
    """A silo where every row of another one stands for many equal ones."""

    def __init__(self, silo, times):
        self.silo, self.times = silo, times

    @property
    def count(self):
        return self.silo.count * self.times

    def sums(self, feature, lmbda, encoding, limbs):
        sums = self.silo.sums(feature, lmbda, encoding, limbs)
        return Sums(*(wide.scale(part, self.times) for part in sums))

    def phi_sum(self, features, limbs):
        return wide.scale(self.silo.phi_sum(features, limbs), self.times)

    def ranks(self, feature, points):
        return self.silo.ranks(feature, points) * self.times


@pytest.mark.parametrize("times", [2**16 + 1, 2**31 + 9, 2**40 // 30])
def test_rows_without_number_give_the_signs_of_their_pattern(distinctive, times):
    """n, n^2 and the sums take more and more digits, and one feature has fewer values."""
    tables = [table.copy() for table in distinctive]
    tables[0][3, 1] = np.nan
    agreed = agreement(
        2,
        parties=THREE.parties,
        committee=THREE.committee,
        engine="replicated",
        max_steps=12,
        levels_per_exchange=3,
    )

    def signs(times):
        async def program(engine, name):
            table = tables[THREE.parties.index(name)]
            silo = ArraySilo(table, agreed.domain, list(agreed.features))
            return await secure_fed_yj(engine, Repeated(silo, times), agreed)

        transcript, *_ = simulate(program)
        steps = list(transcript.all(Step))
        return [(r.features.tolist(), r.lmbda.tolist(), r.delta.tolist()) for r in steps]

    assert signs(times) == signs(1)
    with pytest.raises(ProtocolError, match=r"values below 0 or above 2\^40"):
        signs(2**40 // 30 + 1)


def test_features_on_different_grids_of_phi_do_not_disturb_each_other():
    rng = np.random.default_rng(3)
    scales = np.array([0.05, 1.0, 3e-4, 20.0])
    tables = [rng.gamma(2.0, 0.1, (25, 4)) * scales for _ in range(3)]
    bounds = [(-0.1, 0.1), (-1e6, 1e6), (0.0, 1e-3), (0.0, 500.0)]
    assert len(set(Domain.from_bounds(bounds, 4).phi_grid().tolist())) > 2
    together = SecureFedYJ(bounds=bounds, max_steps=25).fit(tables)
    for j, pair in enumerate(bounds):
        alone = SecureFedYJ(bounds=pair, max_steps=25).fit([table[:, [j]] for table in tables])
        for name in ("lambdas_", "mean_", "var_"):
            assert getattr(alone, name)[0] == getattr(together, name)[j]


def test_two_runs_on_the_same_data_share_no_payload(distinctive):
    X = np.concatenate(distinctive)
    tables = [np.tile(part, 60) * np.linspace(1, 2, 120) for part in np.array_split(X, 3)]
    seen = []
    for _ in range(2):
        recorder = Recorder()
        run(agreement(120, engine="replicated", max_steps=5), tables, recorder)
        # Openings of a single bit per feature have 15 bytes; chance does not repeat those.
        secret = [m for m in recorder.messages if m.kind != Kind.HELLO]
        # The digest of the transcript, which goes to all before the inputs, is public.
        payloads = (m.payload[DIGEST_BYTES if m.kind & Kind.DIGEST else 0 :] for m in secret)
        seen.append({payload for payload in payloads if payload})
    assert len(seen[0]) > 100
    assert min(map(len, seen[0])) >= 15
    assert not seen[0] & seen[1]


def test_the_example_of_the_document_is_what_a_run_sends():
    rng = np.random.default_rng(198)
    tables = [rng.lognormal(0.3, 0.7, (100, 1)) for _ in range(3)]
    agreed = agreement(1, engine="replicated", parties=("a", "b", "c"), committee=("a", "b", "c"))
    parties, recorder = assemble([agreed] * 3, tables), Recorder()
    transcript, *_ = inprocess.run(parties, recorder)
    page = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text(encoding="utf-8")
    example = page[page.index("**Example.** Three silos") : page.index("### 9.1")]
    assert f"optimum {transcript.result.lmbda[0]:.3f}." in example
    (rounds,) = re.findall(r"^    rounds .* = (\d+)$", example, re.MULTILINE)
    assert int(rounds) == parties[0].rounds
    listed = dict(re.findall(r"^    ([A-Z]+) .* = (\d+)$", example, re.MULTILINE))
    assert len(listed) == 6
    digests = [m for m in recorder.messages if m.sender == "a" and m.kind & Kind.DIGEST]
    assert DIGEST_BYTES * len(digests) == int(listed["DIGEST"])
    for name, total in listed.items():
        sent = [m for m in recorder.messages if m.sender == "a" and m.kind & Kind[name]]
        if name != "DIGEST":
            size = sum(len(m.payload) - DIGEST_BYTES * bool(m.kind & Kind.DIGEST) for m in sent)
            assert size == int(total), name
    (whole,) = re.findall(r"`a` sends (\d+) bytes", example.replace("\n", " "))
    assert int(whole) == sum(parties[0].bytes_sent.values())


def test_nothing_but_counts_signs_and_moments_is_opened(distinctive, monkeypatch):
    """Every opening of a run, seen at the engine, is accounted for in the transcript."""
    opened = []

    def spy(name):
        original = getattr(Replicated, name)

        async def observed(self, a):
            values = await original(self, a)
            opened.append((name, np.asarray(values).copy()))
            return values

        monkeypatch.setattr(Replicated, name, observed)

    spy("open")
    spy("open_bits")
    transcript, *_ = run(agreement(2, engine="replicated", max_steps=9), distinctive)
    per_party = len(opened) // 3
    assert len(opened) == 3 * per_party
    integers = [values for name, values in opened if name == "open"]
    bits = sum(values.size for name, values in opened if name == "open_bits")
    assert len(integers) == 3
    assert all(values.tolist() == [[30, 30]] for values in integers), "the counts, and no more"
    signs = sum(len(r.features) for r in transcript.all(Step))
    assert signs == 18
    (magnitudes,) = transcript.all(Magnitudes)
    encoding = choose_encoding(
        transcript.agreement.domain, transcript.result.n, transcript.result.lmbda
    )
    # For each feature: whether it varies; which multiple of 8 bits V reaches; 52 bits of V; S_y
    # without the bits below 44 bits under its standard deviation, up to the top of the ring, which
    # is as wide as V.
    ring = 64 * -(-(int(encoding.v_bits.max()) + 2) // 64)
    low = 4 * magnitudes.magnitude - 44
    assert low.min() > 0
    thresholds = int(encoding.v_bits.max()) // 8
    assert bits == 3 * (signs + 2 * (1 + thresholds + 52) + int((ring - low).sum()))


def test_shared_values_show_their_shape_only(distinctive, monkeypatch):
    """What the program holds while it runs cannot be printed by accident."""
    texts = []
    original = Replicated.share

    async def observed(self, values, **shape):
        shared = await original(self, values, **shape)
        texts.append(f"{shared!r} {shared} {shared[:1]!r} {[shared]}")
        with pytest.raises(TypeError, match="is secret"):
            bool(shared)
        return shared

    monkeypatch.setattr(Replicated, "share", observed)
    run(agreement(2, engine="replicated", max_steps=3, levels_per_exchange=1), distinctive)
    assert len(texts) >= 12
    for text in texts:
        assert not re.search(r"\d{4,}", text)
        assert "integers of" in text

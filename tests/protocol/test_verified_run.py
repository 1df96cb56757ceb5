"""A verified run ends like any other, bit for bit; and what does not hold has no result."""

from __future__ import annotations

import copy
from functools import cache

import numpy as np
import pytest

from securefedyj import SecureFedYJ
from securefedyj.engines.replicated.engine import Verified
from securefedyj.errors import Unverified
from securefedyj.numerics.sums import ArraySilo
from securefedyj.protocol import batch as batch_module
from securefedyj.protocol import course as course_module
from securefedyj.protocol.program import secure_fed_yj
from securefedyj.protocol.reveals import Final, Magnitudes, Moments, Verdict
from securefedyj.protocol.transcript import Transcript
from tests.federated_data import agreement, by_value, run, shuffled
from tests.protocol.small_run import NAMES, data
from tests.protocol.test_resuming import Diary
from tests.simulation import FIVE, THREE, Consortium, simulate

STEPS = 9
TWO = Consortium(("ana", "bob", "hub"), ("bob", "hub", "ana"), ("ana", "bob"))
CONSORTIA = {"three": THREE, "five": FIVE, "two": TWO}


def fit(start=None, *, consortium=THREE, verified=True, levels=4, diary=None, **more):
    """The transcripts of all parties, each still without the result."""
    agreed = agreement(
        6,
        parties=consortium.parties,
        committee=consortium.committee,
        engine="replicated",
        features=NAMES,
        max_steps=STEPS,
        levels_per_exchange=levels,
        helpers=tuple(p for p in consortium.parties if p not in consortium.silos),
        verified=verified,
    )
    parts = np.array_split(data(), len(consortium.silos))
    tables = dict(zip(consortium.silos, parts, strict=True))

    async def one(engine, name):
        silo = None
        if name in tables:
            silo = ArraySilo(tables[name], agreed.domain, list(agreed.features))
        before = None if start is None else Transcript.from_lines(start)
        logs = [diary] if diary is not None and name == consortium.parties[0] else []
        return await secure_fed_yj(engine, silo, agreed, before, *logs)

    return simulate(one, consortium, **more)


def lines_of(transcript):
    return list(transcript.to_lines())


@cache
def whole(name="three"):
    """The lines of a verified run; not to be changed."""
    return tuple(lines_of(fit(consortium=CONSORTIA[name])[0]))


# --- The same ----------------------------------------------------------------------------------


@pytest.mark.parametrize("consortium", CONSORTIA)
@pytest.mark.parametrize("levels", [1, 4, 5])
def test_every_reveal_is_that_of_a_run_that_is_not_verified(consortium, levels):
    """Of features of each sign, beyond the edge, constant, with one value and with none."""
    options = {"consortium": CONSORTIA[consortium], "levels": levels}
    plain = fit(verified=False, **options)[0]
    for transcript in fit(**options):
        lines = lines_of(transcript)
        assert [line.get("reveal") for line in lines].count("final") == 1
        assert lines[1:-1] == lines_of(plain)[1:-2]
        assert lines[-1] == final_line(plain)
        assert transcript.concluded().audit().passed


def final_line(plain):
    """The last line of a verified run with one batch, by a run that is not verified."""
    magnitudes, moments = plain.reveals[-2:]
    expected = {"reveal": "final", "features": [*range(6)], "holds": True}
    for name, empty, values in [
        ("magnitude", 0, magnitudes.magnitude.tolist()),
        ("V", "0x0", map(hex, moments.V)),
        ("S_y", "0x0", map(hex, moments.S_y)),
    ]:
        told = dict(zip(moments.features.tolist(), values, strict=True))
        expected[name] = [told.get(j, empty) for j in range(6)]
    return expected


@pytest.mark.parametrize("split", [shuffled, by_value])
@pytest.mark.parametrize("silos", [3, 4])
def test_the_result_does_not_depend_on_the_split(split, silos):
    results = []
    for verified in (False, True):
        agreed = agreement(6, silos, engine="replicated", max_steps=30, verified=verified)
        results.append(lines_of(run(agreed, split(data(), silos))[-1])[-1])
    assert results[0] == results[1]
    assert results[0].keys() == {"result"}


def test_bounds_of_all_kinds_and_groups_of_each_width(monkeypatch):
    monkeypatch.setattr(batch_module, "WORTHWHILE", 1)
    bounds = [(-(2.0**20), 2.0**20), (-9, 9), (0, 1), (0, 9), (0, 2.0**60), (-1, 1)]
    X = np.abs(data())[:, [0, 1, 2, 3, 0, 2]]
    X[:, 1] /= 10
    tables = shuffled(X, 3)
    found = []
    for verified in (False, True):
        agreed = agreement(6, bounds=bounds, engine="replicated", max_steps=40, verified=verified)
        found.append(run(agreed, tables)[0])
    plain, transcript = found
    lines, expected = lines_of(transcript), lines_of(plain)
    assert lines[-1] == expected[-1], "the result"
    assert lines[1:-2] == expected[1:-3]
    assert lines[-2] == final_line(plain)


def test_the_estimator_takes_it_and_other_engines_refuse():
    X = [np.array([[1.0], [2.0]]), np.array([[4.0]]), None]
    fitted = SecureFedYJ(max_steps=5, verified=True).fit(X)
    assert fitted.transcript_.agreement.verified
    assert len(list(fitted.transcript_.all(Verdict))) == 1
    for engine in ("clear", "mpyc"):
        with pytest.raises(ValueError, match=f"engine '{engine}' cannot verify"):
            SecureFedYJ(engine, verified=True).fit([[[1.0]], [[2.0]], [[3.0]]])


def test_batches_are_verified_one_by_one_also_one_without_values(monkeypatch):
    monkeypatch.setattr(course_module, "PAIRS_AT_ONCE", 15)  # one feature
    lines = lines_of(fit()[0])
    finals = [line["features"] for line in lines if line.get("reveal") == "final"]
    assert finals == [[j] for j in range(6)]
    nothing = {"magnitude": [0], "V": ["0x0"], "S_y": ["0x0"]}
    assert lines[-1] == {"reveal": "final", "features": [5], "holds": True, **nothing}
    for length in (len(lines) - 2, len(lines) - 1):
        assert lines_of(fit(lines[:length])[0]) == lines


# --- Going on ------------------------------------------------------------------------------------


@pytest.mark.parametrize("consortium", ["three", "five"])
def test_a_run_that_goes_on_from_any_opening_ends_the_same(consortium):
    lines = list(whole(consortium))
    for length in range(1, len(lines) + 1):
        for again in fit(lines[:length], consortium=CONSORTIA[consortium]):
            assert lines_of(again) == lines


def test_a_batch_is_opened_at_once_after_one_check_of_its_own(monkeypatch):
    """Each batch has its own verified exchange, in which nothing is opened before the check."""
    seen = []
    original, checking = Verified.open_bits, Verified.check

    async def open_bits(self, a):
        seen.append(("open", self))
        return await original(self, a)

    async def check(self, accept):
        seen.append(("check", self))
        await checking(self, accept)

    monkeypatch.setattr(Verified, "open_bits", open_bits)
    monkeypatch.setattr(Verified, "check", check)
    monkeypatch.setattr(course_module, "PAIRS_AT_ONCE", 45)  # three features
    transcripts = fit()
    assert len(list(transcripts[0].all(Final))) == 2
    exchanges = {id(context): [] for _, context in seen}
    for what, context in seen:
        exchanges[id(context)].append(what)
    assert list(exchanges.values()) == [["check", "open"]] * 2 * 3


def test_the_log_hears_of_the_part_before_the_opening():
    diary = Diary()
    lines, n = list(whole()), len(whole()) - 1
    fit(lines[:-1], diary=diary)
    assert diary.entries == [
        ("exchange", n - 1),
        ("accepted", n - 1),
        ("opening", n - 1),
        ("revealed", n),
    ]


# --- What does not hold --------------------------------------------------------------------------


def flipped_sign(lines, step, feature):
    """The lines up to a step, whose sign is another."""
    index = next(k for k, line in enumerate(lines) if line.get("step") == step)
    line = lines[index]
    line["delta"][line["features"].index(feature)] *= -1
    return lines[: index + 1]


@pytest.mark.parametrize(("step", "feature"), [(0, 0), (4, 1), (STEPS - 1, 0), (3, 2)])
def test_a_made_up_sign_is_refuted(step, feature):
    """All parties were handed it; the search went on from there, to a wrong lambda."""
    lines = flipped_sign(copy.deepcopy(list(whole())), step, feature)
    with pytest.raises(Unverified, match="does not hold for the sums of all silos"):
        fit(lines)


@pytest.mark.parametrize("feature", [0, 3, 4, 5])
def test_made_up_counts_are_refuted(feature):
    lines = copy.deepcopy(list(whole())[:2])
    lines[1]["n"][feature] += 1
    with pytest.raises(Unverified, match="does not hold"):
        fit(lines)


@pytest.mark.parametrize("feature", [0, 3])
def test_a_made_up_variation_is_refuted(feature):
    lines = copy.deepcopy(list(whole())[:3])
    lines[2]["varies"][lines[2]["features"].index(feature)] ^= True
    with pytest.raises(Unverified, match="does not hold"):
        fit(lines)


def zeros(holds):
    nothing = {"magnitude": [0] * 6, "V": ["0x0"] * 6, "S_y": ["0x0"] * 6}
    return {"reveal": "final", "features": [*range(6)], "holds": holds, **nothing}


def test_a_refuted_run_has_no_result_and_does_not_go_on():
    class Keeper(Diary):
        def revealed(self, transcript):
            super().revealed(transcript)
            self.lines = lines_of(transcript)

    keeper = Keeper()
    with pytest.raises(Unverified, match="does not hold"):
        fit(flipped_sign(copy.deepcopy(list(whole())), 0, 1), diary=keeper)
    assert keeper.lines[-1] == zeros(holds=False)
    assert [what for what, _ in keeper.entries[-2:]] == ["opening", "revealed"]
    sent = []

    def observe(message):
        sent.append(message.kind.name)
        return [message]

    with pytest.raises(Unverified, match="does not hold"):
        fit(keeper.lines, observe=observe)
    assert set(sent) <= {"HELLO", "KEY", "STOP"}, "nothing is shared again"
    audit = Transcript.from_lines(keeper.lines).concluded().audit()
    assert not audit.passed
    assert "what was revealed is not a whole run" in audit.findings


def test_a_run_that_was_to_be_verified_and_was_not_does_not_pass_the_audit():
    """It ends as one that is not verified does: with magnitudes and moments."""
    plain = lines_of(fit(verified=False)[0].concluded())
    audit = Transcript.from_lines([whole()[0], *plain[1:]]).audit()
    assert "feature 'income': whether it was verified revealed 0 times, not 1" in audit.findings
    assert audit.verdict is False


def test_magnitudes_and_moments_beside_a_final_opening_do_not_pass_the_audit():
    plain, lines = lines_of(fit(verified=False)[0]), list(whole())
    for more in (plain[-2:], plain[-2:-1]):
        audit = Transcript.from_lines([*lines, *more]).concluded().audit()
        assert any("revealed 2 times, not 1" in finding for finding in audit.findings)
    for kind in (Verdict, Magnitudes, Moments):
        assert len(list(Transcript.from_lines(lines).all(kind))) == 1

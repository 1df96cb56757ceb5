"""A run goes on from any opening of an earlier one, and opens nothing of it again."""

from __future__ import annotations

import gc
import warnings
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from securefedyj.engines.clear import Clear
from securefedyj.engines.replicated.engine import Replicated
from securefedyj.errors import ProtocolError
from securefedyj.numerics.sums import ArraySilo
from securefedyj.party.messages import Kind
from securefedyj.protocol import batch, schedule
from securefedyj.protocol.program import run_party, secure_fed_yj
from securefedyj.protocol.reveals import Counts, Magnitudes, Moments, Step, Variation
from securefedyj.protocol.transcript import Transcript
from tests.federated_data import agreement
from tests.protocol.small_run import data
from tests.simulation import FIVE, THREE, Recorder, simulate

STEPS = 9
ENGINES = {"clear": Clear, "replicated": Replicated}


class Diary:
    """A log that keeps what it is told, each with how much was revealed then."""

    def __init__(self):
        self.entries = []

    def exchange(self, transcript):
        self.entries.append(("exchange", len(transcript.reveals)))

    def opening(self, transcript):
        self.entries.append(("opening", len(transcript.reveals)))

    def accepted(self, transcript, part):
        self.entries.append(("accepted", len(transcript.reveals)))

    def revealed(self, transcript):
        self.entries.append(("revealed", len(transcript.reveals)))


def fit(
    start=None, *, engine="clear", levels=4, consortium=THREE, diary=None, observe=None, **more
):
    """The transcripts of all parties; the first of them keeps a diary."""
    agreed = agreement(
        6,
        parties=consortium.parties,
        committee=consortium.committee if engine == "replicated" else consortium.parties,
        engine=engine,
        max_steps=STEPS,
        levels_per_exchange=levels,
        **more,
    )
    parts = np.array_split(data(), len(consortium.parties))
    tables = dict(zip(consortium.parties, parts, strict=True))
    diary = Diary() if diary is None else diary

    async def one(engine, name):
        silo = ArraySilo(tables[name], agreed.domain, list(agreed.features))
        before = None if start is None else Transcript.from_lines(start)
        logs = [diary] if name == consortium.parties[0] else []
        return await secure_fed_yj(engine, silo, agreed, before, *logs)

    return simulate(one, consortium, engine, observe)


@cache
def whole(levels: int = 4) -> tuple[dict[str, Any], ...]:
    """The lines of a run that nothing has interrupted; not to be changed."""
    return tuple(fit(levels=levels)[0].to_lines())


@pytest.fixture(scope="module", autouse=True)
def whole_of_an_engine_as_it_is() -> None:
    """What is kept for all tests is computed before any of them alters the engine."""
    whole()


@pytest.mark.parametrize("levels", [1, 4])
def test_a_run_that_goes_on_from_any_opening_ends_the_same(levels):
    lines = list(whole(levels))
    kinds = [line.get("reveal") for line in lines[1:]]
    assert kinds == ["counts", "variation", *["step"] * STEPS, "magnitudes", "moments"]
    for length in range(1, len(lines) + 1):
        for again in fit(lines[:length], levels=levels):
            assert list(again.to_lines()) == lines


@pytest.mark.parametrize("length", [2, 3, 5, 2 + 9 + 1])
def test_secretly_too(length):
    lines = [*whole()]
    lines[0] = next(iter(fit(engine="replicated", consortium=FIVE)[0].to_lines()))
    for again in fit(lines[: 1 + length], engine="replicated", consortium=FIVE):
        assert list(again.to_lines()) == lines


@pytest.mark.parametrize("engine", ["clear", "replicated"])
def test_what_was_revealed_before_is_not_opened_again(engine, monkeypatch):
    """Seen at the engine: how many bits each party opens after each length of the transcript."""
    opened: list[tuple[int, int]] = []  # by whom, how many

    def spy(name):
        original = getattr(ENGINES[engine], name)

        async def observed(self, a):
            values = await original(self, a)
            opened.append((id(self), np.asarray(values).size))
            return values

        monkeypatch.setattr(ENGINES[engine], name, observed)

    spy("open")
    spy("open_bits")
    fit(engine=engine)
    each, lines = [size for party, size in opened if party == opened[0][0]], [*whole()]
    lines[0] = next(iter(fit(engine=engine)[0].to_lines()))
    assert len(each) == len(lines) - 1, "one opening for each reveal"
    for length in range(len(lines)):
        opened.clear()
        fit(lines[: 1 + length], engine=engine)
        assert sum(size for _, size in opened) == 3 * sum(each[length:])


def test_magnitudes_that_are_known_are_not_compared_again(monkeypatch):
    compared = []
    original = Clear.negative

    async def observed(self, a):
        compared.append(a.size)
        return await original(self, a)

    monkeypatch.setattr(Clear, "negative", observed)
    fit(list(whole()[:-1]))
    assert compared == []
    fit(list(whole()[:-2]))
    assert len(compared) == 3


def test_the_variation_that_is_known_is_not_computed_again(monkeypatch):
    """After it, the first exchange has one comparison per feature less, and no constant feature."""
    compared = []
    original = Clear.negative

    async def observed(self, a):
        compared.append(a.size)
        return await original(self, a)

    monkeypatch.setattr(Clear, "negative", observed)
    fit(list(whole()[:2]))
    first, *_ = compared
    compared.clear()
    fit(list(whole()[:3]))
    assert (first, compared[0]) == (15 * 4 + 4, 15 * 3)


@pytest.mark.parametrize("levels", [1, 4])
def test_the_log_hears_of_every_exchange_opening_and_reveal_in_order(levels):
    diary = Diary()
    fit(levels=levels, diary=diary)
    exchanges = [1, *[levels] * (STEPS // levels), *[STEPS % levels][: STEPS % levels], 2]
    exchanges[1] += 1  # the variation
    expected, revealed = [], 0
    for openings in exchanges:
        expected.append(("exchange", revealed))
        for _ in range(openings):
            expected += [("opening", revealed), ("revealed", revealed + 1)]
            revealed += 1
    assert diary.entries == expected


@pytest.mark.parametrize("consortium", [THREE, FIVE], ids=["three", "five"])
def test_the_log_hears_of_an_opening_before_anything_of_it_is_sent(consortium):
    """And of an exchange before its inputs, and of a reveal before whatever is sent next."""
    seen: list[Any] = []

    class Listener(Diary):
        def exchange(self, transcript):
            seen.append("exchange")

        def opening(self, transcript):
            seen.append("opening")

        def revealed(self, transcript):
            seen.append("revealed")

    def observe(message):
        if message.sender == consortium.parties[0] and message.kind not in (Kind.HELLO, Kind.KEY):
            seen.append(message.kind)
        return [message]

    fit(engine="replicated", consortium=consortium, diary=Listener(), observe=observe)
    state, rounds = None, 0
    for what in seen:
        if isinstance(what, str):
            order = {"exchange": (None, "revealed"), "opening": ("computing", "revealed")}
            assert state in order.get(what, ("sending",)), (what, state)
            state = {"exchange": "computing", "opening": "sending", "revealed": "revealed"}[what]
            rounds += what == "opening"
        elif what & Kind.OPENING:
            assert what == Kind.OPENING, "a round that is for nothing else"
            assert state == "sending"
        else:
            assert state == "computing"
    assert rounds == len(whole()) - 1


def test_each_exchange_begins_with_the_digest_of_the_transcript(monkeypatch):
    agreed = []

    async def agree(self, digest):
        agreed.append(digest)

    monkeypatch.setattr(Clear, "agree", agree)
    transcript = fit()[0]
    # Counts; variation and four levels; four levels; the last one; magnitudes and moments.
    assert agreed[::3] == [transcript.digest(k) for k in (0, 1, 6, 10, 11)]
    assert len(set(agreed)) == 5


def test_another_digest_stops_the_exchange_before_anything_is_computed(monkeypatch):
    shared = []
    original = Clear.negative

    async def agree(self, digest):
        raise ProtocolError("SFY-TEST-001", "another transcript")

    async def observed(self, a):
        shared.append(a)
        return await original(self, a)

    monkeypatch.setattr(Clear, "negative", observed)
    monkeypatch.setattr(Clear, "agree", agree)
    with pytest.raises(ProtocolError, match="another transcript"):
        fit(list(whole()[:4]))
    assert shared == []


# --- Several groups and several batches ------------------------------------------------------


@pytest.mark.parametrize("engine", ["clear", "replicated"])
def test_groups_of_a_batch_are_opened_together(monkeypatch, engine):
    """Whatever the groups, a level is one opening, and so are magnitudes and moments."""
    bounds = [(-(2.0**20), 2.0**20), (-9, 9), (0, 1), (0, 9), (0, 2.0**60), (-1, 1)]
    options = {"engine": engine, "domain": agreement(6, bounds=bounds).domain}
    expected = list(fit(**options)[0].to_lines())
    widths = []
    original = batch.groups_by_width

    def observed(limbs, least):
        found = list(original(limbs, least))
        widths.append(len(found))
        return found

    monkeypatch.setattr(batch, "groups_by_width", observed)
    monkeypatch.setattr(batch, "WORTHWHILE", 1)
    diary, recorder = Diary(), Recorder()
    transcript = fit(**options, diary=diary, observe=recorder)[0]
    assert min(widths[0], widths[-1]) > 1
    assert list(transcript.to_lines()) == expected
    assert sum(what == "opening" for what, _ in diary.entries) == len(transcript.reveals)
    for length in (1, 2, 4, len(transcript.reveals) - 1):
        assert list(fit(expected[: 1 + length], **options)[0].to_lines()) == expected


def test_batches_follow_each_other_and_can_be_interrupted(monkeypatch):
    monkeypatch.setattr(schedule, "PAIRS_AT_ONCE", 30)  # of two features
    lines = list(fit()[0].to_lines())
    kinds = [(line["reveal"], line["features"]) for line in lines[1:] if line["reveal"] != "step"]
    assert kinds == [
        ("counts", [0, 1, 2, 3, 4, 5]),
        *[(kind, [0, 1]) for kind in ("variation", "magnitudes", "moments")],
        *[(kind, [2, 3]) for kind in ("variation", "magnitudes", "moments")],
        *[(kind, [4]) for kind in ("magnitudes", "moments")],
    ]
    for length in range(1, len(lines)):
        assert list(fit(lines[:length])[0].to_lines()) == lines


# --- What cannot be --------------------------------------------------------------------------


@pytest.mark.parametrize("flip", [0, 5, -1])
def test_thresholds_that_are_no_prefix_stop_the_run_at_once(monkeypatch, flip):
    """A V that reaches a threshold without a lower one: somebody has altered an opening."""
    original = Clear.open_bits
    sizes = []

    async def altered(self, a):
        bits = (await original(self, a)).copy()
        sizes.append(bits.size)
        if bits.size > 100:  # 5 features with some 40 thresholds each
            bits = bits.reshape(-1, 5)
            reached = 1 - bits[:, 0]
            assert (reached[5], reached[-1]) == (1, 0)
            bits[flip, 0] ^= 1
            bits = bits.ravel()
        return bits

    monkeypatch.setattr(Clear, "open_bits", altered)
    diary = Diary()
    with pytest.raises(ProtocolError, match="reaches a threshold but not a lower one"):
        fit(diary=diary)
    assert diary.entries[-1] == ("opening", len(whole()) - 3), "nothing is opened by them"


def test_a_negative_count_stops_the_run(monkeypatch):
    original = Clear.open

    async def altered(self, a):
        counts = (await original(self, a)).copy()
        counts[0, 2] = np.uint64(2**64 - 3)
        return counts

    monkeypatch.setattr(Clear, "open", altered)
    with pytest.raises(ProtocolError, match="below 0 or above"):
        fit()


def test_a_transcript_of_another_course_is_refused():
    lines = [*whole()]
    for wrong in ([lines[0], lines[2]], [*lines[:4], lines[3]], [*lines[:2], *lines[3:]]):
        with pytest.raises(ValueError, match=r"reveal \d+: \w+"):
            fit(wrong)


def test_a_helper_with_data_is_refused():
    agreed = replace(agreement(6, engine="clear"), helpers=("silo 2",))
    silo = ArraySilo(data(), agreed.domain, list(agreed.features))
    with pytest.raises(ValueError, match="'silo 2' has data, but was agreed on as a helper"):
        run_party("silo 2", agreed, silo).send(None)


def test_the_kinds_of_reveals_of_a_run_are_these():
    transcript = Transcript.from_lines(list(whole()))
    kinds = {type(reveal) for reveal in transcript.reveals}
    assert kinds == {Counts, Variation, Step, Magnitudes, Moments}


@pytest.mark.usefixtures("nothing_left_over")
@pytest.mark.parametrize("number", [0, 1, 2, 2 + STEPS, 3 + STEPS])
def test_a_log_that_refuses_an_opening_ends_the_run_without_a_trace(number):
    class Refuses(Diary):
        def opening(self, transcript):
            if len(transcript.reveals) == number:
                raise ProtocolError("SFY-TEST-001", "no more of that")

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with pytest.raises(ProtocolError, match="no more of that"):
            fit(diary=Refuses())
        gc.collect()
    assert [str(warning.message) for warning in told] == []

"""What a party remembers, without a disk: what can have been opened, and what may be sent."""

from __future__ import annotations

from typing import Any

import pytest

from securefedyj.network.errors import EndOfRun, JoinError
from securefedyj.network.session.memory import Drained, Memory
from securefedyj.protocol.reveals import to_line
from securefedyj.protocol.transcript import Transcript
from tests.network.machines import AGREEMENT, OPENINGS, Notebook, memory, whole


class Kept(Memory):
    """Keeps the lines that a journal would write."""

    def __init__(self, **options: Any) -> None:
        self._notes = Notebook()
        super().__init__(AGREEMENT, lines=self._notes, **options)

    @property
    def lines(self) -> list[dict[str, Any]]:
        return self._notes.lines


def before(number: int) -> Transcript:
    return Transcript(AGREEMENT, whole().reveals[:number])


def test_before_any_exchange_nobody_can_have_an_opening():
    known = Memory(AGREEMENT)
    assert (known.least, known.most, known.sent) == (0, 0, 0)
    assert not known.finished
    known.exchange(before(0))
    assert (known.least, known.most, known.sent) == (0, 1, 0)


def test_what_others_can_have_is_the_present_exchange():
    """Counts; the variation and two steps; the last step; magnitudes and moments."""
    found = [(memory(length).least, memory(length).most) for length in range(OPENINGS + 1)]
    assert found == [(0, 1), (0, 4), (1, 4), (1, 4), (1, 5), (4, 7), (5, 7), (5, 7)]


def test_a_session_that_is_over_begins_no_exchange_and_sends_nothing():
    known = Kept()
    known.begin(0)
    known.exchange(before(0))
    known.draining = True
    lines = list(known.lines)
    with pytest.raises(Drained):
        known.exchange(before(0))
    known.opening(before(0))
    assert (known.lines, known.sent) == (lines, 0)
    known.take([whole().reveals[0]])
    assert len(known.transcript.reveals) == known.sent == 1, "what others have sent is taken"
    known.begin(1)
    known.exchange(before(1))
    known.opening(before(1))
    assert known.sent == 2


def test_who_is_not_of_the_committee_notes_no_opening():
    known = Kept(member=False)
    known.exchange(before(0))
    known.opening(before(0))
    assert known.lines == [{"exchange": 0}]


def test_what_cannot_come_next_is_neither_kept_nor_written():
    known = Kept()
    known.exchange(before(0))
    for wrong in (whole().reveals[1], whole().reveals[-1]):
        with pytest.raises(JoinError, match="What was opened is not what the protocol opens next"):
            known.take([wrong])
    assert known.lines == [{"exchange": 0}]
    assert known.transcript.reveals == []


def test_what_is_opened_again_must_be_what_it_was():
    known = Kept()
    known.exchange(before(0))
    known.take(whole().reveals[:3])
    lines = list(known.lines)
    known.revealed(before(3))
    assert known.lines == lines, "it is known"
    other: Any = whole().reveals[2]
    altered = [*whole().reveals[:2], other._replace(delta=-other.delta)]
    with pytest.raises(EndOfRun, match=r"^Opening 3 was made again with another value"):
        known.revealed(Transcript(AGREEMENT, altered))
    known.revealed(before(4))
    assert known.lines[len(lines) :] == [to_line(whole().reveals[3])]


def test_what_was_lost_is_made_again_once_in_a_run():
    known = Kept()
    known.begin(0)
    known.exchange(before(0))
    known.opening(before(0))
    known.begin(0, again=True)
    known.opening(before(0))
    assert known.repeats == [0]
    known.begin(0, again=True)
    with pytest.raises(EndOfRun, match="Opening 1 was sent before an interruption"):
        known.opening(before(0))


def test_a_session_counts_an_opening_as_sent_that_another_has_sent():
    known = Kept()
    known.begin(0)
    assert known.sent == 0
    known.begin(0, again=True)
    assert known.sent == 1
    known.begin(0, again=True)
    assert known.lines == [{"session": 0}, {"session": 0}, {"opening": 0}, {"session": 0}]


def test_an_exchange_begins_within_what_is_known():
    known = Memory(AGREEMENT)
    known.exchange(before(0))
    known.take(whole().reveals[:2])
    known.exchange(before(1))
    assert known.most == 4
    with pytest.raises(ValueError, match="an exchange that begins at 3 of 2 openings"):
        known.replay({"exchange": 3})
    with pytest.raises(ValueError, match="exchange must be"):
        known.replay({"exchange": -1})


def test_an_outcome_passes_the_audit_or_ends_the_run():
    known = memory(OPENINGS)
    assert known.finished
    assert known.outcome().to_text() == whole().to_text()
    reveal: Any = known.transcript.reveals[-1]
    known.transcript.reveals[-1] = reveal._replace(S_y=[-value for value in reveal.S_y])
    with pytest.raises(EndOfRun, match="The audit of this run does not pass"):
        known.outcome()

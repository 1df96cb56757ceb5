"""What a party remembers of a run, so that nothing is ever revealed twice.

docs/security-details.md, section 6, "Going on after an interruption". All of it is public among the
parties, except our part of a final opening.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

from securefedyj import strict
from securefedyj.errors import Unverified, code_of, reason_of
from securefedyj.network.errors import EndOfRun, JoinError, NotVerified, OwnTrouble
from securefedyj.network.lines import LineFile
from securefedyj.network.session.records import NO_SESSION
from securefedyj.protocol.agreement import Agreement
from securefedyj.protocol.reveals import (
    Final,
    Magnitudes,
    Moments,
    Reveal,
    Step,
    Variation,
    read_reveal,
    to_line,
)
from securefedyj.protocol.schedule import Schedule, TooFewValues, exchanges_done
from securefedyj.protocol.state import OpeningLog
from securefedyj.protocol.transcript import Origin, Transcript
from securefedyj.strict import Malformed

MOST_REPEATS = 1
"""In a run: openings that were sent, that too few parties have, and that are made again.

The final opening of a verified run is different: its parts are sent again as they are.
"""

NEW_RUN = "Agree on a new run, with a new name in the agreed file and a new output folder."

Outcome: TypeAlias = Transcript | TooFewValues
"""What all parties of a run end with."""

_Number: TypeAlias = Annotated[int, Meta(ge=0, lt=1 << 32)]


class Interruption(strict.Record, frozen=True):
    """A session that ended early."""

    by: str  # a party, or the hub
    exchange: int  # in which it happened, by the openings made before


class HeldPart(strict.Record, frozen=True):
    """What a member holds of a final opening, and sends, now or after an interruption."""

    opening: int  # its number: how many were made before
    session: str  # which computed it: the same at all members whose parts go together
    bits: str  # hexadecimal

    def __post_init__(self) -> None:
        bytes.fromhex(self.bits)

    def __repr__(self) -> str:
        return f"HeldPart(opening={self.opening}, session={self.session!r})"


class JournalNote(strict.Record, frozen=True, kw_only=True):
    """A line of the journal that is not a reveal: one of these fields (docs/protocol.md, 12.5)."""

    session: _Number | UnsetType = UNSET  # it starts, from this number of openings
    exchange: _Number | UnsetType = UNSET  # it begins after this number of openings
    opening: _Number | UnsetType = UNSET  # it is about to be sent, after this number of others
    repeat: _Number | UnsetType = UNSET  # the same, and it was sent before
    accepted: HeldPart | UnsetType = UNSET  # we have checked the final exchange, and hold this
    interruption: Interruption | UnsetType = UNSET
    confirmed: str | UnsetType = UNSET  # the digest of the result that all parties have
    failed: str | UnsetType = UNSET  # why the run has ended for good


def part_is_lost(number: int) -> EndOfRun:
    """What ends a run in which a final opening was sent and not all members can send it again."""
    return EndOfRun(
        "SFY-JOIN-030",
        f"Opening {number + 1}, the result, was sent before an interruption, and not every member "
        "of the committee still has its part. No part is computed a second time: this run ends "
        f"here. {NEW_RUN}",
    )


def repeated_before(number: int) -> EndOfRun:
    """What ends a run in which a second opening is lost."""
    return EndOfRun(
        "SFY-JOIN-031",
        f"Opening {number + 1} was sent before an interruption, and too few parties have it. Only "
        f"{MOST_REPEATS} such opening may be repeated in a run, and more were lost: this run ends "
        f"here. {NEW_RUN}",
    )


class Drained(Exception):
    """The session is over: its program takes what still comes, and sends nothing more."""


class Memory(OpeningLog):
    """What was revealed, what was sent, and what went wrong, noted in a journal if there is one.

    The program calls it as its log (`state.OpeningLog`): before it sends an opening, and, with
    what was opened, before it sends the next message. Only members of the committee send openings.
    The result names the `origin`, and `opened` gets the transcript after each opening.
    """

    def __init__(
        self,
        agreement: Agreement,
        *,
        member: bool = True,
        origin: Origin | None = None,
        lines: LineFile | None = None,
    ) -> None:
        self.agreement, self.member, self._origin, self._lines = agreement, member, origin, lines
        self.opened: Callable[[Transcript], None] = lambda transcript: None
        self.transcript = Transcript(agreement)
        self._course = Schedule(agreement)
        self._begun = 0  # openings before the present exchange
        self._room = 0  # openings of the present exchange; none has begun
        self.least = 0  # openings that all have had: before the last exchange that opened something
        self.sent = 0  # openings that were sent, by us or others, whether or not they arrived
        self.repeats: list[int] = []
        self.interruptions: list[Interruption] = []
        self.running = False  # whether a session has begun and not ended
        self.draining = False  # whether the last messages of a session are still coming
        self.confirmed = self.failed = ""  # the digest of the result; why the run has ended
        self.part: HeldPart | None = None  # of the last final opening that we accepted
        self._session = NO_SESSION
        self._reopening = False  # whether the session sends parts of an earlier one again

    def close(self) -> None:
        """Close the journal; a thread that still computes can no longer write to it."""
        if self._lines is not None:
            self._lines.close()

    # The log of a program.

    def exchange(self, transcript: Transcript) -> None:
        """An exchange begins where the transcript ends, unless the session is over."""
        if self.draining:
            raise Drained
        self._note(JournalNote(exchange=len(transcript.reveals)))

    def opening(self, transcript: Transcript) -> None:
        """We are about to send our part of the opening after the transcript's last, if any.

        When the session is over, nothing is sent.
        """
        if not self.member or self.draining:
            return
        number = len(transcript.reveals)
        if number < self.sent and not self._reopening:
            if len(self.repeats) >= MOST_REPEATS:
                raise repeated_before(number)
            self._note(JournalNote(repeat=number))
        self._note(JournalNote(opening=number))

    def accepted(self, transcript: Transcript, part: bytes) -> None:
        """We have checked the final exchange; keep our part of its opening before we say so."""
        if not self.member:
            return
        number = len(transcript.reveals)
        if number < self.sent:  # a part was sent: there is no other
            raise part_is_lost(number)
        self._note(JournalNote(accepted=HeldPart(number, self._session, part.hex())))

    def revealed(self, transcript: Transcript) -> None:
        """The transcript's last reveal was opened; if we have it already, it must be the same."""
        number, reveal = len(transcript.reveals) - 1, transcript.reveals[-1]
        if number >= len(self.transcript.reveals):
            self.take([reveal])
        elif to_line(self.transcript.reveals[number]) != to_line(reveal):
            raise EndOfRun(
                "SFY-JOIN-033",
                f"Opening {number + 1} was made again with another value: the rows of a party "
                f"have changed, or it does not follow the protocol. {NEW_RUN}",
            )
        self.opened(transcript)

    # What the sessions note.

    def take(self, reveals: list[Reveal]) -> None:
        """Add what was opened, here or at the peer that hands it over."""
        for reveal in reveals:
            try:
                self._add(reveal)
            except Malformed as error:
                raise JoinError(
                    code_of(error, "SFY-JOIN-034"),
                    f"What was opened is not what the protocol opens next: {error}. Some party "
                    "does not follow the protocol.",
                ) from None
            self.write(to_line(reveal), sync=False)

    def begin(
        self,
        reveals: int,
        session: str = NO_SESSION,
        *,
        again: bool = False,
        reopening: bool = False,
    ) -> None:
        """A session starts from this number of reveals.

        `again`: its first opening was sent before, by anybody. It counts as sent by all: otherwise
        each party could repeat it once. `reopening`: the session sends the parts of an earlier one
        again as they are.
        """
        self.draining = False
        self._session, self._reopening = session, reopening
        self._note(JournalNote(session=reveals))
        if again and self.sent <= reveals:
            self._note(JournalNote(opening=reveals))

    def interrupt(self, by: str) -> None:
        """Count an interruption of the exchange that follows the openings."""
        exchange = exchanges_done(self.transcript) + 1
        self._note(JournalNote(interruption=Interruption(by, exchange)))

    def confirm(self, digest: str) -> None:
        self._note(JournalNote(confirmed=digest))

    def fail(self, sentence: str) -> None:
        if not self.failed:
            self._note(JournalNote(failed=sentence))

    # Questions.

    @property
    def most(self) -> int:
        """How many openings any party can have: those of the present exchange, and no more."""
        due, known = self._course.due, self.transcript.reveals
        if len(known) > self._begun and (
            due is None or _phase(due.kind) is not _phase(type(known[-1]))
        ):
            return len(known)  # the exchange is over, and the next one needs us
        return self._begun + self._room

    def known(self, reveals: int) -> Transcript:
        """A copy of this number of our reveals, to resume from."""
        return Transcript(self.agreement, self.transcript.reveals[:reveals])

    @property
    def finished(self) -> bool:
        """Whether nothing is left to open."""
        return self._course.due is None

    def ends_batch(self, reveals: int) -> bool:
        """Whether what follows this number of our reveals is a final opening."""
        due = Schedule.of(self.known(reveals)).due
        return due is not None and due.kind is Final

    def whole(self) -> Transcript:
        """All that was opened, and in which run; without a result."""
        return Transcript(self.agreement, list(self.transcript.reveals), origin=self._origin)

    def outcome(self) -> Outcome:
        """The result that follows from all that was opened, if it passes the audit."""
        try:
            self._course.check()
        except TooFewValues as few:
            return few
        except Unverified:
            raise NotVerified from None
        concluded = self.whole().with_result()
        checked = concluded.audit()
        if not checked.passed:
            raise EndOfRun(
                "SFY-JOIN-032",
                f"The audit of this run does not pass: {checked.findings[0]}. No result is "
                f"written. Some party does not follow the protocol. {NEW_RUN}",
            )
        return concluded

    # Lines of the journal.

    def replay(self, line: Any) -> None:
        """Take a line that was read from the journal. Raises ValueError if it is none."""
        if isinstance(line, dict) and "reveal" in line:
            self._add(read_reveal(line, len(self.agreement.asked)))
        elif isinstance(line, dict) and len(line) == 1:
            self._apply(strict.convert(line, JournalNote, "the note"))
        else:
            raise Malformed("a note must be an object with one field")

    def _note(self, note: JournalNote) -> None:
        """Apply a note and write it: it is safe on the disk before the next message is sent."""
        self._apply(note)
        self.write(msgspec.to_builtins(note))

    def write(self, line: dict[str, Any], *, sync: bool = True) -> None:
        """Add a line to the journal; with `sync`, wait until it is safe on the disk."""
        if self._lines is None:
            return
        code = "SFY-JOIN-027"
        try:
            self._lines.append(line)
            if sync:
                code = "SFY-JOIN-028"
                self._lines.sync()
        except OSError as error:  # such as a full disk: nothing may be sent after it
            raise OwnTrouble(code, f"{self._lines.path}: {reason_of(error)}.") from error

    def _add(self, reveal: Reveal) -> None:
        self._course.take(reveal)
        self.transcript.reveals.append(reveal)
        self.least = self._begun
        self.sent = max(self.sent, len(self.transcript.reveals))

    def _apply(self, note: JournalNote) -> None:
        match note:
            case JournalNote(session=int()):
                self.running = True
            case JournalNote(exchange=int(reveals)):
                known = len(self.transcript.reveals)
                if reveals > known:
                    raise Malformed(f"an exchange that begins at {reveals} of {known} openings")
                here = self._course if reveals == known else Schedule.of(self.known(reveals))
                self._begun, self._room = reveals, here.most_openings()
            case JournalNote(opening=int(number)):
                self.sent = max(self.sent, number + 1)
            case JournalNote(repeat=int(number)):
                self.repeats.append(number)
            case JournalNote(accepted=HeldPart() as part):
                self.part = part
            case JournalNote(interruption=Interruption() as interruption):
                self.interruptions.append(interruption)
                self.running = False
            case JournalNote(confirmed=str(digest)):
                self.confirmed, self.running = digest, False
            case JournalNote(failed=str(sentence)):
                self.failed, self.running = sentence, False


def digest_of(memory: Memory, outcome: Outcome) -> str:
    """What the parties compare: of the transcript with its result, if there is one."""
    known = memory.transcript if isinstance(outcome, TooFewValues) else outcome
    return hashlib.sha256(known.to_text().encode()).hexdigest()


def count_interruptions(memory: Memory, most: int, earlier: int) -> str:
    """How often a run was interrupted, and by whom (docs/security-details.md, section 6).

    Each of the `earlier` runs over the same columns that did not finish counts as one. Raises
    EndOfRun after more than `most`.
    """
    by = Counter(one.by for one in memory.interruptions)
    if earlier:
        by["earlier runs that did not finish"] += earlier
    count = by.total()
    whose = ", ".join(f"{times} by {who}" for who, times in by.most_common())
    if len(by) == 1:
        whose = {1: "by ", 2: "both by "}.get(count, "all by ") + next(iter(by))
    some = "interruption" if most == 1 else "interruptions"
    summary = f"{count} of at most {most} {some}, {whose}."
    if count > most:
        raise EndOfRun(
            "SFY-JOIN-017",
            f"This run was interrupted too often: {summary} It ends here, because a party that "
            f"does not follow the protocol may interrupt to ask again. Find out why. {NEW_RUN}",
        )
    return summary


def _phase(kind: type[Reveal]) -> type[Reveal]:
    """The purpose of an exchange, by what it opens last."""
    return {Variation: Step, Magnitudes: Moments}.get(kind, kind)

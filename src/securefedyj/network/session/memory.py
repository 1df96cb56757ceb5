"""What a party remembers of a run, so that nothing is ever revealed twice.

docs/security.md, section 6, "Going on after an interruption". Everything in here is public among
the parties, but for the key of the rows' digest, which stays in the journal (`journal`), and for
our part of a final opening. As the log of a program (`program.OpeningLog`), the memory records each
opening before it is sent, and what was opened before the next message.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from securefedyj.errors import Unverified, code_of
from securefedyj.network.errors import EndOfRun, JoinError, NotVerified
from securefedyj.party.messages import SESSION_BYTES
from securefedyj.protocol.agreement import Agreement
from securefedyj.protocol.reveals import Final, Magnitudes, Moments, Reveal, Step, Variation
from securefedyj.protocol.schedule import Schedule, TooFewValues
from securefedyj.protocol.transcript import Origin, Transcript, to_line
from securefedyj.strict import Malformed

MOST_REPEATS = 1
"""Openings that were sent, and that too few parties have, may be made again: so many in a run.

The final opening of a verified run is another matter: its parts are sent again as they are.
"""

NO_SESSION = "00" * SESSION_BYTES
"""In place of a session, of who holds no part of a final opening."""

HUB = "the hub"
NEW_RUN = "Agree on a new run, with a new name in the agreed file and a new --output."


class Interruption(NamedTuple):
    """A session that was ended before its time."""

    by: str
    """A party, or the hub."""
    exchange: int
    """In which it happened, by the openings made before."""


@dataclass(frozen=True)
class HeldPart:
    """What a member holds of a final opening, and will send, now or after an interruption."""

    opening: int
    """Its number: how many were made before."""
    session: str
    """In which it was computed: the same at all members whose parts go together."""
    bits: str = field(repr=False)
    """Hexadecimal."""


def part_is_lost(number: int) -> EndOfRun:
    """What ends a run in which a final opening was sent and not all members can send it again."""
    return EndOfRun(
        "SFY-JOIN-030",
        f"Opening {number + 1}, the result, was sent before an interruption, and not every member "
        "of the committee has its part of it any more. Nothing of it is computed a second time: "
        f"this run ends here. {NEW_RUN}",
    )


def made_again_before(number: int) -> EndOfRun:
    """What ends a run in which a second opening is lost."""
    return EndOfRun(
        "SFY-JOIN-031",
        f"Opening {number + 1} was sent before an interruption, and too few parties have it. Such "
        f"openings are made again {MOST_REPEATS} time in a run, and more were lost: this run ends "
        f"here. {NEW_RUN}",
    )


class Drained(Exception):
    """The session is over: its program takes what was on its way, and sends nothing more."""


class Memory:
    """What was revealed, what was sent, and what went wrong, in a run that goes on or is over.

    Parameters
    ----------
    agreement
        What the parties have agreed upon.
    member
        Whether we are of the committee: nobody else sends openings.
    origin
        The consortium, which the result is to name.

    Attributes
    ----------
    member
        Whether this party is in the committee.
    transcript
        What was revealed so far, opening by opening.
    least
        What every party has had: the beginning of the last exchange that has opened something.
    sent
        So many openings were sent, by us or others, whether or not they reached anybody.
    repeats
        The openings that were made again.
    interruptions
        In order.
    running
        Whether a session has begun and not ended.
    confirmed
        The digest of the result that all parties have, or nothing.
    failed
        Why the run has ended for good, or nothing.
    draining
        Whether the session is over, and only what is on its way may still come.
    part
        What we hold of the last final opening that we have accepted, or nothing.
    """

    def __init__(
        self, agreement: Agreement, *, member: bool = True, origin: Origin | None = None
    ) -> None:
        self.agreement, self.member, self._origin = agreement, member, origin
        self.transcript = Transcript(agreement)
        self._course = Schedule(agreement)
        self.least = self._begun = 0
        self._room = 0  # openings of the present exchange; none has begun
        self.sent = 0
        self.repeats: list[int] = []
        self.interruptions: list[Interruption] = []
        self.running = False
        self.confirmed = self.failed = ""
        self.draining = False
        self.part: HeldPart | None = None
        self._session = NO_SESSION
        self._reopening = False  # whether the session sends parts of an earlier one again

    # The log of a program.

    def exchange(self, transcript: Transcript) -> None:
        """An exchange begins where the transcript ends, unless the session is over."""
        if self.draining:
            raise Drained
        self._record({"exchange": len(transcript.reveals)})
        self._sync()

    def opening(self, transcript: Transcript) -> None:
        """We are about to send our part of the opening after the transcript's last, if any.

        When the session is over nothing is sent, and what others have sent is taken.
        """
        if not self.member or self.draining:
            return
        number = len(transcript.reveals)
        if number < self.sent and not self._reopening:
            if len(self.repeats) >= MOST_REPEATS:
                raise made_again_before(number)
            self._record({"repeat": number})
        self._record({"opening": number})
        self._sync()

    def accepted(self, transcript: Transcript, part: bytes) -> None:
        """We have checked the final exchange: our part is kept before we say so.

        Once it was sent, there is no other.
        """
        if not self.member:
            return
        number = len(transcript.reveals)
        if number < self.sent:
            raise part_is_lost(number)
        self._record({"accepted": vars(HeldPart(number, self._session, part.hex()))})
        self._sync()

    def revealed(self, transcript: Transcript) -> None:
        """The transcript's last reveal was opened; what we knew already must be the same."""
        number, reveal = len(transcript.reveals) - 1, transcript.reveals[-1]
        if number < len(self.transcript.reveals):
            if to_line(self.transcript.reveals[number]) != to_line(reveal):
                raise EndOfRun(
                    "SFY-JOIN-033",
                    f"Opening {number + 1} was made again and is another: some party has other "
                    f"rows than before, or does not follow the protocol. {NEW_RUN}",
                )
            return
        self.take([reveal])

    # What the sessions note.

    def take(self, reveals: list[Reveal]) -> None:
        """Add what was opened, here or at the parties who hand it on."""
        for reveal in reveals:
            try:
                self._add(reveal)
            except Malformed as error:
                raise JoinError(
                    code_of(error, "SFY-JOIN-034"),
                    f"What was opened is not what the protocol opens next: {error}. Some party "
                    "does not follow the protocol.",
                ) from None
            self._write(to_line(reveal))

    def begin(
        self,
        reveals: int,
        session: str = NO_SESSION,
        *,
        again: bool = False,
        reopening: bool = False,
    ) -> None:
        """A session starts from so many reveals, maybe with an opening that some have made before.

        What anybody has sent counts as sent by all: else it could be made again once for each.
        If it is `reopening`, the parts of an earlier session are sent again as they are.
        """
        self.draining = False
        self._session, self._reopening = session, reopening
        self._record({"session": reveals})
        if again and self.sent <= reveals:
            self._record({"opening": reveals})
        self._sync()

    def interrupt(self, by: str, exchange: int) -> None:
        """Count an interruption."""
        self._record({"interruption": {"by": by, "exchange": exchange}})
        self._sync()

    def confirm(self, digest: str) -> None:
        """All parties have the same result."""
        self._record({"confirmed": digest})
        self._sync()

    def fail(self, sentence: str) -> None:
        """The run has ended for good."""
        if not self.failed:
            self._record({"failed": sentence})
            self._sync()

    # Questions.

    @property
    def most(self) -> int:
        """What any party can have: the openings of the present exchange, and no more."""
        due, known = self._course.due, self.transcript.reveals
        if len(known) > self._begun and (
            due is None or _phase(due.kind) is not _phase(type(known[-1]))
        ):
            return len(known)  # the exchange is over, and the next one needs us
        return self._begun + self._room

    @property
    def finished(self) -> bool:
        """Whether nothing is left to open."""
        return self._course.due is None

    def ends_batch(self, reveals: int) -> bool:
        """Whether what follows so many of our reveals is a final opening."""
        due = Schedule.of(Transcript(self.agreement, self.transcript.reveals[:reveals])).due
        return due is not None and due.kind is Final

    def outcome(self) -> Transcript | TooFewValues:
        """The result that follows from all that was opened, if it passes the audit."""
        try:
            self._course.check()
        except TooFewValues as few:
            return few
        except Unverified:
            raise NotVerified from None
        known = list(self.transcript.reveals)
        concluded = Transcript(self.agreement, known, origin=self._origin).with_result()
        checked = concluded.audit()
        if not checked.passed:
            raise EndOfRun(
                "SFY-JOIN-032",
                f"The audit of this run does not pass: {checked.findings[0]}. No result is "
                f"written. Some party does not follow the protocol. {NEW_RUN}",
            )
        return concluded

    # A line of the journal, and what it means.

    def _record(self, line: dict[str, Any]) -> None:
        self._apply(line)
        self._write(line)

    def _write(self, line: dict[str, Any]) -> None:
        """Keep a line; nothing is kept without a journal."""

    def _sync(self) -> None:
        """Wait until all lines are safe: before the next message is sent."""

    def _add(self, reveal: Reveal) -> None:
        self._course.take(reveal)
        self.transcript.reveals.append(reveal)
        self.least = self._begun
        self.sent = max(self.sent, len(self.transcript.reveals))

    def _apply(self, line: dict[str, Any]) -> None:
        ((kind, value),) = line.items()
        match kind:
            case "exchange":
                self._begin_exchange(value)
            case "opening":
                self.sent = max(self.sent, value + 1)
            case "repeat":
                self.repeats.append(value)
            case "session":
                self.running = True
            case "interruption":
                self.interruptions.append(Interruption(value["by"], value["exchange"]))
                self.running = False
            case "confirmed":
                self.confirmed, self.running = value, False
            case "failed":
                self.failed, self.running = value, False
            case "accepted":
                self.part = HeldPart(**value)
            case _:
                raise Malformed(f"unknown note {kind!r}")

    def _begin_exchange(self, reveals: int) -> None:
        known = self.transcript.reveals
        if not 0 <= reveals <= len(known):
            raise Malformed(f"an exchange that begins at {reveals} of {len(known)} openings")
        here = self._course
        if reveals < len(known):
            here = Schedule.of(Transcript(self.agreement, known[:reveals]))
        self._begun, self._room = reveals, here.most_openings()


def _phase(kind: type[Reveal]) -> type[Reveal]:
    """What an exchange is there for, by what it opens last."""
    return {Variation: Step, Magnitudes: Moments}.get(kind, kind)

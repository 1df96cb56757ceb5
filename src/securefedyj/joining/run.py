"""One party's part in a run: from its table to the files that the run leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from securefedyj.errors import InputError
from securefedyj.files import write_atomically
from securefedyj.joining.member import SubmissionMember
from securefedyj.joining.own import OwnPart
from securefedyj.network.carrier import Dialer
from securefedyj.network.lines import require_locks
from securefedyj.network.repeats import LedgerRun
from securefedyj.network.session import participant
from securefedyj.network.session.events import Progress
from securefedyj.network.session.journal import FILE as STATE
from securefedyj.network.settling import Copy, TwoSubmissions
from securefedyj.network.transport.proxy import proxy_to
from securefedyj.numerics.sums import OutOfBounds
from securefedyj.protocol.cost import Cost
from securefedyj.protocol.schedule import TooFewValues
from securefedyj.protocol.silos import TimedSilo, timed_silo
from securefedyj.protocol.transcript import Transcript
from securefedyj.report.results import PARAMETERS
from securefedyj.tables.digest import rows_digest
from securefedyj.tables.silo_table import SiloTable
from securefedyj.tables.source import HeldSource


class Cancelled(Exception):
    """This party left the run early on request; the message says what is left."""


@dataclass(repr=False)
class JoinRun(OwnPart):
    """One party's part in a run: its options, the callbacks that `join` describes, its results."""

    dialer: Dialer | None = None
    progress: Callable[[Progress], None] = lambda progress: None

    def __post_init__(self) -> None:
        require_locks()
        super().__post_init__()
        options = self.options
        if self.dialer is None:
            proxy_to(self.consortium.agreed_hub(), options.proxy)  # before the table is read
        role, name, agreement = self.party.role, self.party.name, self.consortium.agreement()
        if name not in agreement.online:
            raise InputError(
                "SFY-JOIN-057",
                f"{name!r} does not connect in this run: `securefedyj submit` sends its part, and "
                "`securefedyj result` fetches the result.",
            )
        self._live = role == "silo" and not agreement.given.all()
        # A silo that has submitted all its rows may give them for its report.
        if (options.data is None) == self._live and (self._live or role != "silo"):
            needed = "with --data." if self._live else "without --data."
            raise InputError("SFY-JOIN-004", f"{name!r} is a {role}: it must join {needed}")
        if (self._output / PARAMETERS).exists() and not (self._output / STATE).exists():
            raise InputError(
                "SFY-JOIN-007",
                f"{self._output} has a {PARAMETERS} and no {STATE}, so its run cannot be resumed. "
                "Nothing is replaced; choose another output folder.",
            )
        self._record: LedgerRun | None = None
        self._begun = False
        self._member: SubmissionMember | None = None
        if self.consortium.submitted and name in self.consortium.committee:
            self._member = SubmissionMember(
                self.consortium, name, options, self._courier, self.say, self.warn
            )

    async def take_part(self) -> Transcript:
        """Take part until the result and its report are written.

        A thread reads tables and writes reports. When this is cancelled, it first notifies the
        other parties, within seconds; `on_leaving` has a message about it.
        """
        worker = participant.Worker()
        try:
            silo = await worker.run(self._prepare)
            settings = self._settings({} if self._member is None else await self._member.copies())
            self._begun = True
            try:
                transcript = await participant.participate(settings, silo)
            except TooFewValues:
                await self._deliver()
                raise
            await self._deliver()
            if not self._reported:
                await worker.run(self._report, transcript)
        except Exception as error:
            if isinstance(error, TwoSubmissions):
                write_atomically(self._output / f"{error.silo}.evidence", error.evidence)
            if self._record is not None and not self.written:
                self._record.failed(self.say)
            raise
        finally:
            self._left = True
            worker.end()
        return transcript

    async def _deliver(self) -> None:
        if self._member is not None:
            self.written |= await self._member.deliver()

    def on_leaving(self, again: str) -> str:
        """What to tell a user who has stopped us; `again` is what resumes the run."""
        if not self._begun:
            return "Stopped before the run began."
        if not self.written:
            return f"Stopped; the other parties wait. Rerun the {again} to resume."
        if not self._reported:
            return f"Stopped. {self._output} has the result; rerun the {again} to write its report."
        return f"Stopped. {self._output} has the result."

    def _prepare(self) -> TimedSilo | None:
        self._own = self.own_table()
        silo = self._arranged(self._own) if self._live and self._own is not None else None
        own = self._own if self._live else None
        over = (self._output / PARAMETERS).exists()  # nothing is left to run
        self._record = self._warned(own, self._output, over=over)
        self._output.mkdir(parents=True, exist_ok=True)
        return silo

    def _arranged(self, own: SiloTable) -> TimedSilo | None:
        """The rows in the form that the protocol needs; each exchange is a pass over them."""
        held = own.source.nbytes if isinstance(own.source, HeldSource) else 0
        room, summed = self._cache_bytes - held, partial(self._rows, "summed")
        try:
            return timed_silo(self.consortium.agreement(), own.source, room, summed)
        except OutOfBounds as error:
            more = "" if self._path is None else " `securefedyj check --data` shows where."
            raise OutOfBounds(error.code, f"{error}{more}") from None

    def _settings(self, copies: dict[str, Copy]) -> participant.Settings:
        own, record = self._own, self._record
        return participant.Settings(
            self.consortium,
            self.party.name,
            self._identity,
            self._output,
            timeout=self.options.timeout,
            wait=self.options.wait,
            rows=None
            if own is None or not self._live
            else partial(rows_digest, own.source, self._features),
            earlier=0 if record is None else record.unfinished,
            started=(lambda: None) if record is None else record.began,
            say=self.say,
            progress=self.progress,
            done=self._done,
            dialer=self.dialer,
            proxy=self.options.proxy,
            copies=copies,
        )

    def _done(self, transcript: Transcript, cost: Cost | None) -> None:
        if transcript.result is not None:
            self._write(transcript, cost)
        if self._member is not None:
            self._member.confirm(transcript)
        if transcript.result is None:
            return
        if self.party.role == "silo" and not self._live:  # it may have submitted while we waited
            self._record = LedgerRun(self.consortium, None, self.options.ledger, self.party.name)
        if self._record is not None:
            contradiction = self._record.finished(transcript, self.say)
            if contradiction:
                self.warn(f"Warning: {contradiction}")
        if cost is None:  # it was there from the start, and others may not connect for long
            self._report(transcript)

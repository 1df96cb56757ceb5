"""One party's part in a run: from its table to the files that the run leaves."""

from __future__ import annotations

from pathlib import Path

from securefedyj.errors import InputError
from securefedyj.joining.part import Part
from securefedyj.network.bookkeeping import LedgerRun
from securefedyj.network.session import participant
from securefedyj.network.session.journal import FILE as STATE
from securefedyj.network.session.participant import Settings, Worker
from securefedyj.network.subtraction import note_on_missing, note_on_silos
from securefedyj.protocol.cost import Cost
from securefedyj.protocol.silos import TimedSilo
from securefedyj.protocol.transcript import Transcript
from securefedyj.report.plausibility import implausible_for, warning
from securefedyj.report.results import PARAMETERS, REPORT, write_report, write_results
from securefedyj.tables.silo_table import SiloTable, missing_everywhere


class Cancelled(Exception):
    """This party left the run early on request; the message says what is left."""


class _Abandoned(Exception):
    """The run no longer needs the work of this thread."""


class JoinRun:
    """A party's part in a run, and its results.

    Attributes
    ----------
    written : dict of Path
        The files of the result, by their content.
    no_report : str
        Why there is no report; empty otherwise.
    """

    def __init__(self, part: Part) -> None:
        self._output = part.options.output
        _refuse_result_without_state(self._output)
        self._part = part
        self._own: SiloTable | None = None
        self._record: LedgerRun | None = None
        self._begun = self._reported = self._left = False
        self.written: dict[str, Path] = {}
        self.no_report = ""

    async def take_part(self) -> Transcript:
        """Take part until the result and its report are written.

        A thread reads tables and writes reports. When this is cancelled, it first notifies the
        other parties, within seconds; `on_leaving` has a message about it.
        """
        worker = Worker()
        try:
            silo = await worker.run(self._prepare)
            self._begun = True
            transcript = await participant.participate(self._settings(), silo)
            if not self._reported:
                await worker.run(self._report, transcript)
        except Exception:
            if self._record is not None and not self.written:
                self._record.failed(self._part.say)
            raise
        finally:
            self._left = True
            worker.end()
        return transcript

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
        part = self._part
        self._own = part.own_table(self._rows)
        silo = part.arranged(self._own, self._rows)
        self._warn_before()
        self._output.mkdir(parents=True, exist_ok=True)
        return silo

    def _warn_before(self) -> None:
        """Open a silo's ledger, and warn the silo of what results could reveal."""
        part, own, notes = self._part, self._own, [note_on_silos(self._part.consortium)]
        if own is not None:
            empty = [part.features[j] for j in missing_everywhere(own.census)]
            notes.append(note_on_missing(part.consortium, empty))
            self._record = LedgerRun(
                part.consortium, part.party.name, own.source, self._output, part.options.ledger
            )
            notes += [f"Warning: {sentence}" for sentence in self._record.warnings()]
        if not (self._output / PARAMETERS).exists():  # else there is nothing left to run
            for sentence in filter(None, notes):
                part.warn(sentence)

    def _settings(self) -> Settings:
        part, options, record = self._part, self._part.options, self._record
        return Settings(
            part.consortium,
            part.party.name,
            part.identity,
            self._output,
            timeout=options.timeout,
            wait=options.wait,
            rows=part.digest_of(self._own),
            earlier=0 if record is None else record.unfinished,
            started=(lambda: None) if record is None else record.began,
            say=part.say,
            progress=part.progress,
            done=self._done,
            dialer=part.dialer,
            proxy=options.proxy,
        )

    def _rows(self, done: str, count: int, total: int | None) -> None:
        if self._left:
            raise _Abandoned
        self._part.rows(done, count, total)

    def _done(self, transcript: Transcript, cost: Cost | None) -> None:
        part = self._part
        written = write_results(transcript, cost, part.party.name, self._output, part.table)
        self.written.update(written)
        if self._record is not None:
            contradiction = self._record.finished(transcript.digest().hex(), part.say)
            if contradiction:
                part.warn(f"Warning: {contradiction}")
        if cost is None:  # it was there from the start, and others may not connect for long
            self._report(transcript)

    def _report(self, transcript: Transcript) -> None:
        """Write the report. If that fails, keep the reason: the result matters more.

        A report of an earlier call, which has the same result, stays as it is.
        """
        part, own, path = self._part, self._own, self._output / REPORT
        there = "cost" not in self.written and path.is_file()
        writes = part.options.report and not there
        part.say(f"The result is here.{' Writing the report.' * writes}")
        try:
            self._warn_of_implausible(transcript)
            if writes:
                sample, rows = (None, None) if own is None else (own.drawn, own.census.rows)
                write_report(part.consortium, transcript, sample, rows, self._output)
            if writes or there:
                self.written["report"] = path
        except Exception as error:
            # Only the system's own words: others may quote rows.
            why = error if isinstance(error, OSError) else type(error).__name__
            self.no_report = (
                f"The report could not be written ({why}); the result is in {self._output}. Try "
                "again with `securefedyj report`."
            )
        finally:
            self._reported = True

    def _warn_of_implausible(self, transcript: Transcript) -> None:
        """Warn the silo alone where lambda does not fit its own rows."""
        if self._own is not None and transcript.result is not None:
            doubtful = implausible_for(self._own, transcript.result)
            names = [transcript.agreement.features[j] for j in doubtful.nonzero()[0]]
            if names:
                self._part.warn(f"Warning: {warning(names)}")


def _refuse_result_without_state(output: Path) -> None:
    """Refuse a folder whose result belongs to another run."""
    if (output / PARAMETERS).exists() and not (output / STATE).exists():
        raise InputError(
            "SFY-JOIN-007",
            f"{output} has a {PARAMETERS} and no {STATE}, so its run cannot be resumed. Nothing "
            "is replaced; choose another --output.",
        )

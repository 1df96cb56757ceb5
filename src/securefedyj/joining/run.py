"""One party's part in a run: from its table to the files that the run leaves."""

from __future__ import annotations

from pathlib import Path

from securefedyj.errors import InputError
from securefedyj.joining.part import Part
from securefedyj.network.bookkeeping import Record
from securefedyj.network.session import participant
from securefedyj.network.session.journal import FILE as STATE
from securefedyj.network.session.participant import Settings
from securefedyj.network.session.worker import Worker
from securefedyj.network.subtraction import note_on_missing, note_on_silos
from securefedyj.protocol.cost import Cost
from securefedyj.protocol.silos import TimedSilo
from securefedyj.protocol.transcript import Transcript
from securefedyj.report.plausibility import implausible_for, warning
from securefedyj.report.results import PARAMETERS, REPORT, write_report, write_results
from securefedyj.tables.silo_table import SiloTable, missing_everywhere


class Cancelled(Exception):
    """We have left a run before its end, as we were asked to; the sentence says what is there."""


class _Abandoned(Exception):
    """Nobody waits for what the thread does."""


class Run:
    """A party's part in a run, with what became of it.

    Attributes
    ----------
    written : dict of Path
        The files of the result, by what they hold.
    no_report : str
        Why there is no report, as soon as that is known; else empty.
    """

    def __init__(self, part: Part) -> None:
        _refuse_result_without_state(part.output)
        self._part = part
        self._own: SiloTable | None = None
        self._record: Record | None = None
        self._begun = self._reported = self._left = False
        self.written: dict[str, Path] = {}
        self.no_report = ""

    async def take_part(self) -> Transcript:
        """Take part until the result and its report are written.

        Tables are read, and reports written, by a thread. Whoever cancels this takes leave of the
        others first, within seconds; `on_leaving` has a sentence about it.
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
        """What to tell a user who has stopped us; `again` goes on from there."""
        output = self._part.output
        if not self._begun:
            return "Stopped before the run began."
        if not self.written:
            return f"Stopped; the others are told, and wait. The same {again} goes on from here."
        if not self._reported:
            return (
                f"Stopped. The result is in {output}, its report is not; the same {again} writes "
                "it."
            )
        return f"Stopped. The result is in {output}."

    def _prepare(self) -> TimedSilo | None:
        part = self._part
        self._own = part.own_table(self._rows)
        silo = part.arranged(self._own, self._rows)
        self._tell_before()
        part.output.mkdir(parents=True, exist_ok=True)
        return silo

    def _tell_before(self) -> None:
        """Open a silo's ledger; tell it what results could tell, before anybody else."""
        part, own, said = self._part, self._own, [note_on_silos(self._part.consortium)]
        if own is not None:
            empty = [part.features[j] for j in missing_everywhere(own.census)]
            said.append(note_on_missing(part.consortium, empty))
            self._record = Record(
                part.consortium, part.party.name, own.source, part.output, part.ledger
            )
            said += [f"Warning: {sentence}" for sentence in self._record.warnings()]
        if not (part.output / PARAMETERS).exists():  # else there is nothing more to run
            for sentence in filter(None, said):
                part.warn(sentence)

    def _settings(self) -> Settings:
        part, record = self._part, self._record
        return Settings(
            part.consortium,
            part.party.name,
            part.identity,
            part.output,
            timeout=part.timeout,
            wait=part.wait,
            rows=part.digest_of(self._own),
            earlier=0 if record is None else record.unfinished,
            started=(lambda: None) if record is None else record.began,
            say=part.say,
            progress=part.progress,
            done=self._done,
            dialer=part.dialer,
            proxy=part.proxy,
        )

    def _rows(self, done: str, count: int, total: int | None) -> None:
        if self._left:
            raise _Abandoned
        self._part.rows(done, count, total)

    def _done(self, transcript: Transcript, cost: Cost | None) -> None:
        part = self._part
        table = Path(part.data) if isinstance(part.data, str | Path) else None
        self.written.update(write_results(transcript, cost, part.party.name, part.output, table))
        if self._record is not None:
            said = self._record.finished(transcript.digest().hex(), part.say)
            if said:
                part.warn(f"Warning: {said}")
        if cost is None:  # it was there from the start, and others may not come for long
            self._report(transcript)

    def _report(self, transcript: Transcript) -> None:
        """Write the report, or keep why that failed: the result is more than its report.

        One that is there from an earlier call, as the result then is, stays as it is.
        """
        part, own = self._part, self._own
        there = "cost" not in self.written and (part.output / REPORT).is_file()
        part.say(f"The result is here.{' Writing the report.' * (part.report and not there)}")
        try:
            self._warn_of_implausible(transcript)
            if there:
                self.written["report"] = part.output / REPORT
            if there or not part.report:
                return
            sample, rows = (None, None) if own is None else (own.drawn, own.census.rows)
            write_report(part.consortium, transcript, sample, rows, part.output)
            self.written["report"] = part.output / REPORT
        except Exception as error:
            # Only the system's own words: others may quote rows.
            why = error if isinstance(error, OSError) else type(error).__name__
            self.no_report = (
                f"The report could not be written ({why}); the result is in {part.output}. "
                "Try again with `securefedyj report`."
            )
        finally:
            self._reported = True

    def _warn_of_implausible(self, transcript: Transcript) -> None:
        """Tell the silo, and nobody else, where lambda does not go with its own rows."""
        if self._own is not None and transcript.result is not None:
            doubtful = implausible_for(self._own, transcript.result)
            names = [transcript.agreement.features[j] for j in doubtful.nonzero()[0]]
            if names:
                self._part.warn(f"Warning: {warning(names)}")


def _refuse_result_without_state(output: Path) -> None:
    """A run would find a result that is not its own when it comes to its end."""
    if (output / PARAMETERS).exists() and not (output / STATE).exists():
        raise InputError(
            "SFY-JOIN-007",
            f"{output} has a {PARAMETERS} and no {STATE}: it is not the folder of a run that could "
            "go on. Nothing is replaced; choose another --output.",
        )

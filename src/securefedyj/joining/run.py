"""One party's part in a run: from its table to the files that the run leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from securefedyj.errors import InputError
from securefedyj.joining.options import JoinOptions
from securefedyj.network.carrier import Dialer
from securefedyj.network.identity import read_certificate, read_identity
from securefedyj.network.ledger import LedgerError
from securefedyj.network.lines import require_locks
from securefedyj.network.repeats import LedgerRun, note_on_missing, note_on_silos
from securefedyj.network.session import participant
from securefedyj.network.session.events import Progress
from securefedyj.network.session.journal import FILE as STATE
from securefedyj.network.transport.proxy import proxy_to
from securefedyj.numerics.arrays import unmasked
from securefedyj.numerics.passes import Source
from securefedyj.numerics.streamed import default_cache_bytes
from securefedyj.numerics.sums import OutOfBounds
from securefedyj.printable import printable
from securefedyj.protocol.cost import Cost
from securefedyj.protocol.silos import TimedSilo, timed_silo
from securefedyj.protocol.transcript import Transcript
from securefedyj.report.plausibility import implausible_for, warning
from securefedyj.report.results import PARAMETERS, REPORT, write_report, write_results
from securefedyj.tables import silo_table
from securefedyj.tables.cells import MISSING, TableError
from securefedyj.tables.dialect import Dialect
from securefedyj.tables.digest import rows_digest
from securefedyj.tables.files import HERE, TableReader
from securefedyj.tables.silo_table import SiloTable
from securefedyj.tables.source import HeldSource, as_source, has_column_names

Say = Callable[[str], None]
RowsProgress = Callable[[str, int, int | None], None]
"""Receives "read" or "summed", the number of rows so far, and the total if it is known."""


class Cancelled(Exception):
    """This party left the run early on request; the message says what is left."""


class _Abandoned(Exception):
    """The run no longer needs the work of this thread."""


@dataclass(repr=False)
class JoinRun:
    """One party's part in a run: its options, the callbacks that `join` describes, its results.

    `warn` receives the messages that nobody should miss, `say` all others.
    """

    options: JoinOptions
    reader: TableReader = HERE
    dialer: Dialer | None = None
    say: Say = lambda sentence: None
    warn: Say = lambda sentence: None
    progress: Callable[[Progress], None] = lambda progress: None
    rows: RowsProgress = lambda done, count, total: None
    written: dict[str, Path] = field(init=False, default_factory=dict)
    """The files of the result, by their content."""
    no_report: str = field(init=False, default="")
    """Why there is no report; empty otherwise."""

    def __post_init__(self) -> None:
        require_locks()
        options = self.options
        self.consortium = options.agreed()
        self.party = self.consortium.party_with(read_certificate(options.certificate))
        self._identity = read_identity(options.key, options.certificate)
        if self.dialer is None:
            proxy_to(self.consortium.agreed_hub(), options.proxy)  # before the table is read
        role, name = self.party.role, self.party.name
        if (role == "silo") != (options.data is not None):
            needed = "with --data." if role == "silo" else "without --data."
            raise InputError("SFY-JOIN-004", f"{name!r} is a {role}: it must join {needed}")
        self._output = options.output
        if (self._output / PARAMETERS).exists() and not (self._output / STATE).exists():
            raise InputError(
                "SFY-JOIN-007",
                f"{self._output} has a {PARAMETERS} and no {STATE}, so its run cannot be resumed. "
                "Nothing is replaced; choose another --output.",
            )
        self._features = list(self.consortium.feature_names)
        self._path = options.data if isinstance(options.data, Path) else None
        most = options.cache_mb
        self._cache_bytes = default_cache_bytes() if most is None else most * 10**6
        self._own: SiloTable | None = None
        self._record: LedgerRun | None = None
        self._begun = self._reported = self._left = False

    async def take_part(self) -> Transcript:
        """Take part until the result and its report are written.

        A thread reads tables and writes reports. When this is cancelled, it first notifies the
        other parties, within seconds; `on_leaving` has a message about it.
        """
        worker = participant.Worker()
        try:
            silo = await worker.run(self._prepare)
            self._begun = True
            transcript = await participant.participate(self._settings(), silo)
            if not self._reported:
                await worker.run(self._report, transcript)
        except Exception:
            if self._record is not None and not self.written:
                self._record.failed(self.say)
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
        self._own = self.own_table()
        silo = None if self._own is None else self._arranged(self._own)
        self._warn_before()
        self._output.mkdir(parents=True, exist_ok=True)
        return silo

    def own_table(self) -> SiloTable | None:
        """The rows of a silo, without the features that it ignores; None for a helper."""
        if self.options.data is None:
            return None
        names, minimum = self._features, self.options.own_minimum
        # The other half is for the same rows, arranged.
        room, on_rows = self._cache_bytes // 2, partial(self._rows, "read")
        own = silo_table.load_or_stream(self._source(), room, on_rows)
        self.say(f"Read {own.census.rows:,} rows of {len(names):,} features.")
        few = silo_table.few_values(own.census, minimum)
        for j in few:
            self.say(f"Ignoring {printable(names[j])}: it has fewer than {minimum} local values.")
        return silo_table.without(own, few)

    def _source(self) -> Source:
        data, dialect, names = self.options.data, self.options.dialect, self._features
        missing = (*MISSING, *self.options.missing)
        if self._path is not None:
            return self.reader.source(self._path, names, missing, dialect)
        if has_column_names(data):
            return as_source(data, names, missing, dialect)
        data = data if hasattr(data, "shape") else np.asarray(unmasked(data))
        if len(data.shape) == 2 and data.shape[1] != len(names):
            raise TableError(
                "SFY-JOIN-005",
                f"the table has {data.shape[1]} columns without names, but {len(names)} features "
                "are agreed on; give exactly these columns, in the agreed order",
            )
        agreed = Dialect(rename={str(j): name for j, name in enumerate(names)})
        return as_source(data, names, missing, agreed)

    def _arranged(self, own: SiloTable) -> TimedSilo | None:
        """The rows in the form that the protocol needs; each exchange is a pass over them."""
        held = own.source.nbytes if isinstance(own.source, HeldSource) else 0
        room, summed = self._cache_bytes - held, partial(self._rows, "summed")
        try:
            return timed_silo(self.consortium.agreement(), own.source, room, summed)
        except OutOfBounds as error:
            more = "" if self._path is None else " `securefedyj check --data` shows where."
            raise OutOfBounds(error.code, f"{error}{more}") from None

    def _rows(self, done: str, count: int, total: int | None) -> None:
        if self._left:
            raise _Abandoned
        self.rows(done, count, total)

    def _warn_before(self) -> None:
        """Open a silo's ledger, and warn the silo of what results could reveal."""
        own, notes = self._own, [note_on_silos(self.consortium)]
        if own is not None:
            empty = [self._features[j] for j in silo_table.missing_everywhere(own.census)]
            notes.append(note_on_missing(self.consortium, empty))
            self._record = LedgerRun(
                self.consortium, own.source, self.options.ledger, self.party.name, self._output
            )
            notes += [f"Warning: {sentence}" for sentence in self._record.warnings()]
            if not (self._output / PARAMETERS).exists():
                for sentence in self._record.refused():
                    raise LedgerError("SFY-LED-004", sentence)
        if not (self._output / PARAMETERS).exists():  # else there is nothing left to run
            for sentence in filter(None, notes):
                self.warn(sentence)

    def _settings(self) -> participant.Settings:
        own, record = self._own, self._record
        return participant.Settings(
            self.consortium,
            self.party.name,
            self._identity,
            self._output,
            timeout=self.options.timeout,
            wait=self.options.wait,
            rows=None if own is None else partial(rows_digest, own.source, self._features),
            earlier=0 if record is None else record.unfinished,
            started=(lambda: None) if record is None else record.began,
            say=self.say,
            progress=self.progress,
            done=self._done,
            dialer=self.dialer,
            proxy=self.options.proxy,
        )

    def _done(self, transcript: Transcript, cost: Cost | None) -> None:
        party = self.party.name
        self.written |= write_results(transcript, cost, party, self._output, self._path)
        if self._record is not None:
            contradiction = self._record.finished(transcript, self.say)
            if contradiction:
                self.warn(f"Warning: {contradiction}")
        if cost is None:  # it was there from the start, and others may not connect for long
            self._report(transcript)

    def _report(self, transcript: Transcript) -> None:
        """Write the report. If that fails, keep the reason: the result matters more.

        A report of an earlier call, which has the same result, stays as it is.
        """
        own, path = self._own, self._output / REPORT
        there = "cost" not in self.written and path.is_file()
        writes = self.options.report and not there
        self.say(f"The result is here.{' Writing the report.' * writes}")
        try:
            self._warn_of_implausible(transcript)
            if writes:
                sample, rows = (None, None) if own is None else (own.drawn, own.census.rows)
                write_report(self.consortium, transcript, sample, rows, self._output)
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
            doubtful = implausible_for(self._own, transcript.agreement, transcript.result)
            names = [transcript.agreement.features[j] for j in doubtful.nonzero()[0]]
            if names:
                self.warn(f"Warning: {warning(names)}")

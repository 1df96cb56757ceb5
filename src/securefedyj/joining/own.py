"""What joining, submitting and fetching a result have in common at a party: its rows, its files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from securefedyj.errors import reason_of
from securefedyj.joining.options import JoinOptions
from securefedyj.network.identity import read_certificate, read_identity
from securefedyj.network.ledger import LedgerError
from securefedyj.network.mailbox import Courier
from securefedyj.network.repeats import LedgerRun, note_on_missing, note_on_silos
from securefedyj.numerics.arrays import unmasked
from securefedyj.numerics.passes import Source
from securefedyj.numerics.streamed import default_cache_bytes
from securefedyj.printable import printable
from securefedyj.protocol.cost import Cost
from securefedyj.protocol.transcript import Transcript
from securefedyj.report.plausibility import implausible_for, warning
from securefedyj.report.results import REPORT, write_report, write_results
from securefedyj.tables import silo_table
from securefedyj.tables.cells import MISSING, TableError
from securefedyj.tables.dialect import Dialect
from securefedyj.tables.files import HERE, TableReader
from securefedyj.tables.silo_table import SiloTable
from securefedyj.tables.source import as_source, has_column_names, lacking

Say = Callable[[str], None]
RowsProgress = Callable[[str, int, int | None], None]
"""Receives "read" or "summed", the number of rows so far, and the total if it is known."""


class _Abandoned(Exception):
    """The run no longer needs the work of this thread."""


@dataclass(repr=False)
class OwnPart(ABC):
    """A party with its options, and the callbacks that `join` describes.

    `warn` receives the messages that nobody should miss, `say` all others.
    """

    options: JoinOptions
    reader: TableReader = HERE
    say: Say = lambda sentence: None
    warn: Say = lambda sentence: None
    rows: RowsProgress = lambda done, count, total: None
    written: dict[str, Path] = field(init=False, default_factory=dict)
    """The files of the result, by their content."""
    no_report: str = field(init=False, default="")
    """Why there is no report; empty otherwise."""

    def __post_init__(self) -> None:
        options = self.options
        self.consortium = options.agreed()
        self.party = self.consortium.party_with(read_certificate(options.certificate))
        self._identity = read_identity(options.key, options.certificate)
        self._output = options.output
        self._features = list(self.consortium.feature_names)
        self._left_out = self.consortium.places_of(options.without)
        self._path = options.data if isinstance(options.data, Path) else None
        most = options.cache_mb
        self._cache_bytes = default_cache_bytes() if most is None else most * 10**6
        self._own: SiloTable | None = None
        self._reported = self._left = False

    @abstractmethod
    async def take_part(self) -> Any:
        """Do this party's part; return what it leads to."""

    @abstractmethod
    def on_leaving(self, again: str) -> str:
        """What to tell a user who has stopped us; `again` is what tries again."""

    def _courier(self, wait: float | None = None) -> Courier:
        """The way to the hub's mailbox, on which we wait for the hub."""
        options = self.options
        return Courier(
            self.consortium, self.party.name, self._identity, options.proxy, options.timeout,
            options.wait if wait is None else wait, self.say,
        )  # fmt: skip

    def own_table(self) -> SiloTable | None:
        """The rows of a silo, without the features that it ignores; None without data."""
        if self.options.data is None:
            return None
        names, minimum = self._features, self.options.own_minimum
        # The other half is for the same rows, arranged.
        room, on_rows = self._cache_bytes // 2, partial(self._rows, "read")
        source = lacking(self._source(), self._left_out)
        own = silo_table.load_or_stream(source, room, on_rows)
        self.say(f"Read {own.census.rows:,} rows of {len(names):,} features.")
        for name in self.options.without:
            self.say(f"Leaving out {printable(name)}: this run gets no values of it from here.")
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

    def _warned(self, own: SiloTable | None, folder: Path, *, over: bool) -> LedgerRun | None:
        """Open a silo's ledger, and unless the run is over, warn of what results could reveal."""
        record, notes = None, [note_on_silos(self.consortium)]
        if own is not None:
            empty = [self._features[j] for j in silo_table.missing_everywhere(own.census)]
            notes.append(note_on_missing(self.consortium, empty))
            ledger, name = self.options.ledger, self.party.name
            record = LedgerRun(self.consortium, own.source, ledger, name, folder)
            notes += [f"Warning: {sentence}" for sentence in record.warnings()]
            for sentence in () if over else record.refused():
                raise LedgerError("SFY-LED-004", sentence)
        for sentence in () if over else filter(None, notes):
            self.warn(sentence)
        return record

    def _rows(self, done: str, count: int, total: int | None) -> None:
        self._check_wanted()
        self.rows(done, count, total)

    def _check_wanted(self) -> None:
        """End the thread that computes if the user has left."""
        if self._left:
            raise _Abandoned

    def _write(self, transcript: Transcript, cost: Cost | None) -> None:
        """Write the files of the result, but not its report."""
        party = self.party.name
        self.written |= write_results(transcript, cost, party, self._output, self._path)

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
            why = reason_of(error) if isinstance(error, OSError) else type(error).__name__
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

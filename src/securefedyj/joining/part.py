"""One party's part in a run: who it is, and the table of a silo as the run takes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from securefedyj.errors import InputError, code_of
from securefedyj.joining.options import JoinOptions
from securefedyj.network.carrier import Dialer
from securefedyj.network.consortium import Consortium, PartyEntry
from securefedyj.network.identity import Identity, read_certificate, read_identity
from securefedyj.network.lines import require_locks
from securefedyj.network.session.progress import Progress
from securefedyj.network.transport.proxy import proxy_to
from securefedyj.numerics.arrays import unmasked
from securefedyj.numerics.budget import default_cache_bytes
from securefedyj.numerics.passes import Source
from securefedyj.numerics.rows import OutOfBounds
from securefedyj.numerics.silo import TimedSilo
from securefedyj.printable import printable
from securefedyj.protocol.silos import timed_silo
from securefedyj.tables.digest import rows_digest
from securefedyj.tables.files import HERE, MISSING, Dialect, TableError, TableReader
from securefedyj.tables.silo_table import SiloTable, few_values, load_or_stream, without
from securefedyj.tables.source import HeldSource, as_source, has_column_names

Say = Callable[[str], None]
RowsProgress = Callable[[str, int, int | None], None]
"""Receives "read" or "summed", the number of rows so far, and the total if it is known."""


@dataclass
class Part:
    """One party's part in a run: its options, and the callbacks that `join` describes.

    `warn` receives the messages that nobody should miss, `say` all others.
    """

    options: JoinOptions
    reader: TableReader = HERE
    dialer: Dialer | None = None
    say: Say = lambda sentence: None
    warn: Say = lambda sentence: None
    progress: Callable[[Progress], None] = lambda progress: None
    rows: RowsProgress = lambda done, count, total: None
    consortium: Consortium = field(init=False)
    party: PartyEntry = field(init=False)
    identity: Identity = field(init=False)

    def __post_init__(self) -> None:
        require_locks()
        options = self.options
        self.consortium = options.agreed()
        self.party = self.consortium.party_with(read_certificate(options.certificate))
        self.identity = read_identity(options.key, options.certificate)
        if self.dialer is None:
            proxy_to(self.consortium.agreed_hub(), options.proxy)  # before the table is read
        role, name = self.party.role, self.party.name
        if (role == "silo") != (options.data is not None):
            needed = "with --data." if role == "silo" else "without --data."
            raise InputError("SFY-JOIN-004", f"{name!r} is a {role}: it must join {needed}")

    @property
    def features(self) -> list[str]:
        return list(self.consortium.feature_names)

    @property
    def table(self) -> Path | None:
        """The path of the table, if it is a file or a folder."""
        return self.options.data if isinstance(self.options.data, Path) else None

    @property
    def cache_bytes(self) -> int:
        """How much memory may keep rows."""
        most = self.options.cache_mb
        return default_cache_bytes() if most is None else most * 10**6

    def own_table(self, rows: RowsProgress) -> SiloTable | None:
        """The rows of a silo, without the features that it ignores; None for a helper."""
        if self.options.data is None:
            return None
        names, minimum = self.features, self.options.own_minimum
        # The other half is for the same rows, arranged.
        own = load_or_stream(self._source(), self.cache_bytes // 2, partial(rows, "read"))
        self.say(f"Read {own.census.rows:,} rows of {len(names):,} features.")
        few = few_values(own.census, minimum)
        for j in few:
            self.say(f"Ignoring {printable(names[j])}: it has fewer than {minimum} local values.")
        return without(own, few)

    def arranged(self, own: SiloTable | None, rows: RowsProgress) -> TimedSilo | None:
        """The rows in the form that the protocol needs; each exchange is a pass over them."""
        if own is None:
            return None
        held = own.source.nbytes if isinstance(own.source, HeldSource) else 0
        room, summed = self.cache_bytes - held, partial(rows, "summed")
        try:
            return timed_silo(self.consortium.agreement(), own.source, room, summed)
        except OutOfBounds as error:
            if self.table is None:
                raise
            raise OutOfBounds(
                code_of(error, "SFY-JOIN-006"), f"{error} `securefedyj check --data` shows where."
            ) from None

    def digest_of(self, own: SiloTable | None) -> Callable[[bytes], str] | None:
        """Computes a keyed digest, to recognize the same rows later."""
        return None if own is None else partial(rows_digest, own.source, self.features)

    def _source(self) -> Source:
        data, dialect, names = self.options.data, self.options.dialect, self.features
        missing = (*MISSING, *self.options.missing)
        if self.table is not None:
            return self.reader.source(self.table, names, missing, dialect)
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

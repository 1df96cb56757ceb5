"""What one party brings to a run, and the table of a silo as the run takes it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from securefedyj.errors import InputError, code_of
from securefedyj.network.carrier import Dialer
from securefedyj.network.consortium import Consortium, PartyEntry
from securefedyj.network.identity import Identity
from securefedyj.network.locks import require_locks
from securefedyj.network.session.patience import TIMEOUT, WAIT
from securefedyj.network.session.progress import Progress
from securefedyj.network.transport.proxy import proxy_to
from securefedyj.numerics.arrays import unmasked
from securefedyj.numerics.passes import Source
from securefedyj.numerics.streamed import default_cache_bytes
from securefedyj.numerics.sums import OutOfBounds
from securefedyj.printable import printable
from securefedyj.protocol.silos import TimedSilo, timed_silo
from securefedyj.tables.base import HeldSource
from securefedyj.tables.digest import rows_digest
from securefedyj.tables.files import HERE, MISSING, Dialect, TableError, TableReader
from securefedyj.tables.silo_table import SiloTable, few_values, load_or_stream, without
from securefedyj.tables.source import as_source, has_column_names

Say = Callable[[str], None]
Rows = Callable[[str, int, int | None], None]
"""Is told "read" or "summed", of how many rows, and how many there are if that is known."""


@dataclass(frozen=True)
class Part:
    """What one party brings to a run, and who is told of it; docstring of `join` for the rest.

    `say` gets one sentence for the user at a time; `warn` those that nobody should miss.
    """

    consortium: Consortium
    party: PartyEntry
    identity: Identity
    output: Path
    data: Any = field(default=None, repr=False)
    missing: Collection[str] = ()
    dialect: Dialect | None = None
    reader: TableReader = HERE
    cache_mb: int | None = None
    own_minimum: int = 0
    ledger: Path | None = None
    timeout: float = TIMEOUT
    wait: float = WAIT
    report: bool = True
    proxy: str | None = field(default=None, repr=False)
    dialer: Dialer | None = None
    say: Say = lambda sentence: None
    warn: Say = lambda sentence: None
    progress: Callable[[Progress], None] = lambda progress: None
    rows: Rows = lambda done, count, total: None

    def __post_init__(self) -> None:
        require_locks()
        if not (self.timeout > 0 and self.wait > 0):
            raise InputError("SFY-JOIN-001", "--timeout and --wait must be positive.")
        if self.own_minimum < 0:
            raise InputError("SFY-JOIN-002", "--own-minimum must not be negative.")
        if self.cache_mb is not None and self.cache_mb < 0:
            raise InputError("SFY-JOIN-003", "--cache-mb must not be negative.")
        if self.dialer is None:
            proxy_to(self.consortium.agreed_hub(), self.proxy)  # before the table is read
        if (self.party.role == "silo") != (self.data is not None):
            raise InputError(
                "SFY-JOIN-004",
                f"{self.party.name!r} is a {self.party.role}: it must join "
                + ("with --data." if self.party.role == "silo" else "without --data."),
            )

    @property
    def features(self) -> list[str]:
        return [feature.name for feature in self.consortium.features]

    @property
    def cache_bytes(self) -> int:
        """How much memory may keep rows."""
        return default_cache_bytes() if self.cache_mb is None else self.cache_mb * 10**6

    def own_table(self, rows: Rows) -> SiloTable | None:
        """The rows of a silo, of which it is told what stays out; a helper has none."""
        if self.data is None:
            return None
        names = self.features
        # The other half is for the same rows, arranged.
        own = load_or_stream(self._source(), self.cache_bytes // 2, partial(rows, "read"))
        self.say(f"Read {own.census.rows:,} rows of {len(names):,} features.")
        few = few_values(own.census, self.own_minimum)
        for j in few:
            self.say(
                f"{printable(names[j])}: fewer than {self.own_minimum} values here; it counts as "
                "missing."
            )
        return without(own, few)

    def arranged(self, own: SiloTable | None, rows: Rows) -> TimedSilo | None:
        """The rows as the protocol asks for them; each exchange is a pass over them."""
        if own is None:
            return None
        held = own.source.nbytes if isinstance(own.source, HeldSource) else 0
        room, told = self.cache_bytes - held, partial(rows, "summed")
        try:
            return timed_silo(self.consortium.agreement(), own.source, room, told)
        except OutOfBounds as error:
            if not isinstance(self.data, str | Path):
                raise
            raise OutOfBounds(
                code_of(error, "SFY-JOIN-006"), f"{error} `securefedyj check --data` shows where."
            ) from None

    def digest_of(self, own: SiloTable | None) -> Callable[[bytes], str] | None:
        """What tells later, under a key, whether these are still the same rows."""
        return None if own is None else partial(rows_digest, own.source, self.features)

    def _source(self) -> Source:
        names, missing = self.features, (*MISSING, *self.missing)
        if isinstance(self.data, str | Path):
            return self.reader.source(Path(self.data), names, missing, self.dialect or Dialect())
        if has_column_names(self.data):
            return as_source(self.data, names, missing, self.dialect)
        data = self.data if hasattr(self.data, "shape") else np.asarray(unmasked(self.data))
        if len(data.shape) == 2 and data.shape[1] != len(names):
            raise TableError(
                "SFY-JOIN-005",
                f"the table has {data.shape[1]} columns without names, and {len(names)} features "
                "are agreed on; give those, in the agreed order",
            )
        agreed = Dialect(rename={str(j): name for j, name in enumerate(names)})
        return as_source(data, names, missing, agreed)

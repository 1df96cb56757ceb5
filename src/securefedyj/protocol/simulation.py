"""A whole consortium on this machine: every party runs the real program."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence

from securefedyj.engines.registry import facts_of
from securefedyj.numerics.streamed import default_cache_bytes
from securefedyj.party.messages import SESSION_BYTES
from securefedyj.protocol.agreement import Agreement
from securefedyj.protocol.cost import Cost
from securefedyj.protocol.program import run_party
from securefedyj.protocol.silos import Table, timed_silo
from securefedyj.protocol.transcript import Transcript


def simulate(
    agreement: Agreement, tables: Sequence[Table | None], cache_bytes: int | None = None
) -> tuple[Transcript, Cost]:
    """Run all parties of an agreement, each with its own table or None.

    Together they keep arranged rows up to so many bytes, a quarter of the memory by default.
    """
    room = default_cache_bytes() if cache_bytes is None else cache_bytes
    room //= max(1, sum(table is not None for table in tables))
    facts = facts_of(agreement.engine)
    facts.check_ready()
    session = secrets.token_bytes(SESSION_BYTES)
    parties = [
        facts.party(
            name,
            agreement.parties,
            fit_table(name, agreement, table, room),
            session=session,
            parameters=agreement.to_bytes(),
        )
        for name, table in zip(agreement.parties, tables, strict=True)
    ]
    start = time.perf_counter()
    outcomes = facts.run(parties)
    seconds = time.perf_counter() - start
    local = (max if facts.in_parallel else sum)(seconds for _, seconds in outcomes)
    # In parallel, rounds depend on which message comes first.
    rounds = None if facts.in_parallel else max(party.rounds for party in parties)
    sent = {party.name: party.bytes_sent for party in parties}
    return outcomes[0][0].concluded(), Cost.of_all(rounds, sent, local, seconds - local)


async def fit_table(
    name: str, agreement: Agreement, table: Table | None, cache_bytes: int | None = None
) -> tuple[Transcript, float]:
    """One party, which looks at its data only when all agree.

    Returns the transcript, still without the result, and the seconds spent on the local sums.
    """
    silo = timed_silo(agreement, table, cache_bytes)
    transcript = await run_party(name, agreement, silo)
    return transcript, silo.prepared + silo.seconds if silo else 0.0

"""A whole consortium on this machine: every party runs the real program."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence

from securefedyj.engines import Engine
from securefedyj.engines.registry import Launch, facts_of
from securefedyj.numerics.streamed import default_cache_bytes
from securefedyj.party import inprocess
from securefedyj.party.machine import Party
from securefedyj.party.messages import SESSION_BYTES
from securefedyj.protocol.agreement import Agreement
from securefedyj.protocol.cost import Cost
from securefedyj.protocol.program import run_party, secure_fed_yj
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
    launch = facts_of(agreement.engine).launch
    if launch is not None:
        return _simulate_in_processes(launch, agreement, tables, room)
    session = secrets.token_bytes(SESSION_BYTES)
    parties = [
        Party(
            name,
            agreement.parties,
            fit_table(name, agreement, table, room),
            session=session,
            parameters=agreement.to_bytes(),
        )
        for name, table in zip(agreement.parties, tables, strict=True)
    ]
    start = time.perf_counter()
    outcomes = inprocess.run(parties)
    seconds = time.perf_counter() - start
    local = sum(seconds for _, seconds in outcomes)
    rounds = max(party.rounds for party in parties)
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


def _simulate_in_processes(
    launch: Launch, agreement: Agreement, tables: Sequence[Table | None], cache_bytes: int
) -> tuple[Transcript, Cost]:
    """With an engine that brings its own connections: one process per party."""
    inputs = zip(agreement.parties, tables, strict=True)
    arguments = {name: (agreement, table, cache_bytes) for name, table in inputs}
    finished = launch(_fit_with_engine, arguments)
    transcript, _ = finished[agreement.parties[0]].result
    sent = {name: done.bytes_sent for name, done in finished.items()}
    # They compute side by side: only within one of them can the sums be told from the rest.
    slowest = max(finished.values(), key=lambda done: done.seconds)
    _, local = slowest.result
    return transcript.concluded(), Cost.of_all(None, sent, local, slowest.seconds - local)


async def _fit_with_engine(
    engine: Engine, agreement: Agreement, table: Table | None, cache_bytes: int
) -> tuple[Transcript, float]:
    """What `fit_table` does, in a process whose engine is connected already."""
    silo = timed_silo(agreement, table, cache_bytes)
    transcript = await secure_fed_yj(engine, silo, agreement)
    return transcript, silo.prepared + silo.seconds if silo else 0.0

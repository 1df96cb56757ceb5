"""A whole consortium on this machine: every party runs the real program."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence

import numpy as np

from securefedyj.engines import Engine
from securefedyj.numerics.arrays import Array
from securefedyj.numerics.silo import TimedSilo
from securefedyj.numerics.sums import ArraySilo
from securefedyj.party import inprocess
from securefedyj.party.machine import Party
from securefedyj.party.messages import SESSION_BYTES
from securefedyj.protocol.agreement import Agreement
from securefedyj.protocol.cost import Cost
from securefedyj.protocol.program import run_party, secure_fed_yj
from securefedyj.protocol.transcript import Transcript


def committee_of(engine: str, parties: Sequence[str]) -> tuple[str, ...]:
    """Who computes: three with "replicated", everybody otherwise."""
    if engine == "clear":
        return tuple(parties)
    if len(parties) < 3:
        raise ValueError(
            f"{len(parties)} parties cannot keep secrets from each other with engine {engine!r}: "
            "it needs three, because what two compute together each of them can undo. Add a "
            "computing party without data, such as a coordinator: fit([X_1, X_2, None])."
        )
    return tuple(parties[:3] if engine == "replicated" else parties)


def simulate(agreement: Agreement, tables: Sequence[Array | None]) -> tuple[Transcript, Cost]:
    """Run all parties of an agreement, each with its own table or None."""
    if agreement.engine == "mpyc":
        return _simulate_in_processes(agreement, tables)
    session = secrets.token_bytes(SESSION_BYTES)
    parties = [
        Party(
            name,
            agreement.parties,
            fit_table(name, agreement, table),
            session=session,
            parameters=agreement.to_bytes(),
        )
        for name, table in zip(agreement.parties, tables, strict=True)
    ]
    start = time.perf_counter()
    outcomes = inprocess.run(parties)
    seconds = time.perf_counter() - start
    local = sum(seconds for _, seconds in outcomes)
    cost = Cost(
        max(party.rounds for party in parties),
        {party.name: dict(party.bytes_sent) for party in parties},
        local,
        seconds - local,
    )
    return outcomes[0][0].concluded(), cost


async def fit_table(
    name: str, agreement: Agreement, table: Array | None
) -> tuple[Transcript, float]:
    """One party, which looks at its data only when all agree.

    Returns the transcript, still without the result, and the seconds spent on the local sums.
    """
    silo = timed_silo(agreement, table)
    transcript = await run_party(name, agreement, silo)
    return transcript, silo.seconds if silo else 0.0


def _simulate_in_processes(
    agreement: Agreement, tables: Sequence[Array | None]
) -> tuple[Transcript, Cost]:
    """Engine mpyc brings its own connections: one process per party."""
    from securefedyj.engines.mpyc import runtime as mpyc

    inputs = {
        name: (agreement, table) for name, table in zip(agreement.parties, tables, strict=True)
    }
    finished = mpyc.run(_run_mpyc_party, inputs)
    transcript, _ = finished[agreement.parties[0]].result
    local = sum(done.result[1] for done in finished.values())
    seconds = max(done.seconds for done in finished.values())
    sent = {name: dict(done.bytes_sent) for name, done in finished.items()}
    return transcript.concluded(), Cost(None, sent, local, seconds)


async def _run_mpyc_party(
    engine: Engine, agreement: Agreement, table: Array | None
) -> tuple[Transcript, float]:
    silo = timed_silo(agreement, table)
    transcript = await secure_fed_yj(engine, silo, agreement)
    return transcript, silo.seconds if silo else 0.0


def timed_silo(agreement: Agreement, table: Array | None) -> TimedSilo | None:
    """A silo's rows, checked and arranged; None for a party without data."""
    if table is None:
        return None
    start = time.perf_counter()
    silo = ArraySilo(np.asarray(table), agreement.domain, list(agreement.features))
    return TimedSilo(silo, time.perf_counter() - start)

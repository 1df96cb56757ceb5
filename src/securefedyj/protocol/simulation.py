"""A whole consortium on this machine: every party runs the real program."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from securefedyj.engines import Engine
from securefedyj.engines.clear import Clear
from securefedyj.engines.replicated import connect
from securefedyj.numerics.sums import TimedStatistics
from securefedyj.numerics.yeojohnson import Array
from securefedyj.party import inprocess
from securefedyj.party.machine import Party
from securefedyj.party.messages import SESSION_BYTES
from securefedyj.protocol.agreement import Agreement
from securefedyj.protocol.program import secure_fed_yj
from securefedyj.protocol.transcript import Transcript


class Cost(NamedTuple):
    """What a run took."""

    rounds: int | None
    """Of messages; None with engine mpyc, whose library does not count them."""
    bytes_sent: dict[str, dict[str, int]]
    """By each party to each of its peers, headers included."""
    seconds_local: float
    """Spent on the exact sums, all silos together."""
    seconds_secure: float
    """Spent on everything else; with engine mpyc, the whole time of its processes."""


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
            run_party(name, agreement, table),
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


async def run_party(
    name: str, agreement: Agreement, table: Array | None
) -> tuple[Transcript, float]:
    """One party's whole run: check its own data, then connect, then fit.

    Returns the transcript, still without the result, and the seconds spent on the local sums.
    """
    silo = _silo(agreement, table)
    engine: Engine
    if agreement.engine == "clear":
        engine = Clear(name, agreement.parties)
    else:
        a, b, c = agreement.committee
        engine = await connect(name, agreement.parties, (a, b, c))
    transcript = await secure_fed_yj(engine, silo, agreement)
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
    silo = _silo(agreement, table)
    transcript = await secure_fed_yj(engine, silo, agreement)
    return transcript, silo.seconds if silo else 0.0


def _silo(agreement: Agreement, table: Array | None) -> TimedStatistics | None:
    if table is None:
        return None
    return TimedStatistics(np.asarray(table), agreement.domain, list(agreement.features))

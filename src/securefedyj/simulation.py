"""A whole consortium on this machine: every party runs the real program."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from securefedyj.agreement import Agreement
from securefedyj.engines import Engine
from securefedyj.engines.clear import Clear
from securefedyj.engines.replicated import connect
from securefedyj.messages import SESSION_BYTES
from securefedyj.party import Party
from securefedyj.plan import Plan
from securefedyj.protocol import secure_fed_yj
from securefedyj.runtime import inprocess
from securefedyj.statistics import Index, SiloStatistics, Sums
from securefedyj.transcript import Transcript
from securefedyj.yeojohnson import Array


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
    clock = _Clock()
    session = secrets.token_bytes(SESSION_BYTES)
    parties = [
        Party(
            name,
            agreement.parties,
            # The result follows from the transcript: one party computes it for all.
            run_party(name, agreement, table, clock, conclude=name == agreement.parties[0]),
            session=session,
            parameters=agreement.to_bytes(),
        )
        for name, table in zip(agreement.parties, tables, strict=True)
    ]
    start = time.perf_counter()
    transcripts = inprocess.run(parties)
    seconds = time.perf_counter() - start
    cost = Cost(
        max(party.rounds for party in parties),
        {party.name: dict(party.bytes_sent) for party in parties},
        clock.seconds,
        seconds - clock.seconds,
    )
    return transcripts[0], cost


async def run_party(
    name: str, agreement: Agreement, table: Array | None, clock: _Clock, conclude: bool = True
) -> Transcript:
    """One party's whole run: check its own data, then connect, then fit."""
    silo = None if table is None else _TimedStatistics(table, agreement, clock)
    engine: Engine
    if agreement.engine == "clear":
        engine = Clear(name, agreement.parties)
    else:
        a, b, c = agreement.committee
        engine = await connect(name, agreement.parties, (a, b, c))
    return await secure_fed_yj(engine, silo, agreement, conclude=conclude)


def _simulate_in_processes(
    agreement: Agreement, tables: Sequence[Array | None]
) -> tuple[Transcript, Cost]:
    """Engine mpyc brings its own connections: one process per party."""
    from securefedyj.runtime import mpyc

    inputs = {
        name: (agreement, table) for name, table in zip(agreement.parties, tables, strict=True)
    }
    finished = mpyc.run(_run_mpyc_party, inputs)
    transcript, _ = finished[agreement.parties[0]].result
    local = sum(done.result[1] for done in finished.values())
    seconds = max(done.seconds for done in finished.values())
    sent = {name: dict(done.bytes_sent) for name, done in finished.items()}
    return transcript, Cost(None, sent, local, seconds)


async def _run_mpyc_party(
    engine: Engine, agreement: Agreement, table: Array | None
) -> tuple[Transcript, float]:
    clock = _Clock()
    silo = None if table is None else _TimedStatistics(table, agreement, clock)
    return await secure_fed_yj(engine, silo, agreement), clock.seconds


class _Clock:
    """Adds up the time spent on local sums."""

    seconds = 0.0


class _TimedStatistics(SiloStatistics):
    """Statistics that say how long they take: the protocol itself reads no clock."""

    def __init__(self, table: Array, agreement: Agreement, clock: _Clock) -> None:
        self._clock = clock
        start = time.perf_counter()
        super().__init__(np.asarray(table), agreement.domain, list(agreement.features))
        clock.seconds += time.perf_counter() - start

    def sums(self, feature: Index, lmbda: Array, plan: Plan, limbs: int) -> Sums:
        start = time.perf_counter()
        sums = super().sums(feature, lmbda, plan, limbs)
        self._clock.seconds += time.perf_counter() - start
        return sums

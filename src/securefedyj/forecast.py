"""What a run will cost, from the agreed file alone: rounds, bytes and seconds.

The protocol itself is run, on made-up rows and for some of the features. Sizes of messages depend
on bounds, n and lambda only; the made-up silos claim as many rows as they are told to have, with
the sums that such rows would give, so rings are as wide as they will be.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from securefedyj import limbs as wide
from securefedyj.agreement import Agreement
from securefedyj.consortium import Consortium
from securefedyj.engines.replicated import connect
from securefedyj.limbs import Limbs
from securefedyj.messages import SESSION_BYTES
from securefedyj.party import Party
from securefedyj.plan import Domain, Plan, make_plan
from securefedyj.protocol import secure_fed_yj
from securefedyj.runtime import inprocess
from securefedyj.statistics import Index, SiloStatistics, Sums
from securefedyj.transcript import Transcript
from securefedyj.yeojohnson import Array

LEVELS = (1, 2, 4, 8)
_VALUES = 8  # made-up values per silo and feature
_PAIRS = 2048  # pairs of a feature and a lambda in one exchange of the dry run


class Forecast(NamedTuple):
    """The cost of a run with so many levels per exchange."""

    levels: int
    rounds: int
    megabytes: float
    """Sent by the party that sends most."""
    seconds: float
    computing: float
    """Seconds of these that each party computes; the rest is the network."""


class Outlook(NamedTuple):
    """The cost by levels, and which ring widths occur."""

    forecasts: tuple[Forecast, ...]
    ring_bits: tuple[int, ...]

    @property
    def recommended(self) -> int:
        return min(self.forecasts, key=lambda forecast: forecast.seconds).levels


def forecast(
    consortium: Consortium,
    *,
    rows: int,
    delay: float,
    bytes_per_second: float,
    levels: Sequence[int] = LEVELS,
) -> Outlook:
    """Forecast a run.

    Parameters
    ----------
    rows
        Of each silo.
    delay
        Seconds that a message takes from one party to another, through the hub.
    bytes_per_second
        Of each party's line.
    """
    rate = _seconds_per_sum(consortium.agreement().domain)
    found, widths = [], set[int]()
    for m in levels:
        agreement = replace(consortium.agreement(), levels_per_exchange=m, minimum_values=0)
        chosen = _sample(len(agreement.features), max(1, _PAIRS // (2**m - 1)))
        share = len(agreement.features) / len(chosen)
        run = _dry_run(_part(agreement, chosen), consortium, rows)
        local = run.sums * share * rows * rate
        megabytes = run.bytes * share / 1e6
        computing = run.seconds * share + local
        seconds = run.rounds * delay + megabytes * 1e6 / bytes_per_second + computing
        found.append(Forecast(m, run.rounds, megabytes, seconds, computing))
        widths |= run.widths
    return Outlook(tuple(found), tuple(sorted(widths)))


class _DryRun(NamedTuple):
    rounds: int
    bytes: int
    seconds: float
    """Of secure computation, one party's part."""
    sums: int
    """Pairs of a feature and a lambda that each silo has summed up."""
    widths: set[int]


def _dry_run(agreement: Agreement, consortium: Consortium, rows: int) -> _DryRun:
    silos = {
        party.name: _MadeUp(agreement.domain, list(agreement.features), rows)
        for party in consortium.parties
        if party.role == "silo"
    }
    session = secrets.token_bytes(SESSION_BYTES)
    parties = [
        Party(
            name,
            agreement.parties,
            _program(name, agreement, silos.get(name)),
            session=session,
            parameters=agreement.to_bytes(),
        )
        for name in agreement.parties
    ]
    start = time.perf_counter()
    inprocess.run(parties)
    seconds = (time.perf_counter() - start - sum(s.seconds for s in silos.values())) / 3
    return _DryRun(
        max(party.rounds for party in parties),
        max(sum(party.bytes_sent.values()) for party in parties),
        seconds,
        max(silo.pairs for silo in silos.values()),
        {64 * limbs for silo in silos.values() for limbs in silo.widths},
    )


async def _program(name: str, agreement: Agreement, silo: SiloStatistics | None) -> Transcript:
    a, b, c = agreement.committee
    return await secure_fed_yj(await connect(name, agreement.parties, (a, b, c)), silo, agreement)


class _MadeUp(SiloStatistics):
    """A silo with few made-up values, each of which stands for many equal ones."""

    def __init__(self, domain: Domain, names: list[str], rows: int) -> None:
        super().__init__(_made_up_rows(domain, _VALUES), domain, names)
        self._times = max(1, rows // _VALUES)
        self.count = self.count * self._times
        self.pairs, self.seconds = 0, 0.0
        self.widths: set[int] = set()

    def sums(self, feature: Index, lmbda: Array, plan: Plan, limbs: int) -> Sums:
        start = time.perf_counter()
        sums = super().sums(feature, lmbda, plan, limbs)
        self.pairs += len(feature)
        self.widths.add(limbs)
        self.seconds += time.perf_counter() - start
        return Sums(*(wide.scale(part, self._times) for part in sums))

    def phi_sum(self, features: Index, limbs: int) -> Limbs:
        return wide.scale(super().phi_sum(features, limbs), self._times)


def _made_up_rows(domain: Domain, rows: int) -> Array:
    """Values between the bounds, even on the scale of log(1 + |x|)."""
    lower, upper = (np.sign(b) * np.log1p(np.abs(b)) for b in (domain.lower, domain.upper))
    at = np.linspace(0.05, 0.95, rows)[:, None]
    scaled = lower + (upper - lower) * at
    values: Array = np.clip(np.sign(scaled) * np.expm1(np.abs(scaled)), domain.lower, domain.upper)
    return values


def _seconds_per_sum(domain: Domain) -> float:
    """Measure how long a silo takes for one value at one lambda."""
    one = domain.take(np.zeros(1, dtype=np.intp))
    rows, points = 8192, 15
    silo = SiloStatistics(_made_up_rows(one, rows), one, ["measured"])
    lmbda = np.linspace(-0.5, 1.5, points)
    feature = np.zeros(points, dtype=np.intp)
    n = np.full(points, rows, dtype=np.int64)
    plan = make_plan(one.take(feature), n, lmbda)
    start = time.perf_counter()
    silo.sums(feature, lmbda, plan, int(plan.limbs.max()))
    return (time.perf_counter() - start) / (rows * points)


def _sample(size: int, most: int) -> Index:
    """Some of the features, evenly."""
    return np.unique(np.linspace(0, size - 1, min(size, most)).round().astype(np.intp))


def _part(agreement: Agreement, chosen: Index) -> Agreement:
    return replace(
        agreement,
        features=tuple(agreement.features[j] for j in chosen),
        domain=agreement.domain.take(chosen),
    )

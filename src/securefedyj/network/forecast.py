"""What a run will cost, from the agreed file alone: rounds, bytes and seconds.

The protocol itself is run, on made-up rows and for some of the features. Sizes of messages depend
on bounds, n and lambda only; the made-up silos claim the given number of rows, with
the sums that such rows would give, so rings are as wide as in the run.

Seconds are those of this machine's processor, measured now, under its present load: the plan is for
parties that each have a machine like this one.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from securefedyj.engines import Engine
from securefedyj.engines.registry import facts_of
from securefedyj.network.consortium import Consortium
from securefedyj.network.crossing import Crossing
from securefedyj.network.crossing import measure as measure_crossing
from securefedyj.numerics import wide
from securefedyj.numerics.arrays import Array, Index, Integers
from securefedyj.numerics.encoding import Domain, Encoding, choose_encoding
from securefedyj.numerics.sums import ArraySilo, Sums
from securefedyj.numerics.wide import Limbs
from securefedyj.party import inprocess
from securefedyj.party.machine import Party
from securefedyj.party.messages import SESSION_BYTES
from securefedyj.protocol.agreement import Agreement
from securefedyj.protocol.program import secure_fed_yj
from securefedyj.protocol.schedule import features_at_once
from securefedyj.protocol.state import SILENT, OpeningLog
from securefedyj.protocol.transcript import Transcript

LEVELS = (1, 2, 4, 8)
DELAY_MS, MBIT = 20.0, 100.0  # the line between parties, by default
_ABOUT = 1.1  # times as long is about the same
_VALUES = 8  # made-up values per silo and feature
_PAIRS = 8192  # pairs of a feature and a lambda in one exchange of the dry run
_MEASURED = 1 << 15  # values whose sums are timed
_REPEATS = 5  # of what is timed; the shortest counts, the others were disturbed


def bytes_per_second(mbit: float) -> float:
    """Convert the speed of a line from Mbit/s."""
    return mbit * 1e6 / 8


class Forecast(NamedTuple):
    """The cost of a run with some number of levels, steps of the search, per exchange."""

    levels: int
    rounds: int
    megabytes: float
    """Sent by the party that sends most."""
    seconds: float
    computing: float
    """Seconds of a party's processor, also those in which messages are on their way."""
    relaying: float
    """Seconds of the hub's processor."""


class Outlook(NamedTuple):
    """The cost by levels, and which ring widths occur."""

    forecasts: tuple[Forecast, ...]
    ring_bits: tuple[int, ...]
    unverified: Forecast | None = None
    """With the recommended levels, if the result were not verified; where that was asked for."""

    @property
    def recommended(self) -> int:
        """The fewest levels that are about as fast as any: more of them compute and send more."""
        enough = _ABOUT * min(forecast.seconds for forecast in self.forecasts)
        return min(one.levels for one in self.forecasts if one.seconds <= enough)


def forecast(
    consortium: Consortium,
    *,
    rows: int,
    delay: float,
    bytes_per_second: float,
    levels: Sequence[int] = LEVELS,
    crossing: Crossing | None = None,
    compare: bool = False,
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
    crossing
        What a message takes in addition to the line; measured with a hub on this machine if None.
    compare
        Forecast also what the same run would cost if its result were not verified.
    """
    agreement = replace(consortium.agreement(), minimum_values=0)
    per_sum = _seconds_per_sum(agreement.domain, rows)
    crossing = measure_crossing() if crossing is None else crossing
    widths = set[int]()

    def cost(m: int, verified: bool) -> Forecast:
        agreed = replace(agreement, levels_per_exchange=m, verified=verified)
        run = _extrapolated(agreed, rows, max(2, _PAIRS // (2**m - 1)))
        widths.update(run.widths)
        work = run.seconds + run.sums * rows * per_sum
        # Sender, hub and receiver each have a third of the work of a crossing. Long messages are
        # passed on while they come in: the slower of a party's line and the hub counts.
        line = run.bytes / bytes_per_second
        hub = run.bytes_of_all * crossing.per_byte / 3
        seconds = run.rounds * (delay + crossing.per_message) + max(line, hub) + work
        own = run.rounds * crossing.per_message + run.bytes * crossing.per_byte
        return Forecast(m, run.rounds, run.bytes / 1e6, seconds, work + own * 2 / 3, hub)

    found = tuple(cost(m, agreement.verified) for m in levels)
    outlook = Outlook(found, tuple(sorted(widths)))
    if not (compare and agreement.verified):
        return outlook
    return outlook._replace(unverified=cost(outlook.recommended, verified=False))


def _extrapolated(agreement: Agreement, rows: int, most: int) -> _DryRun:
    """A dry run with all features, or extrapolated from two with fewer.

    Part of the cost is there for any number of features, and part grows with it.
    """
    size = len(agreement.features)
    if size <= most:
        return _dry_run(agreement, rows)
    few, many = (
        min(
            (_dry_run(_part(agreement, _sample(size, number)), rows) for _ in range(2)),
            key=lambda run: run.seconds,
        )
        for number in (most // 2, most)
    )
    whole, rest = divmod(size, features_at_once(agreement))
    batches = [features_at_once(agreement)] * whole + [rest] * (rest > 0)
    return many.plus(few, (size - most) / (most - most // 2), batches)


class _DryRun(NamedTuple):
    rounds: int
    bytes: int
    """Sent by the party that sends most."""
    bytes_of_all: int
    sums: int
    """Pairs of a feature and a lambda that each silo has summed up."""
    seconds: float
    """Of secure computation, one party's part."""
    widths: set[int]
    start: int
    """Rounds before the first batch."""
    features: int
    claimed: int
    """Claims joined at once, about each feature; 0 in a run that is not verified."""

    def plus(self, fewer: _DryRun, times: float, batches: Sequence[int]) -> _DryRun:
        """With the difference to a run with fewer features added a number of times, in batches."""

        def grown(before: float, now: float) -> float:
            return now + max(0.0, now - before) * times

        return self._replace(
            rounds=self.start + sum(self._rounds(size) for size in batches),
            bytes=round(grown(fewer.bytes, self.bytes)),
            bytes_of_all=round(grown(fewer.bytes_of_all, self.bytes_of_all)),
            sums=round(grown(fewer.sums, self.sums)),
            seconds=grown(fewer.seconds, self.seconds),
        )

    def _rounds(self, features: int) -> int:
        """Of a batch. The conjunction of its claims takes more of them for more features."""
        of_batch = self.rounds - self.start
        if not self.claimed:
            return of_batch
        return of_batch + _log2(self.claimed * features // self.features) - _log2(self.claimed)


def _dry_run(agreement: Agreement, rows: int) -> _DryRun:
    silos = {
        name: _MadeUp(agreement.domain, list(agreement.features), rows) for name in agreement.silos
    }
    session = secrets.token_bytes(SESSION_BYTES)
    clock = _Clock()
    connect = facts_of(agreement.engine).connect

    async def fit(name: str) -> Engine:
        engine = await connect(name, agreement.parties, agreement.committee, list(silos))
        await secure_fed_yj(
            engine, silos.get(name), agreement, log=clock if name == parties[0].name else SILENT
        )
        return engine

    parties = [
        Party(
            name,
            agreement.parties,
            fit(name),
            session=session,
            parameters=agreement.to_bytes(),
        )
        for name in agreement.parties
    ]
    clock.party = parties[0]
    start = time.process_time()
    engine, *_ = inprocess.run(parties)
    seconds = (time.process_time() - start - sum(s.seconds for s in silos.values())) / 3
    sent = [sum(party.bytes_sent.values()) for party in parties]
    rounds = max(party.rounds for party in parties)
    return _DryRun(
        rounds,
        max(sent),
        sum(sent),
        max(silo.pairs for silo in silos.values()),
        seconds,
        {64 * limbs for silo in silos.values() for limbs in silo.widths},
        clock.rounds[1],
        len(agreement.features),
        engine.most_claims,
    )


def _log2(number: int) -> int:
    """The logarithm, rounded up."""
    return (number - 1).bit_length()


class _Clock(OpeningLog):
    """Notes how many rounds of one party are over when an exchange begins."""

    party: Party[Engine]

    def __init__(self) -> None:
        self.rounds: list[int] = []

    def exchange(self, transcript: Transcript) -> None:
        self.rounds.append(self.party.rounds)


class _MadeUp:
    """A silo with few made-up values, each standing for many equal ones."""

    def __init__(self, domain: Domain, names: list[str], rows: int) -> None:
        self._silo = ArraySilo(_made_up_rows(domain, _VALUES), domain, names)
        self._times = max(1, rows // _VALUES)
        self.pairs, self.seconds = 0, 0.0
        self.widths: set[int] = set()

    @property
    def count(self) -> Integers:
        return self._silo.count * self._times

    def sums(self, feature: Index, lmbda: Array, encoding: Encoding, limbs: int) -> Sums:
        start = time.process_time()
        sums = self._silo.sums(feature, lmbda, encoding, limbs)
        self.pairs += len(feature)
        self.widths.add(limbs)
        self.seconds += time.process_time() - start
        return Sums(*(wide.scale(part, self._times) for part in sums))

    def phi_sum(self, features: Index, limbs: int) -> Limbs:
        return wide.scale(self._silo.phi_sum(features, limbs), self._times)

    def ranks(self, feature: Index, points: Array) -> Integers:
        return self._silo.ranks(feature, points) * self._times


def _made_up_rows(domain: Domain, rows: int) -> Array:
    """Values between the bounds, even on the scale of log(1 + |x|)."""
    lower, upper = (np.sign(b) * np.log1p(np.abs(b)) for b in (domain.lower, domain.upper))
    at = np.linspace(0.05, 0.95, rows)[:, None]
    scaled = lower + (upper - lower) * at
    values: Array = np.clip(np.sign(scaled) * np.expm1(np.abs(scaled)), domain.lower, domain.upper)
    return values


def _seconds_per_sum(domain: Domain, rows: int) -> float:
    """Measure how long a silo takes for one value at one lambda, in a table of such a shape."""
    rows = min(rows, _MEASURED)
    size = max(1, min(len(domain.lower), _MEASURED // rows))
    part = domain.take(_sample(len(domain.lower), size))
    silo = ArraySilo(_made_up_rows(part, rows), part, [str(j) for j in range(size)])
    points = 15
    lmbda = np.repeat(np.linspace(-0.5, 1.5, points), size)
    feature = np.tile(np.arange(size), points)
    encoding = choose_encoding(part.take(feature), np.full(len(feature), rows), lmbda)
    seconds = []
    for _ in range(_REPEATS):
        start = time.process_time()
        silo.sums(feature, lmbda, encoding, int(encoding.limbs.max()))
        seconds.append(time.process_time() - start)
    return min(seconds) / (rows * len(feature))


def _sample(size: int, most: int) -> Index:
    """Some of the features, evenly."""
    return np.unique(np.linspace(0, size - 1, min(size, most)).round().astype(np.intp))


def _part(agreement: Agreement, chosen: Index) -> Agreement:
    return replace(
        agreement,
        features=tuple(agreement.features[j] for j in chosen),
        domain=agreement.domain.take(chosen),
    )

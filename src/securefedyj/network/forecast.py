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

from securefedyj.engines.registry import facts_of
from securefedyj.network.consortium import Consortium
from securefedyj.network.local import Crossing, measure_crossing
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
from securefedyj.protocol.schedule import exchanges_before, features_at_once
from securefedyj.protocol.state import SILENT, OpeningLog
from securefedyj.protocol.submissions import Submissions, held_by, masked, share
from securefedyj.protocol.transcript import Transcript

LEVELS = (1, 2, 4, 8)
DELAY_MS, MBIT = 20.0, 100.0  # the line between parties, by default
_ABOUT = 1.1  # times as long is about the same
_VALUES = 8  # made-up values per silo and feature
_PAIRS = 8192  # pairs of a feature and a lambda in one exchange of the dry run
_POINTS = 1 << 14  # and points of submitted features there
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
    asked = agreement.asked
    live = asked.fitted[~agreement.questions_given[asked.fitted]]
    per_sum = _seconds_per_sum(asked.domain.take(live), rows)
    points = max(1, sum(map(len, agreement.points)) // len(agreement.points))
    crossing = measure_crossing() if crossing is None else crossing
    widths = set[int]()

    def cost(m: int, verified: bool) -> Forecast:
        agreed = replace(agreement, levels_per_exchange=m, verified=verified)
        run = _extrapolated(agreed, rows, max(2, min(_PAIRS // (2**m - 1), _POINTS // points)))
        widths.update(run.widths)
        sent, sent_by_all, sums, seconds = run.amounts
        work = seconds + sums * rows * per_sum
        # Sender, hub and receiver each have a third of the work of a crossing. Long messages are
        # passed on while they come in: the slower of a party's line and the hub counts.
        line, hub = sent / bytes_per_second, sent_by_all * crossing.per_byte / 3
        total = run.rounds * (delay + crossing.per_message) + max(line, hub) + work
        own = run.rounds * crossing.per_message + sent * crossing.per_byte
        return Forecast(m, run.rounds, sent / 1e6, total, work + own * 2 / 3, hub)

    found = tuple(cost(m, consortium.verified) for m in levels)
    outlook = Outlook(found, tuple(sorted(widths)))
    if compare and consortium.verified and not consortium.submitted:  # those always are
        return outlook._replace(unverified=cost(outlook.recommended, verified=False))
    return outlook


class _Amounts(NamedTuple):
    """What a run takes the more of, the more features there are."""

    sent: float
    """Bytes, by the party that sends most."""
    sent_by_all: float
    sums: float
    """Pairs of a feature and a lambda that each silo sums up."""
    seconds: float
    """Of secure computation, one party's part."""


class _DryRun(NamedTuple):
    """A run about some questions, in one batch."""

    rounds: int
    start: int
    """Rounds before the batch."""
    rounds_of_claims: int
    """Of one exchange with claims about totals."""
    widths: set[int]
    amounts: _Amounts


def _extrapolated(agreement: Agreement, rows: int, most: int) -> _DryRun:
    """A dry run with all questions, or extrapolated from two with fewer.

    Part of the cost is there for any number of questions, and part grows with it.
    """
    size = len(agreement.asked)
    if size <= most:
        return _dry_run(agreement, rows)
    few, many = (
        min(
            (_dry_run(agreement.about(_sample(size, number)), rows) for _ in range(2)),
            key=lambda run: run.amounts.seconds,
        )
        for number in (most // 2, most)
    )
    times = (size - most) / (most - most // 2)
    amounts = (
        now + max(0.0, now - before) * times
        for before, now in zip(few.amounts, many.amounts, strict=True)
    )
    batches = -(-size // features_at_once(agreement))
    more = exchanges_before(agreement) - exchanges_before(agreement.about(_sample(size, most)))
    rounds = many.rounds + more * many.rounds_of_claims + (batches - 1) * (many.rounds - many.start)
    return many._replace(rounds=rounds, amounts=_Amounts(*amounts))


def _dry_run(agreement: Agreement, rows: int) -> _DryRun:
    online, live = agreement.online, not agreement.given.all()
    silos = {name: _MadeUp(agreement, rows) for name in agreement.silos if live}
    given = _made_up_submissions(agreement, rows) if agreement.submitted else {}
    connect, clock = facts_of(agreement.engine).connect, _Clock()
    session, parameters = secrets.token_bytes(SESSION_BYTES), agreement.to_bytes()

    async def fit(name: str) -> None:
        log = clock if name == online[0] else SILENT
        engine = await connect(name, online, agreement.committee, list(silos))
        submissions = given.get(name)
        await secure_fed_yj(engine, silos.get(name), agreement, log=log, submissions=submissions)

    parties = [
        Party(name, online, fit(name), session=session, parameters=parameters) for name in online
    ]
    clock.party = parties[0]
    start = time.process_time()
    inprocess.run(parties)
    seconds = time.process_time() - start - sum(silo.seconds for silo in silos.values())
    sent = [sum(party.bytes_sent.values()) for party in parties]
    pairs = max((silo.pairs for silo in silos.values()), default=0)
    first = exchanges_before(agreement)
    return _DryRun(
        max(party.rounds for party in parties),
        clock.rounds[first],
        clock.rounds[first] - clock.rounds[first - 1],
        {64 * limbs for silo in silos.values() for limbs in silo.widths},
        _Amounts(max(sent), sum(sent), pairs, seconds / 3),
    )


class _Clock(OpeningLog):
    """Notes how many rounds of one party are over when an exchange begins."""

    party: Party[None]

    def __init__(self) -> None:
        self.rounds: list[int] = []

    def exchange(self, transcript: Transcript) -> None:
        self.rounds.append(self.party.rounds)


def _made_up_submissions(agreement: Agreement, rows: int) -> dict[str, Submissions]:
    """What the members hold if all silos have submitted this many rows, even over the points."""
    n, counts = rows * len(agreement.silos), list[int]()
    for points in map(len, agreement.points):
        counts += [n // points + (k < n % points) for k in range(points)]
    return held_by(agreement, [share(masked(np.array(counts), (), ()))], secrets.token_bytes(32))


class _MadeUp(ArraySilo):
    """A silo with few made-up values, each standing for many equal ones."""

    def __init__(self, agreement: Agreement, rows: int) -> None:
        domain = agreement.asked.domain
        super().__init__(_made_up_rows(domain, _VALUES), domain, agreement.questions)
        self._times = max(1, rows // _VALUES)
        self.count *= self._times
        self.pairs, self.seconds = 0, 0.0
        self.widths: set[int] = set()

    def sums(self, feature: Index, lmbda: Array, encoding: Encoding, limbs: int) -> Sums:
        start = time.process_time()
        sums = super().sums(feature, lmbda, encoding, limbs)
        self.pairs += len(feature)
        self.widths.add(limbs)
        self.seconds += time.process_time() - start
        return Sums(*(wide.scale(part, self._times) for part in sums))

    def phi_sum(self, features: Index, limbs: int) -> Limbs:
        return wide.scale(super().phi_sum(features, limbs), self._times)

    def ranks(self, feature: Index, points: Array) -> Integers:
        return super().ranks(feature, points) * self._times


def _made_up_rows(domain: Domain, rows: int) -> Array:
    """Values between the bounds, even on the scale of log(1 + |x|)."""
    lower, upper = (np.sign(b) * np.log1p(np.abs(b)) for b in (domain.lower, domain.upper))
    at = np.linspace(0.05, 0.95, rows)[:, None]
    scaled = lower + (upper - lower) * at
    values: Array = np.clip(np.sign(scaled) * np.expm1(np.abs(scaled)), domain.lower, domain.upper)
    return values


def _seconds_per_sum(domain: Domain, rows: int) -> float:
    """Measure how long a silo takes for one value at one lambda, in a table of such a shape."""
    if not len(domain.lower):
        return 0.0
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

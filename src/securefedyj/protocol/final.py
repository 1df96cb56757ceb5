"""The final opening: mean and variance at lambda*, verified if that was agreed on.

docs/protocol.md, sections 6.4 and 6.5. Without verification there are two openings: the magnitude
of V, then the bits of V and S_y that it admits. A verified exchange has one: whether all `Claims`
about what was revealed before hold, the magnitude, and those bits. If the claims do not hold, or
where a magnitude does not admit a bit, 0 is opened.

One opening, so that no party sees a part of it and can still change the rest. A member that has
checked everything notes the part that it will send (`OpeningLog.accepted`) before it says so. When
the first part is sent, all members have therefore noted theirs. After an interruption they send the
same bytes again, and nothing is computed a second time.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any

import numpy as np

from securefedyj.engines import Shared, SharedBits, concatenate
from securefedyj.engines.interface import Verifying
from securefedyj.errors import ProtocolError, Unverified, code_of
from securefedyj.numerics import wide
from securefedyj.numerics.arrays import Bools, Index, Integers
from securefedyj.party.rounds import in_lockstep
from securefedyj.protocol.batch import Batch, Group
from securefedyj.protocol.reveals import (
    MAGNITUDE_STEP,
    Final,
    Magnitudes,
    Moments,
    lowest_opened,
)
from securefedyj.protocol.schedule import NextOpening
from securefedyj.protocol.silos import TimedSilo
from securefedyj.protocol.state import Opened


async def open_result(batch: Batch, due: NextOpening) -> None:
    """The exchange at the end of a batch, or the part of it that was not made before."""
    some = np.flatnonzero((batch.n > 0) & ~batch.ranked)
    groups = batch.moments_at(some, batch.run.schedule.optimum(batch.features[some]))
    if not batch.run.agreement.verified:
        await _open_in_two(batch, due.kind is Magnitudes, groups)
        return
    try:
        await _open_at_once(batch, groups)
    except Unverified:
        raise
    except ProtocolError as error:  # such as two components that should be the same
        raise Unverified(code_of(error, "SFY-RUN-005"), str(error)) from error


# Verified: one opening.


async def _open_at_once(batch: Batch, groups: Sequence[Group]) -> None:
    run, engine = batch.run, batch.run.engine.verified()
    part = run.part()
    if part is None:
        vector = await _compute(batch, engine, groups)
        await engine.check(lambda: run.log.accepted(run.transcript, engine.held(vector)))
    else:
        await engine.agree(run.transcript.digest())
        vector = engine.restored(part, 1 + sum(map(_size, groups)))
    (opened,) = await run.open_bits(engine, [vector])
    run.reveal(_final(batch, groups, opened))


async def _compute(batch: Batch, engine: Verifying, groups: Sequence[Group]) -> SharedBits:
    """Share inputs, make all claims, and compute what is opened: one vector of bits."""
    claims = Claims(batch, engine)
    inputs = batch.inputs([*groups, *claims.groups])
    inputs[len(groups) : len(groups)] = map(batch.run.own_counts, claims.counted)
    if batch.last and isinstance(batch.run.silo, TimedSilo):
        batch.run.silo.release()
    shared = await batch.run.share(engine, inputs)
    del inputs
    branches: list[Coroutine[Any, Any, Any]] = [
        *(_bits(batch, engine, sums) for sums in shared[: len(groups)]),
        claims.make(shared[len(groups) :]),
        engine.challenge(),
    ]
    del shared  # large; the branches free what they hold as they finish with it
    *parts, _, _ = await in_lockstep(*branches)
    *below, verdict = await in_lockstep(
        *(
            engine.below_powers(bits[:, : len(group.chosen)], MAGNITUDE_STEP, _steps(group))
            for group, bits in zip(groups, parts, strict=True)
        ),
        claims.verdict(groups, parts),
    )
    result_bits = batch.run.agreement.result_bits
    admitted = await in_lockstep(
        *(_admitted(engine, verdict, *pair, result_bits) for pair in zip(below, parts, strict=True))
    )
    return engine.joined([verdict, *(bits for pair in admitted for bits in pair)])


async def _bits(batch: Batch, engine: Verifying, sums: Shared) -> SharedBits:
    """All bits of V, then of S_y."""
    both = concatenate(await batch.moments(engine, sums))
    del sums
    return await engine.bits(both)


async def _admitted(
    engine: Verifying, verdict: SharedBits, below: SharedBits, bits: SharedBits, result_bits: int
) -> tuple[SharedBits, SharedBits]:
    """The same, with 0 where the verdict is 0 and for bits that the magnitude does not admit."""
    steps, q = below.shape
    chosen = await engine.conjunction(
        engine.joined([below]), verdict[np.zeros(steps * q, dtype=np.intp)]
    )
    # See `lowest_opened`: a bit is opened if V is below the power at which it no longer is.
    position = np.arange(bits.shape[0])[:, None] + result_bits
    step = position // np.array([MAGNITUDE_STEP, MAGNITUDE_STEP // 2])  # of V, and of S_y
    known = engine.joined([chosen, verdict[np.zeros(q, dtype=np.intp)]])
    admits = engine.separated(known, q)[np.minimum(step, steps).ravel()]
    return chosen, await engine.conjunction(engine.joined([bits]), engine.joined([admits]))


def _final(batch: Batch, groups: Sequence[Group], opened: Opened) -> Final:
    size, holds, start = len(batch.features), bool(opened[0]), 1
    magnitude: Integers = np.zeros(size, dtype=np.int64)
    V, S_y = np.zeros((2, size), dtype=object)
    for group in groups if holds else ():
        where, q, end = group.chosen, len(group.chosen), start + _size(group)
        below, bits = np.split(opened[start:end], [_steps(group) * q])
        magnitude[where] = _magnitude(below.reshape(-1, q))
        low = lowest_opened(magnitude[where], batch.run.agreement.result_bits)
        V[where], S_y[where] = _moments(bits.reshape(-1, 2 * q), *low)
        start = end
    return Final(batch.features, holds, magnitude, V.tolist(), S_y.tolist())


def _steps(group: Group) -> int:
    """The number of powers that V is compared with."""
    return int(group.encoding.v_bits.max()) // MAGNITUDE_STEP


def _size(group: Group) -> int:
    """The number of bits of a group that are opened at once."""
    return len(group.chosen) * (_steps(group) + 2 * 64 * group.limbs)


class Claims:
    """What was revealed about a batch, as claims about the sums of all silos (section 6.5).

    The search is not verified step by step: its result can be checked by itself. For a batch,

    - n of each feature is the sum of all counts;
    - rows within the bounds can have such a V and S_y at lambda*;
    - V at lambda = 0 is positive for the features that were found to vary, and only for them;
    - the score is not negative at the last point from which the search went up, and negative at
      the last one from which it went down. The likelihood is concave: its maximum lies between.

    A search that never turned has one such point: its start, the end of its range, or the last
    point that it reached.
    """

    def __init__(self, batch: Batch, engine: Verifying) -> None:
        self._batch, self._engine = batch, engine
        schedule, features = batch.run.schedule, batch.features
        # Questions about the same feature have the same n.
        _, first = np.unique(batch.run.agreement.asked.column[features], return_index=True)
        self.counted = batch.run.parted(features[first])
        several = np.flatnonzero(np.isin(features, schedule.several))
        self._varies = schedule.varies[features]
        self._variation = batch.moments_at(several, np.zeros(len(several)))
        searched = np.flatnonzero(self._varies | schedule.admitted[features])
        _, lower, upper = schedule.bracket.take(features[searched])
        # Below the first point of a grid there is none.
        up = np.isfinite(lower) & ~(batch.ranked[searched] & (lower < 0))
        down = np.isfinite(upper)
        # The same point twice where there is one.
        ends = [np.where(up, lower, upper), np.where(down, upper, lower)]
        self._scores = batch.searches(searched, np.array(ends))
        self._negative = np.array([~up, down])

    @property
    def groups(self) -> list[Group]:
        """The groups whose sums the claims need: moments at lambda = 0, and scores at both ends."""
        return [*self._variation, *self._scores]

    async def make(self, shared: Sequence[Shared]) -> None:
        """Make all claims but the second, from counts of all parties and the sums of `groups`."""
        sums = iter(shared)
        branches: list[Coroutine[Any, Any, None]] = [
            *(self._counted(part, next(sums)) for part in self.counted),
            *(self._varied(group, next(sums)) for group in self._variation),
            *(self._bracketed(group, next(sums)) for group in self._scores),
        ]
        del shared, sums  # large; what the branches hold is freed as they go on
        await in_lockstep(*branches)

    async def verdict(self, groups: Sequence[Group], parts: Sequence[SharedBits]) -> SharedBits:
        """Claim that moments are in range, by all their bits; share whether all claims hold."""
        await in_lockstep(*(self._within(*pair) for pair in zip(groups, parts, strict=True)))
        return await self._engine.verdict()

    async def _within(self, group: Group, bits: SharedBits) -> None:
        """0 <= V < 2^v_bits and -n 2^y_bits <= S_y < n 2^y_bits, by all bits of V, then of S_y.

        With a negative V, a silo would have S_y opened to its last bit.
        """
        q, encoding, n = len(group.chosen), group.encoding, self._batch.n[group.chosen].tolist()
        y_bits = np.maximum(encoding.positive.y_bits, encoding.negative.y_bits).tolist()
        most_V = [1 << width for width in encoding.v_bits.tolist()]
        most_y = [count << width for count, width in zip(n, y_bits, strict=True)]
        await in_lockstep(
            self._engine.claim_below(bits[:, :q], most_V),
            self._engine.claim_below(bits[:, q:], most_y, signed=True),
        )

    async def _counted(self, features: Index, counts: Shared) -> None:
        n = self._batch.run.schedule.n[features]
        await self._engine.claim_zero(counts - wide.from_digits(n[None], 62, counts.limbs))

    async def _varied(self, group: Group, sums: Shared) -> None:
        V, _ = await self._batch.moments(self._engine, sums)
        del sums
        signs = await self._engine.negative(-V)
        self._engine.claim(signs, self._varies[group.chosen].astype(np.uint8))

    async def _bracketed(self, group: Group, sums: Shared) -> None:
        D = await self._batch.sign(self._engine, group, sums, first=False)
        del sums
        signs = await self._engine.negative(D)
        expected = self._negative[:, group.places]
        self._engine.claim(signs, expected.ravel().astype(np.uint8))


# Not verified: the magnitude first, unless it is known, then what it admits.


async def _open_in_two(batch: Batch, compare: bool, groups: Sequence[Group]) -> None:
    run, features = batch.run, batch.features[(batch.n > 0) & ~batch.ranked]
    places = [group.places for group in groups]
    shared = await run.share(run.engine, batch.inputs(groups))
    pairs = zip(groups, shared, strict=True)
    parts = await in_lockstep(*(_measured(batch, *pair, compare) for pair in pairs))
    if compare:
        opened = await run.open_bits(run.engine, [below for below, _ in parts if below is not None])
        magnitude: Integers = np.empty(len(features), dtype=np.int64)
        for place, below in zip(places, opened, strict=True):
            magnitude[place] = _magnitude(below.reshape(-1, len(place)))
        run.reveal(Magnitudes(features, magnitude))
    magnitude = run.schedule.magnitude[features]
    V_low, y_low = lowest_opened(magnitude, run.agreement.result_bits)
    top = MAGNITUDE_STEP * (magnitude + 1)
    wanted = [
        _wanted(bits.shape[0], V_low[place], top[place], y_low[place])
        for place, (_, bits) in zip(places, parts, strict=True)
    ]
    opened = await run.open_bits(
        run.engine, [bits[some] for (_, bits), some in zip(parts, wanted, strict=True)]
    )
    V, S_y = np.zeros((2, len(features)), dtype=object)
    for place, some, values in zip(places, wanted, opened, strict=True):
        planes = np.zeros(some.shape, dtype=np.uint8)
        planes[some] = values
        V[place], S_y[place] = _moments(planes, V_low[place], y_low[place])
    run.reveal(Moments(features, V.tolist(), S_y.tolist()))


async def _measured(
    batch: Batch, group: Group, sums: Shared, compare: bool
) -> tuple[SharedBits | None, SharedBits]:
    """V compared with the steps of its magnitude, if wanted; all bits of V and S_y."""
    engine = batch.run.engine
    V, S_y = await batch.moments(engine, sums)
    if compare:
        return await engine.measure(concatenate([V, S_y]), V.size, MAGNITUDE_STEP, _steps(group))
    return None, await engine.bits(concatenate([V, S_y]))


def _wanted(width: int, V_low: Integers, top: Integers, y_low: Integers) -> Bools:
    """Which bits of V, then which bits of S_y, are opened."""
    position = np.arange(width)[:, None]
    wanted: Bools = np.hstack([(position >= V_low) & (position < top), position >= y_low])
    return wanted


# Both.


def _magnitude(below: Opened) -> Integers:
    """The number of steps that each V reaches."""
    reached = 1 - below
    if np.any(reached[1:] > reached[:-1]):
        raise ProtocolError(
            "SFY-RUN-004",
            "What was opened is not possible: a V that reaches a threshold but not a lower one.",
        )
    steps: Integers = reached.sum(axis=0)
    return steps


def _moments(planes: Opened, V_low: Integers, y_low: Integers) -> tuple[list[int], list[int]]:
    """The integers with the bits of V, then of S_y."""
    V, S_y = np.hsplit(planes, 2)
    return _integers(V, V_low, signed=False), _integers(S_y, y_low, signed=True)


def _integers(bits: Opened, low: Integers, *, signed: bool) -> list[int]:
    """The integers with these bits, shifted right by ``low``; the bits below were not opened."""
    width = len(bits)
    data = np.packbits(bits.T, axis=1, bitorder="little")
    values = [int.from_bytes(row.tobytes(), "little") for row in data]
    return [
        (value - (1 << width) if signed and value >> (width - 1) else value) >> int(shift)
        for value, shift in zip(values, low, strict=True)
    ]

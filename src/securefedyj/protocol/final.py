"""The final opening: mean and variance at lambda*, verified if that was agreed on.

docs/protocol.md, sections 6.4 and 6.5. Without verification there are two openings: the magnitude
of V, then the bits of V and S_y that it admits. A verified exchange has one: all of that, and
before it whether all claims about what was revealed on the way hold (`claims`). If they do not, or
where a magnitude does not admit a bit, what is opened is 0.

One opening, so that nobody sees a part of it and can still change the rest. A member that has
checked everything notes the part that it will send (`Log.accepted`) before it says so. So when
the first part is sent, all members have noted theirs. After an interruption they send the same
bytes again, and nothing is computed a second time.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any

import numpy as np

from securefedyj.engines import Engine, Shared, SharedBits, concatenate
from securefedyj.engines.interface import Verifying
from securefedyj.errors import ProtocolError, Unverified, code_of
from securefedyj.numerics.arrays import Bools, Index, Integers
from securefedyj.party.rounds import in_lockstep
from securefedyj.protocol.batch import Batch, Group, Opened, moment_groups
from securefedyj.protocol.claims import Claims
from securefedyj.protocol.course import Due
from securefedyj.protocol.groups import integers
from securefedyj.protocol.reveals import (
    MAGNITUDE_STEP,
    Final,
    Magnitudes,
    Moments,
    lowest_opened,
)
from securefedyj.protocol.silos import TimedSilo


async def open_result(batch: Batch, due: Due) -> None:
    """The exchange at the end of a batch, or what is left of it."""
    some = np.flatnonzero(batch.n > 0)
    groups = moment_groups(batch, some, batch.run.course.optimum(batch.features[some]))
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
    inputs.insert(len(groups), claims.counts())
    if batch.last and isinstance(batch.run.silo, TimedSilo):
        batch.run.silo.release()
    shared = await batch.run.share(engine, inputs)
    del inputs
    branches: list[Coroutine[Any, Any, Any]] = [
        _judged(batch, engine, claims, group, sums)
        for group, sums in zip(groups, shared, strict=False)
    ]
    others = claims.make(shared[len(groups) :])
    del shared  # which is large, and what the branches hold goes as they go on
    *parts, _ = await in_lockstep(*branches, others)
    verdict = await engine.verdict()
    bits_of_result = batch.run.agreement.result_bits
    admitted = await in_lockstep(
        *(_admitted(engine, verdict, below, bits, bits_of_result) for below, bits in parts)
    )
    return engine.joined([verdict, *(bits for pair in admitted for bits in pair)])


async def _measured(
    batch: Batch, engine: Engine, group: Group, sums: Shared
) -> tuple[SharedBits, SharedBits]:
    """V compared with the steps of its magnitude; all bits of V and S_y."""
    V, S_y = await batch.moments(engine, sums)
    return await engine.measure(concatenate([V, S_y]), V.size, MAGNITUDE_STEP, _steps(group))


async def _judged(
    batch: Batch, engine: Verifying, claims: Claims, group: Group, sums: Shared
) -> tuple[SharedBits, SharedBits]:
    """V compared with the steps of its magnitude; all bits of V and S_y, claimed to be in range."""
    V, S_y = await batch.moments(engine, sums)
    del sums
    bits = await engine.bits(concatenate([V, S_y]))
    below, _ = await in_lockstep(
        engine.below_powers(bits[:, : V.size], MAGNITUDE_STEP, _steps(group)),
        claims.within(group, bits),
    )
    return below, bits


async def _admitted(
    engine: Verifying, verdict: SharedBits, below: SharedBits, bits: SharedBits, result_bits: int
) -> tuple[SharedBits, SharedBits]:
    """The same with 0 where the verdict is 0, and for bits that the magnitude does not admit."""
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
    V, S_y = [0] * size, [0] * size
    for group in groups if holds else ():
        q, own = len(group.chosen), opened[start : start + _size(group)]
        start += _size(group)
        below, bits = np.split(own, [_steps(group) * q])
        magnitude[group.chosen] = _magnitude(below.reshape(-1, q))
        low = lowest_opened(magnitude[group.chosen], batch.run.agreement.result_bits)
        _place(group.chosen, bits.reshape(-1, 2 * q), low, V, S_y)
    return Final(batch.features, holds, magnitude, V, S_y)


def _steps(group: Group) -> int:
    """How many powers V is compared with."""
    return int(group.encoding.v_bits.max()) // MAGNITUDE_STEP


def _size(group: Group) -> int:
    """How many bits of a group are opened at once."""
    return len(group.chosen) * (_steps(group) + 2 * 64 * group.limbs)


# Not verified: the magnitude first, unless it is known, then what it admits.


async def _open_in_two(batch: Batch, compare: bool, groups: Sequence[Group]) -> None:
    run, features = batch.run, batch.features[batch.n > 0]
    places = [group.places for group in groups]
    shared = await run.share(run.engine, batch.inputs(groups))
    part = _measured if compare else _all_bits
    branches: list[Coroutine[Any, Any, tuple[SharedBits | None, SharedBits]]] = [
        part(batch, run.engine, group, sums) for group, sums in zip(groups, shared, strict=True)
    ]
    parts = await in_lockstep(*branches)
    if compare:
        opened = await run.open_bits(run.engine, [below for below, _ in parts if below is not None])
        magnitude: Integers = np.empty(len(features), dtype=np.int64)
        for place, below in zip(places, opened, strict=True):
            magnitude[place] = _magnitude(below.reshape(-1, len(place)))
        run.reveal(Magnitudes(features, magnitude))
    magnitude = run.course.magnitude[features]
    V_low, y_low = lowest_opened(magnitude, run.agreement.result_bits)
    top = MAGNITUDE_STEP * (magnitude + 1)
    wanted = [
        _wanted(bits.shape[0], V_low[place], top[place], y_low[place])
        for place, (_, bits) in zip(places, parts, strict=True)
    ]
    opened = await run.open_bits(
        run.engine, [bits[some] for (_, bits), some in zip(parts, wanted, strict=True)]
    )
    V, S_y = [0] * len(features), [0] * len(features)
    for place, some, values in zip(places, wanted, opened, strict=True):
        planes = np.zeros(some.shape, dtype=np.uint8)
        planes[some] = values
        _place(place, planes, (V_low[place], y_low[place]), V, S_y)
    run.reveal(Moments(features, V, S_y))


async def _all_bits(
    batch: Batch, engine: Engine, group: Group, sums: Shared
) -> tuple[None, SharedBits]:
    return None, await engine.bits(concatenate(await batch.moments(engine, sums)))


def _wanted(width: int, V_low: Integers, top: Integers, y_low: Integers) -> Bools:
    """Of the bits of V, then those of S_y: which are opened."""
    position = np.arange(width)[:, None]
    wanted: Bools = np.hstack([(position >= V_low) & (position < top), position >= y_low])
    return wanted


# Both.


def _magnitude(below: Opened) -> Integers:
    """How many steps each V reaches."""
    reached = 1 - below
    if np.any(reached[1:] > reached[:-1]):
        raise ProtocolError(
            "SFY-RUN-004",
            "What was opened cannot be: a V that reaches a threshold and not a lower one.",
        )
    steps: Integers = reached.sum(axis=0)
    return steps


def _place(
    where: Index, planes: Opened, low: tuple[Integers, Integers], V: list[int], S_y: list[int]
) -> None:
    """Make integers of the bits of V, then of S_y, and put them into their places."""
    V_planes, y_planes = np.hsplit(planes, 2)
    own_V = integers(V_planes, low[0], signed=False)
    own_y = integers(y_planes, low[1], signed=True)
    for j, v, y in zip(where.tolist(), own_V, own_y, strict=True):
        V[j], S_y[j] = v, y

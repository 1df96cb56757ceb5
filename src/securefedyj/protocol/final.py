"""The final opening: mean and variance at lambda*, in a verified exchange if that was agreed on.

docs/protocol.md, section 6.4. First the magnitude of V is opened, then the bits of V and S_y that
it admits. In a verified exchange one bit comes before: whether all claims about what was revealed
on the way hold (`claims`). If it is 0 the run is over, and nothing else is opened.

One text serves both, for a verified exchange is another engine. That something was verified is
never taken from a line of a transcript: a run that goes on from within this exchange repeats
inputs, claims and checks. Magnitudes that are known are then claims, too. What was opened is not
opened again, but for the verdict: it counts as an opening that is made again, of which a run may
have one. Should it be 0 now, the run is over.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any

import numpy as np

from securefedyj.engines import Engine, Shared, SharedBits, concatenate
from securefedyj.engines.interface import Verifying
from securefedyj.errors import ProtocolError, Unverified
from securefedyj.numerics.arrays import Bools, Index, Integers
from securefedyj.party.rounds import in_lockstep
from securefedyj.protocol.batch import (
    REFUTED,
    Batch,
    Group,
    Opened,
    check_verdict,
    moment_groups,
)
from securefedyj.protocol.claims import Claims
from securefedyj.protocol.course import Due
from securefedyj.protocol.groups import integers
from securefedyj.protocol.reveals import (
    MAGNITUDE_STEP,
    Magnitudes,
    Moments,
    Verdict,
    lowest_opened,
)
from securefedyj.protocol.transcript import Transcript

Part = tuple[SharedBits | None, SharedBits]
"""Of a group: V compared with the steps of its magnitude, if asked for; all bits of V and S_y."""


async def open_result(batch: Batch, due: Due) -> None:
    """The exchange at the end of a batch, or what is left of it."""
    context = batch.run.engine.verified() if batch.run.agreement.verified else None
    if context is None:
        await _open(batch, due, batch.run.engine, None)
        return
    try:
        await _open(batch, due, context, context)
    except Unverified:
        raise
    except ProtocolError as error:  # such as two components that should be the same
        raise Unverified(str(error)) from error


async def _open(batch: Batch, due: Due, engine: Engine, context: Verifying | None) -> None:
    run, some = batch.run, np.flatnonzero(batch.n > 0)
    groups = moment_groups(batch, some, run.course.optimum(batch.features[some]))
    parts = await _compute(batch, due, engine, context, groups)
    if context is not None:
        await _judge(batch, context, due, groups, parts)
    if groups:
        await _open_moments(batch, engine, due.kind is not Moments, groups, parts)


async def _compute(
    batch: Batch, due: Due, engine: Engine, context: Verifying | None, groups: Sequence[Group]
) -> list[Part]:
    """Share inputs, compute of them what may be opened, and make all claims."""
    claims = None if context is None else Claims(batch, context)
    inputs = batch.inputs([*groups, *(claims.groups if claims else ())])
    if claims is not None:
        inputs.insert(len(groups), claims.counts())
    shared = await batch.run.share(engine, inputs)
    compare = context is not None or due.kind is Magnitudes
    branches: list[Coroutine[Any, Any, Any]] = [
        _part(batch, engine, group, sums, compare)
        for group, sums in zip(groups, shared, strict=False)
    ]
    if claims is not None:
        branches.append(claims.make(shared[len(groups) :]))
    return list(await in_lockstep(*branches))[: len(groups)]


async def _part(batch: Batch, engine: Engine, group: Group, sums: Shared, compare: bool) -> Part:
    V, S_y = await batch.moments(engine, sums)
    both, most = concatenate([V, S_y]), int(group.encoding.v_bits.max()) // MAGNITUDE_STEP
    if compare:
        return await engine.measure(both, V.size, MAGNITUDE_STEP, most)
    return None, await engine.bits(both)


async def _judge(
    batch: Batch, context: Verifying, due: Due, groups: Sequence[Group], parts: Sequence[Part]
) -> None:
    """Go on only if everything was computed right, and all claims hold."""
    run = batch.run
    if due.kind is Moments:
        for group, (below, _) in zip(groups, parts, strict=True):
            magnitude = run.course.magnitude[batch.features[group.chosen]]
            if below is not None:
                reached = np.arange(below.shape[0])[:, None] < magnitude
                context.claim(below, (~reached).astype(np.uint8))
    verdict = await context.verdict()
    await context.check()
    if due.kind is Verdict:
        ((bit,),) = await run.open_bits(context, [verdict])
        run.reveal(Verdict(batch.features, bool(bit)))
        check_verdict(run.course)
        return
    known = run.transcript.reveals
    before = max(number for number, one in enumerate(known) if isinstance(one, Verdict))
    run.log.opening(Transcript(run.agreement, known[:before]))
    if not (await context.open_bits(verdict))[0]:
        raise Unverified(REFUTED)


async def _open_moments(
    batch: Batch, engine: Engine, compared: bool, groups: Sequence[Group], parts: Sequence[Part]
) -> None:
    """Open the magnitude of V, unless it is known already, and the bits that it admits."""
    run, features = batch.run, batch.features[batch.n > 0]
    places, bits = [group.places for group in groups], [own for _, own in parts]
    if compared:
        below = await run.open_bits(engine, [small for small, _ in parts if small is not None])
        run.reveal(Magnitudes(features, _magnitudes(places, below)))
    magnitude = run.course.magnitude[features]
    V_low, y_low = lowest_opened(magnitude, run.agreement.result_bits)
    top = MAGNITUDE_STEP * (magnitude + 1)
    wanted = [
        _wanted(b.shape[0], V_low[g], top[g], y_low[g]) for g, b in zip(places, bits, strict=True)
    ]
    opened = await run.open_bits(engine, [b[some] for b, some in zip(bits, wanted, strict=True)])
    V, S_y = [0] * len(features), [0] * len(features)
    for g, some, values in zip(places, wanted, opened, strict=True):
        planes = np.zeros(some.shape, dtype=np.uint8)
        planes[some] = values
        V_planes, y_planes = np.hsplit(planes, 2)
        own_V = integers(V_planes, V_low[g], signed=False)
        own_y = integers(y_planes, y_low[g], signed=True)
        for j, v, y in zip(g.tolist(), own_V, own_y, strict=True):
            V[j], S_y[j] = v, y
    run.reveal(Moments(features, V, S_y))


def _magnitudes(places: Sequence[Index], below: Sequence[Opened]) -> Integers:
    """How many thresholds each V reaches, by the bits of the groups."""
    magnitude = np.empty(sum(map(len, places)), dtype=np.int64)
    for place, bits in zip(places, below, strict=True):
        reached = 1 - bits.reshape(-1, len(place))
        if np.any(reached[1:] > reached[:-1]):
            raise ProtocolError(
                "What was opened cannot be: a V that reaches a threshold and not a lower one."
            )
        magnitude[place] = reached.sum(axis=0)
    return magnitude


def _wanted(width: int, V_low: Integers, top: Integers, y_low: Integers) -> Bools:
    """Of the bits of V, then those of S_y: which are opened."""
    position = np.arange(width)[:, None]
    wanted: Bools = np.hstack([(position >= V_low) & (position < top), position >= y_low])
    return wanted

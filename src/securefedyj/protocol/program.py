"""SecureFedYJ, the program that every party runs: the paper's algorithm 3.

docs/protocol.md, section 6. It knows the engine only by its interface, and the silo only by its
exact sums. The `Schedule` says what comes next; everything that is opened goes into the transcript,
one reveal for each opening, and the result follows from the transcript alone. So a run can continue
from any opening of an earlier one.

Differences from the paper: several steps share an exchange (`search.speculate`); the sums are
exact integers; mean and variance are opened to the precision of the answer and no further.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from securefedyj.engines import Engine, Shared, SharedBits
from securefedyj.engines.registry import facts_of
from securefedyj.errors import InputError
from securefedyj.numerics.arrays import Bools, Index
from securefedyj.numerics.search import Speculation, speculate
from securefedyj.numerics.silo import Silo
from securefedyj.party.rounds import in_lockstep
from securefedyj.protocol.agreement import Agreement
from securefedyj.protocol.batch import Batch
from securefedyj.protocol.final import open_result
from securefedyj.protocol.reveals import Counts, Step, Variation
from securefedyj.protocol.schedule import NextOpening, Schedule
from securefedyj.protocol.state import SILENT, Opened, OpeningLog, RunState
from securefedyj.protocol.transcript import Transcript


async def secure_fed_yj(
    engine: Engine,
    silo: Silo | None,
    agreement: Agreement,
    transcript: Transcript | None = None,
    log: OpeningLog = SILENT,
    accepted: tuple[int, bytes] | None = None,
) -> Transcript:
    """Fit all features; every party returns the same transcript, still without the result.

    The silo is None at a party that computes but has no data. From a transcript of an earlier run,
    up to any of its openings and the same at all parties, the fit continues, and opens nothing of
    it again. `accepted` is the number of an opening whose parts all members have accepted in an
    earlier session, and our part of it (see `OpeningLog.accepted`), empty outside of the committee:
    it is opened again, and not computed.
    """
    transcript = Transcript(agreement) if transcript is None else transcript
    schedule = Schedule.of(transcript)
    run = RunState(engine, silo, transcript, schedule, log, accepted)
    batch = None
    while (due := schedule.due) is not None:
        log.exchange(transcript)
        if due.kind is Counts:
            await run.open_counts(due)
            continue
        if batch is None or not np.array_equal(batch.features, schedule.batch):
            batch = Batch.of(run)
        if due.kind in (Variation, Step):
            await _search(batch, due)
        else:
            await open_result(batch, due)
    schedule.check()
    return transcript


async def run_party(
    name: str,
    agreement: Agreement,
    silo: Silo | None,
    transcript: Transcript | None = None,
    log: OpeningLog = SILENT,
    accepted: tuple[int, bytes] | None = None,
) -> Transcript:
    """One party's whole run: connect its engine to the others, then fit (see `secure_fed_yj`)."""
    if silo is not None and name in agreement.helpers:
        raise InputError(
            "SFY-RUN-006", f"{name!r} has data, but was agreed on as a helper without data"
        )
    connect = facts_of(agreement.engine).connect
    engine = await connect(name, agreement.parties, agreement.committee, agreement.silos)
    return await secure_fed_yj(engine, silo, agreement, transcript, log, accepted)


async def _search(batch: Batch, due: NextOpening) -> None:
    """One exchange (docs/protocol.md, section 6.3): each of its levels is a step of the search.

    Signs at all points are computed under sharing, then those on the path are opened, each
    followed by ExpUpdate. Signs off the path stay shared, so that what is opened does not
    depend on how many levels share an exchange. At first it is also opened whether a feature
    varies at all; the search of one that does not is over.
    """
    run, schedule, first = batch.run, batch.run.schedule, due.kind is Variation
    features, levels = due.features, schedule.most_openings() - first
    limits = run.agreement.domain.limits().take(features)
    tree = speculate(schedule.bracket.take(features), levels, limits)
    groups = await _compare(batch, features, tree, first)
    node, active = np.zeros(len(features), dtype=np.intp), np.ones(len(features), dtype=bool)
    if first:
        behind = np.full(len(features), len(tree.points))  # all nodes
        varies = await _open_signs(run, groups, behind, active)
        run.reveal(Variation(features, varies.astype(bool)))
    while (now := schedule.due) and now.kind is Step and levels:
        active[:] = False
        active[np.searchsorted(features, now.features)] = True
        delta = 1 - 2 * (await _open_signs(run, groups, node, active)).astype(np.int8)
        run.reveal(Step(now.step, now.features, now.lmbda, delta[active]))
        node, levels = tree.child(node, delta), levels - 1


async def _compare(batch: Batch, features: Index, tree: Speculation, first: bool) -> list[_Signs]:
    """Signs at all points, under sharing; features of one ring width in a group (6.2)."""
    groups = batch.groups(features - batch.features[0], tree.points, scored=True)
    shared = await batch.run.share(batch.run.engine, batch.inputs(groups))
    nodes = len(tree.points)
    shrink = await in_lockstep(*(_signs(batch, sums, nodes, first) for sums in shared))
    return [_Signs(g.places, bits) for g, bits in zip(groups, shrink, strict=True)]


async def _open_signs(
    run: RunState, groups: Sequence[_Signs], node: Index, active: Bools
) -> Opened:
    """Open the bits of the active features at their nodes, with 0 for the others."""
    chosen = [np.flatnonzero(active[group.features]) for group in groups]
    pairs = [(group, some) for group, some in zip(groups, chosen, strict=True) if len(some)]
    bits = await run.open_bits(
        run.engine,
        [g.shrink[node[g.features[some]] * len(g.features) + some] for g, some in pairs],
    )
    opened = np.zeros(len(node), dtype=np.uint8)
    for (group, some), values in zip(pairs, bits, strict=True):
        opened[group.features[some]] = values
    return opened


async def _signs(batch: Batch, shared: Shared, nodes: int, first: bool) -> SharedBits:
    """Whether lambda must shrink, at all nodes; at first also whether a feature varies."""
    engine = batch.run.engine
    return await engine.negative(await batch.score(engine, shared, nodes, first))


class _Signs(NamedTuple):
    """The signs of a group of features: node by node, and of each node feature by feature."""

    features: Index
    """Which of the features of the exchange."""
    shrink: SharedBits

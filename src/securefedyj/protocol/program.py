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
from typing import TypeAlias

import numpy as np

from securefedyj.engines import Engine, Shared, SharedBits
from securefedyj.engines.interface import Verifying
from securefedyj.engines.registry import facts_of
from securefedyj.errors import InputError, ProtocolError
from securefedyj.numerics.arrays import Bools, Index
from securefedyj.numerics.search import Speculation, speculate
from securefedyj.numerics.sums import Silo
from securefedyj.numerics.weighed import LIMBS
from securefedyj.party.rounds import in_lockstep
from securefedyj.protocol.agreement import Agreement
from securefedyj.protocol.batch import Batch, Group
from securefedyj.protocol.final import open_result
from securefedyj.protocol.reveals import Counts, Headers, Possible, Step, Variation
from securefedyj.protocol.schedule import NextOpening, Schedule
from securefedyj.protocol.state import SILENT, Opened, OpeningLog, RunState
from securefedyj.protocol.submissions import Submissions
from securefedyj.protocol.transcript import Transcript

_Signs: TypeAlias = tuple[Index, SharedBits]


async def secure_fed_yj(
    engine: Engine,
    silo: Silo | None,
    agreement: Agreement,
    transcript: Transcript | None = None,
    log: OpeningLog = SILENT,
    accepted: tuple[int, bytes] | None = None,
    submissions: Submissions | None = None,
) -> Transcript:
    """Fit all features; every party returns the same transcript, still without the result.

    The silo is None at a party that computes but has no data. From a transcript of an earlier run,
    up to any of its openings and the same at all parties, the fit continues, and opens nothing of
    it again. `accepted` is the number of an opening whose parts all members have accepted in an
    earlier session, and our part of it (see `OpeningLog.accepted`), empty outside of the committee:
    it is opened again, and not computed. ``submissions`` are what a member computes with in a
    submitted run.
    """
    transcript = Transcript(agreement) if transcript is None else transcript
    schedule = Schedule.of(transcript)
    headers, held = None, None
    if submissions is not None:
        headers, held = submissions.headers, submissions.weighed(agreement)
        _must_be_of(transcript, headers)
    run = RunState(engine, silo, held, transcript, schedule, log, accepted)
    batch = None
    while (due := schedule.due) is not None:
        log.exchange(transcript)
        if due.kind is Headers:
            await run.open_headers(due, headers)
            continue
        if due.kind is Counts:
            await run.open_counts(due)
            continue
        if due.kind is Possible:
            await _check_totals(run, due)
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
    submissions: Submissions | None = None,
) -> Transcript:
    """One party's whole run: connect its engine to the others, then fit (see `secure_fed_yj`)."""
    if silo is not None and name in agreement.helpers:
        raise InputError(
            "SFY-RUN-006", f"{name!r} has data, but was agreed on as a helper without data"
        )
    if (submissions is None) == (agreement.submitted and name in agreement.committee):
        raise InputError(
            "SFY-RUN-018",
            f"{name!r} {'has no' if submissions is None else 'has'} submissions; in a submitted "
            "run each member of the committee has them, and nobody else.",
        )
    connect = facts_of(agreement.engine).connect
    online = agreement.online
    silos = [one for one in agreement.silos if one in online and not agreement.given.all()]
    engine = await connect(name, online, agreement.committee, silos)
    return await secure_fed_yj(engine, silo, agreement, transcript, log, accepted, submissions)


def _must_be_of(transcript: Transcript, headers: bytes) -> None:
    """Refuse other submissions than those that an earlier session began with."""
    for began in transcript.all(Headers):
        if began.digest != headers.hex():
            raise ProtocolError(
                "SFY-RUN-015",
                f"this run began with other submissions (digest {began.digest[:16]}, now "
                f"{headers.hex()[:16]}): put back the files that it began with.",
            )


async def _check_totals(run: RunState, due: NextOpening) -> None:
    """Open whether no total of the counts of some features is negative (section 13)."""
    engine = run.engine.verified()
    await engine.agree(run.transcript.digest())
    held = None if run.held is None else run.held.totals(due.features)
    points = run.agreement.points
    size = sum(len(points[j]) for j in run.agreement.asked.column[due.features].tolist())
    totals = engine.given(held, size=size, limbs=LIMBS)
    signs, _ = await in_lockstep(engine.negative(totals), engine.challenge())
    engine.claim(signs, np.zeros(size, dtype=np.uint8))
    verdict = await engine.verdict()
    await engine.check()
    ((holds,),) = await run.open_bits(engine, [verdict])
    run.reveal(Possible(due.features, bool(holds)))


async def _search(batch: Batch, due: NextOpening) -> None:
    """One exchange (docs/protocol.md, section 6.3): each of its levels is a step of the search.

    Signs at all points are computed under sharing, then those on the path are opened, each
    followed by ExpUpdate. Signs off the path stay shared, so that what is opened does not
    depend on how many levels share an exchange. At first it is also opened whether a feature
    varies at all; the search of one that does not is over.
    """
    run, schedule, first = batch.run, batch.run.schedule, due.kind is Variation
    features, levels = schedule.searching, schedule.most_openings() - first
    limits = run.agreement.asked.domain.limits().take(features)
    tree = speculate(schedule.bracket.take(features), levels, limits)
    engine = run.exchange()
    groups = await _compare(batch, engine, features, tree, first)
    node, active = np.zeros(len(features), dtype=np.intp), np.zeros(len(features), dtype=bool)
    if first:
        behind = np.full(len(features), len(tree.points))  # all nodes
        active[np.searchsorted(features, due.features)] = True
        varies = await _open_signs(run, engine, groups, behind, active)
        run.reveal(Variation(due.features, varies[active].astype(bool)))
    while (now := schedule.due) and now.kind is Step and levels:
        active[:] = False
        active[np.searchsorted(features, now.features)] = True
        delta = 1 - 2 * (await _open_signs(run, engine, groups, node, active)).astype(np.int8)
        run.reveal(Step(now.step, now.features, now.lmbda, delta[active]))
        node, levels = tree.child(node, delta), levels - 1


async def _compare(
    batch: Batch, engine: Engine, features: Index, tree: Speculation, first: bool
) -> list[_Signs]:
    """Whether the search must turn down, at all points, and at first whether a feature varies.

    Both under sharing, with the places of the questions; those of one ring width are in a group.
    """
    groups = batch.searches(features - batch.features[0], tree.points)
    shared = await batch.run.share(engine, batch.inputs(groups))

    async def signs(group: Group, sums: Shared) -> SharedBits:
        return await engine.negative(await batch.sign(engine, group, sums, first))

    shrink = await in_lockstep(*map(signs, groups, shared))
    if isinstance(engine, Verifying):
        await engine.check()
    return [(group.places, bits) for group, bits in zip(groups, shrink, strict=True)]


async def _open_signs(
    run: RunState, engine: Engine, groups: Sequence[_Signs], node: Index, active: Bools
) -> Opened:
    """Open the bits of the active features at their nodes, with 0 for the others."""
    where, wanted = [], []
    for features, shrink in groups:
        if len(some := np.flatnonzero(active[features])):
            where.append(features[some])
            # Node by node, and of each node feature by feature.
            wanted.append(shrink[node[where[-1]] * len(features) + some])
    opened = np.zeros(len(node), dtype=np.uint8)
    for features, values in zip(where, await run.open_bits(engine, wanted), strict=True):
        opened[features] = values
    return opened

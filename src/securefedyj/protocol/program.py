"""SecureFedYJ, the program that every party runs: the paper's algorithm 3.

docs/protocol.md, section 6. It knows the engine only by its interface, and the silo only by its
exact sums. What comes next is for the `Course` to say; everything that is opened goes into the
transcript, one reveal for each opening, and the result follows from the transcript alone. So a run
can go on from any opening of an earlier one.

Differences from the paper: several steps share an exchange (`search.speculate`); the sums are
exact integers; mean and variance are opened to the precision of the answer and no further.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from securefedyj.engines import Engine, Shared, SharedBits, concatenate
from securefedyj.engines.registry import facts_of
from securefedyj.errors import ProtocolError
from securefedyj.numerics import wide
from securefedyj.numerics.arrays import Array, Bools, Index, Integers
from securefedyj.numerics.encoding import Domain, Encoding, choose_encoding
from securefedyj.numerics.search import Speculation, speculate
from securefedyj.numerics.silo import Silo
from securefedyj.numerics.wide import Limbs
from securefedyj.party.rounds import in_lockstep
from securefedyj.protocol.agreement import Agreement
from securefedyj.protocol.course import Course, Due, features_at_once
from securefedyj.protocol.groups import WORTHWHILE, groups_by_width, integers, shifted
from securefedyj.protocol.log import SILENT, Log
from securefedyj.protocol.reveals import (
    MAGNITUDE_STEP,
    Counts,
    Magnitudes,
    Moments,
    Reveal,
    Step,
    Variation,
    lowest_opened,
)
from securefedyj.protocol.transcript import Transcript
from securefedyj.strict import Malformed

__all__ = [
    "SILENT",
    "Log",
    "TooFewValues",
    "check_enough",
    "features_at_once",
    "run_party",
    "secure_fed_yj",
]

Opened = NDArray[np.uint8]
Input = tuple[Limbs | None, int, int]  # a party's vector, its size and its limbs


async def secure_fed_yj(
    engine: Engine,
    silo: Silo | None,
    agreement: Agreement,
    transcript: Transcript | None = None,
    log: Log = SILENT,
) -> Transcript:
    """Fit all features; every party returns the same transcript, still without the result.

    Parameters
    ----------
    silo
        The data of this party; None if it computes but has none.
    transcript
        What an earlier run has revealed, up to any of its openings: the fit goes on from there,
        and opens nothing of it again. All parties must start from the same.
    log
        Is told of every exchange, opening and reveal.
    """
    transcript = Transcript(agreement) if transcript is None else transcript
    run = _Run(engine, silo, transcript, Course.of(transcript), log)
    batch = None
    while (due := run.due()) is not None:
        log.exchange(transcript)
        if due.kind is Counts:
            await run.open_counts(due)
            continue
        if batch is None or not np.array_equal(batch.features, run.course.batch):
            batch = _Batch.of(run)
        if due.kind in (Variation, Step):
            await batch.search(due)
        else:
            await batch.open_moments(due)
    return transcript


async def run_party(
    name: str,
    agreement: Agreement,
    silo: Silo | None,
    transcript: Transcript | None = None,
    log: Log = SILENT,
) -> Transcript:
    """One party's whole run: connect its engine to the others, then fit (see `secure_fed_yj`)."""
    connect = facts_of(agreement.engine).connect
    if connect is None:
        raise ValueError(
            f"engine {agreement.engine!r} runs its parties in processes of its own, on one machine"
        )
    if silo is not None and name in agreement.helpers:
        raise ValueError(f"{name!r} has data, but was agreed on as a helper without data")
    silos = [party for party in agreement.parties if party not in agreement.helpers]
    engine = await connect(name, agreement.parties, agreement.committee, silos)
    return await secure_fed_yj(engine, silo, agreement, transcript, log)


class TooFewValues(ValueError):
    """Fewer values in all than the parties have agreed on as the least."""


def check_enough(course: Course) -> None:
    """Refuse to go on after the counts where a feature has fewer values than agreed on."""
    agreement = course.agreement
    if course.due is None and len(few := course.too_few()):
        named = (f"{agreement.features[j]!r} ({course.n[j]})" for j in few[:5].tolist())
        raise TooFewValues(
            f"{len(few)} feature(s) have fewer than {agreement.minimum_values} values over all "
            f"silos: {', '.join(named)}. Nothing but these numbers was revealed. Leave the "
            "features out, or agree on another minimum."
        )


class _Run(NamedTuple):
    """One party's run: what it computes with, and how far it is."""

    engine: Engine
    silo: Silo | None
    transcript: Transcript
    course: Course
    log: Log

    def due(self) -> Due | None:
        """The opening that comes next; None at the end. Too few values are an error."""
        check_enough(self.course)
        return self.course.due

    async def share(self, own: Sequence[Input]) -> list[Shared]:
        """Begin an exchange: share vectors, each with its size and limbs, in one round.

        All parties say in the same round what they have revealed so far: whoever has another
        transcript is found out before anything is computed with the inputs.
        """
        branches: list[Coroutine[Any, Any, Any]] = [self.engine.agree(self.transcript.digest())]
        for vector, size, limbs in own:
            branches.append(self.engine.share(vector, size=size, limbs=limbs))
        _, *shared = await in_lockstep(*branches)
        return shared

    async def open_bits(self, bits: Sequence[SharedBits]) -> Sequence[Opened]:
        """Open vectors of bits, in a round that is for nothing else.

        Which bits these are depends on what was opened before: that must be what all others have.
        """
        await self.engine.compared()
        self.log.opening(self.transcript)
        return await in_lockstep(*(self.engine.open_bits(some) for some in bits))

    def reveal(self, reveal: Reveal) -> None:
        """Keep what was opened, if it can have been."""
        try:
            self.course.take(reveal)
        except Malformed as error:
            raise ProtocolError(f"What was opened cannot be: {error}.") from None
        self.transcript.reveals.append(reveal)
        self.log.revealed(self.transcript)

    async def open_counts(self, due: Due) -> None:
        """n of each feature: how many values all silos have together (section 6.1)."""
        own = None if self.silo is None else wide.from_digits(self.silo.count[None], 62, 1)
        (shared,) = await self.share([(own, len(due.features), 1)])
        self.log.opening(self.transcript)
        counts = await self.engine.open(shared)
        self.reveal(Counts(due.features, counts[0].astype(np.int64)))


class _Batch(NamedTuple):
    """The features that share their exchanges, at one party."""

    run: _Run
    domain: Domain
    features: Index
    n: Integers
    n_squared: Limbs
    phi_grid: Integers

    @classmethod
    def of(cls, run: _Run) -> _Batch:
        """The batch whose turn it is."""
        features = run.course.batch
        domain, n = run.transcript.agreement.domain.take(features), run.course.n[features]
        n_squared = wide.from_ints([count * count for count in n.tolist()], 2)
        return cls(run, domain, features, n, n_squared, domain.phi_grid())

    async def search(self, due: Due) -> None:
        """One exchange (docs/protocol.md, section 6.3): each of its levels is a step of the search.

        Signs at all points are computed under sharing, then those on the path are opened, each
        followed by ExpUpdate. Signs off the path stay shared, so that what is opened does not
        depend on how many levels share an exchange. At first it is also opened whether a feature
        varies at all; the search of one that does not is over.
        """
        run, course, first = self.run, self.run.course, due.kind is Variation
        features, levels = due.features, course.most_openings() - first
        limits = run.transcript.agreement.domain.limits().take(features)
        tree = speculate(course.bracket.take(features), levels, limits)
        groups = await self._compare(features, tree, first)
        node, active = np.zeros(len(features), dtype=np.intp), np.ones(len(features), dtype=bool)
        if first:
            behind = np.full(len(features), len(tree.points))  # all nodes
            varies = await self._open_signs(groups, behind, active)
            run.reveal(Variation(features, varies.astype(bool)))
        while (now := course.due) and now.kind is Step and levels:
            active[:] = False
            active[np.searchsorted(features, now.features)] = True
            delta = 1 - 2 * (await self._open_signs(groups, node, active)).astype(np.int8)
            run.reveal(Step(now.step, now.features, now.lmbda, delta[active]))
            node, levels = tree.child(node, delta), levels - 1

    async def _compare(self, features: Index, tree: Speculation, first: bool) -> list[_Signs]:
        """Signs at all points, under sharing; features of one ring width in a group (6.2)."""
        chosen, (nodes, size) = features - self.features[0], tree.points.shape
        every = np.concatenate([chosen] * nodes)
        encoding = choose_encoding(self.domain.take(every), self.n[every], tree.points.ravel())
        widths = encoding.limbs.reshape(nodes, size).max(axis=0)
        pairs = np.arange(nodes * size).reshape(nodes, size)
        groups = list(groups_by_width(widths, WORTHWHILE // nodes))
        shared = await self.run.share(
            [
                self._inputs(
                    chosen[g], tree.points[:, g], encoding.take(pairs[:, g].ravel()), limbs
                )
                for limbs, g in groups
            ]
        )
        shrink = await in_lockstep(*(self._signs(sums, nodes, first) for sums in shared))
        return [_Signs(g, bits) for (_, g), bits in zip(groups, shrink, strict=True)]

    async def _open_signs(self, groups: Sequence[_Signs], node: Index, active: Bools) -> Opened:
        """Open the bits of the active features at their nodes; 0 stands for the others."""
        chosen = [np.flatnonzero(active[group.features]) for group in groups]
        pairs = [(group, some) for group, some in zip(groups, chosen, strict=True) if len(some)]
        bits = await self.run.open_bits(
            [g.shrink[node[g.features[some]] * len(g.features) + some] for g, some in pairs]
        )
        opened = np.zeros(len(node), dtype=np.uint8)
        for (group, some), values in zip(pairs, bits, strict=True):
            opened[group.features[some]] = values
        return opened

    def _inputs(self, chosen: Index, points: Array, encoding: Encoding, limbs: int) -> Input:
        """This silo's terms at all nodes of some features, and their S_phi."""
        pairs = np.concatenate([chosen] * len(points))
        terms = self._terms(pairs, points.ravel(), encoding, limbs)
        if self.run.silo is not None:
            terms.append(self.run.silo.phi_sum(self.features[chosen], limbs))
        return _joined(terms), 4 * len(pairs) + len(chosen), limbs

    async def _signs(self, shared: Shared, nodes: int, first: bool) -> SharedBits:
        """Whether lambda must shrink, at all nodes; at first also whether a feature varies.

        Delta is the sign of D, which is V > 0 times the derivative of the log-likelihood, on an
        integer grid: D = S_phi V - h (n S_yd - S_y S_d) with V = n S_yy - S_y^2, bracketed for two
        rounds (docs/protocol.md, section 6.3, steps 1 to 4).
        """
        engine, size = self.run.engine, shared.size // (4 * nodes + 1)
        N = nodes * size
        S_y, nS_yy, hS_d, nhS_yd = (shared[k * N : (k + 1) * N] for k in range(4))
        S_phi = concatenate([shared[4 * N :]] * nodes)  # it does not depend on lambda
        factors = [S_phi, S_y]
        if first:
            factors = [concatenate([factor, S_y[:size]]) for factor in factors]
        product = await engine.multiply(*factors)
        D = await engine.sum_of_products([(S_phi, nS_yy), (S_y, hS_d - product[:N])]) - nhS_yd
        return await engine.negative(
            concatenate([D, product[N:] - nS_yy[:size]]) if first else D  # which is -V
        )

    async def open_moments(self, due: Due) -> None:
        """Open S_y and V = n S_yy - S_y^2 at lambda*, down to the precision of the answer.

        docs/protocol.md, section 6.4: first the magnitude of V, unless it is known already, then
        the bits that it admits.
        """
        run, chosen, lmbda = self.run, due.features - self.features[0], due.lmbda
        encoding = choose_encoding(self.domain.take(chosen), self.n[chosen], lmbda)
        # V and the thresholds it is compared with; D, which would be wider, is not asked for.
        limbs_of_V = -(-(encoding.v_bits + 2) // 64)
        groups = list(groups_by_width(limbs_of_V, WORTHWHILE))
        compare = due.kind is Magnitudes
        terms = [self._terms(chosen[g], lmbda[g], encoding.take(g), limbs) for limbs, g in groups]
        shared = await run.share(
            [
                (_joined(own[:2]), 2 * len(g), limbs)
                for (limbs, g), own in zip(groups, terms, strict=True)
            ]
        )
        parts = await in_lockstep(
            *(
                self._moments(sums, int(encoding.v_bits[g].max()) if compare else 0)
                for (_, g), sums in zip(groups, shared, strict=True)
            )
        )
        places, bits = [g for _, g in groups], [bits for _, bits in parts]
        if compare:
            below = await run.open_bits([small for small, _ in parts if small is not None])
            run.reveal(Magnitudes(due.features, _magnitudes(places, below)))
        V_low, y_low = lowest_opened(
            run.course.magnitude[due.features], run.transcript.agreement.result_bits
        )
        top = MAGNITUDE_STEP * (run.course.magnitude[due.features] + 1)
        wanted = [
            _wanted(b.shape[0], V_low[g], top[g], y_low[g])
            for g, b in zip(places, bits, strict=True)
        ]
        opened = await run.open_bits([b[some] for b, some in zip(bits, wanted, strict=True)])
        V, S_y = [0] * len(chosen), [0] * len(chosen)
        for g, some, values in zip(places, wanted, opened, strict=True):
            planes = np.zeros(some.shape, dtype=np.uint8)
            planes[some] = values
            V_planes, y_planes = np.hsplit(planes, 2)
            own_V = integers(V_planes, V_low[g], signed=False)
            own_y = integers(y_planes, y_low[g], signed=True)
            for j, v, y in zip(g.tolist(), own_V, own_y, strict=True):
                V[j], S_y[j] = v, y
        run.reveal(Moments(due.features, V, S_y))

    async def _moments(self, shared: Shared, v_bits: int) -> tuple[SharedBits | None, SharedBits]:
        """V compared with the thresholds of its magnitude up to v_bits; all bits of V and S_y."""
        engine, size = self.run.engine, shared.size // 2
        S_y, nS_yy = shared[:size], shared[size:]
        V = nS_yy - await engine.multiply(S_y, S_y)
        bits = engine.bits(concatenate([V, S_y]))
        steps = range(MAGNITUDE_STEP, v_bits + 1, MAGNITUDE_STEP)
        if not steps:  # the magnitude is known
            return None, await bits
        thresholds = wide.from_ints([1 << step for step in steps], shared.limbs)
        below = concatenate([V] * len(steps)) - np.repeat(thresholds, size, axis=1)
        return await in_lockstep(engine.negative(below), bits)

    def _terms(self, chosen: Index, lmbda: Array, encoding: Encoding, limbs: int) -> list[Limbs]:
        """This silo's S_y, n S_yy, h S_d and n h S_yd, with h = n 2^phi_grid.

        The factors are public; before sharing, multiplying by them is a single party's work.
        """
        if self.run.silo is None:
            return []
        y, d, yy, yd = self.run.silo.sums(self.features[chosen], lmbda, encoding, limbs)
        size = len(chosen)
        factors = wide.zeros(limbs, 3 * size)
        factors[0, : 2 * size] = np.concatenate([self.n[chosen]] * 2)
        factors[:2, 2 * size :] = self.n_squared[:, chosen]
        scaled = wide.scale(np.concatenate([yy, d, yd], axis=1), factors)
        nS_yy, *others = (scaled[:, k * size : (k + 1) * size] for k in range(3))
        return [y, nS_yy, *(shifted(a, self.phi_grid[chosen]) for a in others)]


class _Signs(NamedTuple):
    """The signs of a group of features: node by node, and of each node feature by feature."""

    features: Index
    """Which of the features of the exchange."""
    shrink: SharedBits


def _joined(terms: list[Limbs]) -> Limbs | None:
    """One vector of all terms; None of a party without data."""
    return np.concatenate(terms, axis=1) if terms else None


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

"""The questions that share their exchanges, at one party: their sums, and what these answer.

docs/protocol.md, sections 6.2 to 6.4.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import NamedTuple

import numpy as np

from securefedyj.engines import Engine, Shared, concatenate
from securefedyj.numerics import wide
from securefedyj.numerics.arrays import Array, Bools, Index, Integers
from securefedyj.numerics.encoding import Domain, Encoding, choose_encoding
from securefedyj.numerics.sums import Silo, Sums
from securefedyj.numerics.weighed import WeighedPoints
from securefedyj.numerics.wide import Limbs
from securefedyj.protocol.state import Input, RunState

# Fewer pairs than these are not worth a ring of their own width.
WORTHWHILE = 512


class Target(Enum):
    """What the sums of a group are for."""

    SCORE = "the sign of the derivative of the likelihood"
    MOMENTS = "mean and variance"
    RANK = "whether fewer values than the rank are at most a point"


class Batch(NamedTuple):
    """The questions that share their exchanges, at one party."""

    run: RunState
    domain: Domain
    features: Index
    """The numbers of the questions."""
    n: Integers
    rank: Integers
    ranked: Bools
    n_squared: Limbs
    phi_grid: Integers

    @classmethod
    def of(cls, run: RunState) -> Batch:
        """The batch of the next opening."""
        features, asked = run.schedule.batch, run.agreement.asked
        domain, n = asked.domain.take(features), run.schedule.n[features]
        rank, ranked = run.schedule.rank[features], asked.ranked[features]
        n_squared = wide.from_ints([count * count for count in n.tolist()], 2)
        return cls(run, domain, features, n, rank, ranked, n_squared, domain.phi_grid())

    def searches(self, chosen: Index, points: Array) -> list[Group]:
        """Groups for the signs of a search, at one or more nodes."""
        ranked = self.ranked[chosen]
        return [
            *self._groups(chosen, points, ~ranked, Target.SCORE),
            *self._groups(chosen, points, ranked, Target.RANK),
        ]

    def moments_at(self, chosen: Index, points: Array) -> list[Group]:
        """Groups for moments alone, in narrower rings."""
        every = np.ones(len(chosen), dtype=bool)
        return self._groups(chosen, points[None], every, Target.MOMENTS)

    def _groups(self, chosen: Index, points: Array, some: Bools, target: Target) -> list[Group]:
        """Groups of some of the chosen questions: nobody adds to what is submitted."""
        given = self.run.agreement.questions_given[self.features[chosen]]
        parts = [
            (np.flatnonzero(some & (given == is_given)), is_given) for is_given in (False, True)
        ]
        return [
            group
            for part, is_given in parts
            if len(part)
            for group in self._alike(chosen, points, part, target, is_given)
        ]

    def _alike(
        self, chosen: Index, points: Array, some: Index, target: Target, given: bool
    ) -> list[Group]:
        """Groups of questions that are all live, or all about submitted features."""
        nodes, size = len(points), len(some)
        every = np.concatenate([chosen[some]] * nodes)
        at = np.zeros((nodes, size)) if target is Target.RANK else points[:, some]
        encoding = choose_encoding(self.domain.take(every), self.n[every], at.ravel())
        match target:
            case Target.SCORE:
                limbs = encoding.limbs
            case Target.MOMENTS:
                limbs = -(-(encoding.v_bits + 2) // 64)
            case Target.RANK:
                limbs = np.ones(nodes * size, dtype=np.int64)
        widths = limbs.reshape(nodes, size).max(axis=0)
        pairs = np.arange(nodes * size).reshape(nodes, size)
        return [
            Group(
                target,
                some[g],
                chosen[some[g]],
                points[:, some[g]],
                encoding.take(pairs[:, g].ravel()),
                width,
                given,
            )
            for width, g in groups_by_width(widths, WORTHWHILE // nodes)
        ]

    @property
    def last(self) -> bool:
        """Whether no batch follows."""
        return len(self.features) == 0 or self.features[-1] == len(self.run.schedule.n) - 1

    def inputs(self, groups: Sequence[Group]) -> list[Input]:
        """This party's terms for each group: of its own rows, or of what was submitted."""
        run = self.run
        own = {
            given: iter(self._own(silo, groups, given))
            for given, silo in ((False, run.silo), (True, run.held))
        }
        return [Input(next(own[g.given]), g.size, g.limbs, g.given) for g in groups]

    def _own(
        self, silo: Silo | WeighedPoints | None, groups: Sequence[Group], given: bool
    ) -> Iterator[Limbs | None]:
        """The terms for some groups, from one pass over the rows, and one to count them.

        For a score all four at all nodes, and S_phi; for moments S_y and n S_yy; for a rank how
        many values are at most the point.
        """
        some = [group for group in groups if group.given == given]
        if silo is None:
            yield from [None] * len(some)
            return
        sums = iter(self._sums(silo, [group for group in some if group.target is not Target.RANK]))
        for group in some:
            if group.target is Target.RANK:
                terms = [self._counts(silo, group)]
            else:
                terms = self._terms(silo, group, next(sums))
            if isinstance(silo, WeighedPoints):
                yield np.concatenate([silo.apart(term) for term in terms], axis=2)
            else:
                yield np.concatenate(terms, axis=1)

    def _counts(self, silo: Silo | WeighedPoints, group: Group) -> Limbs:
        """The values at most the points of a group."""
        features = self.features[group.chosen]
        points = self.run.agreement.asked.points(group.points, features)
        if isinstance(silo, WeighedPoints):
            return silo.ranks(features, points)
        return wide.from_digits(silo.ranks(features, points).reshape(1, -1), 62, 1)

    def _sums(self, silo: Silo | WeighedPoints, groups: Sequence[Group]) -> Sequence[Sums]:
        """The sums for each group."""
        if not groups:
            return []
        limbs = max(group.limbs for group in groups)
        together = silo.sums(
            self.features[np.concatenate([group.pairs for group in groups])],
            np.concatenate([group.points.ravel() for group in groups]),
            Encoding.joined([group.encoding for group in groups]),
            limbs,
        )
        ends = np.cumsum([len(group.pairs) for group in groups])[:-1].tolist()
        several = silo.several if isinstance(silo, WeighedPoints) else 1
        parts = zip(
            *(np.split(part.reshape(limbs, several, -1), ends, axis=2) for part in together),
            strict=True,
        )
        return [
            Sums(*(wide.resize(part.reshape(limbs, -1), group.limbs) for part in own))
            for group, own in zip(groups, parts, strict=True)
        ]

    async def sign(self, engine: Engine, group: Group, shared: Shared, first: bool) -> Shared:
        """D at all nodes, whose sign is Delta; at first also -V at node 0 of a score, behind it.

        Of a rank k, D = k - 1 - count: it is negative where at least k values are at most the
        point.
        """
        if group.target is not Target.RANK:
            return await self.score(engine, shared, len(group.points), first)
        return -shared + wide.from_digits(self.rank[group.pairs][None] - 1, 62, 1)

    async def score(self, engine: Engine, shared: Shared, nodes: int, first: bool) -> Shared:
        """D at all nodes; at first also -V at node 0, behind it.

        It is V > 0 times the derivative of the log-likelihood, on an
        integer grid: D = S_phi V - h (n S_yd - S_y S_d) with V = n S_yy - S_y^2, bracketed for two
        rounds (docs/protocol.md, section 6.3, steps 1 to 3).
        """
        size = shared.size // (4 * nodes + 1)
        N = nodes * size
        S_y, nS_yy, hS_d, nhS_yd = (shared[k * N : (k + 1) * N] for k in range(4))
        S_phi = concatenate([shared[4 * N :]] * nodes)  # it does not depend on lambda
        factors = [S_phi, S_y]
        if first:
            factors = [concatenate([factor, S_y[:size]]) for factor in factors]
        product = await engine.multiply(*factors)
        D = await engine.sum_of_products([(S_phi, nS_yy), (S_y, hS_d - product[:N])]) - nhS_yd
        return concatenate([D, product[N:] - nS_yy[:size]]) if first else D

    async def moments(self, engine: Engine, shared: Shared) -> tuple[Shared, Shared]:
        """V = n S_yy - S_y^2, and S_y."""
        size = shared.size // 2
        S_y, nS_yy = shared[:size], shared[size:]
        return nS_yy - await engine.multiply(S_y, S_y), S_y

    def _terms(self, silo: Silo | WeighedPoints, group: Group, sums: Sums) -> list[Limbs]:
        """A silo's S_y, n S_yy, h S_d and n h S_yd, with h = n 2^phi_grid; and S_phi.

        The factors are public; before sharing, one party can multiply by them alone.
        """
        limbs, size = group.limbs, sums.y.shape[1]
        pairs = np.tile(group.pairs, size // len(group.pairs))
        factors = wide.zeros(limbs, 3 * size)
        factors[0, : 2 * size] = np.concatenate([self.n[pairs]] * 2)
        factors[:2, 2 * size :] = self.n_squared[:, pairs]
        scaled = wide.scale(np.concatenate([sums.yy, sums.d, sums.yd], axis=1), factors)
        nS_yy, *others = (scaled[:, k * size : (k + 1) * size] for k in range(3))
        if group.target is Target.MOMENTS:
            return [sums.y, nS_yy]
        phi = silo.phi_sum(self.features[group.chosen], limbs)
        return [sums.y, nS_yy, *(_shifted(a, self.phi_grid[pairs]) for a in others), phi]


class Group(NamedTuple):
    """Questions that share a ring, and the points of the search where they are evaluated."""

    target: Target
    places: Index
    """Among the questions of the exchange."""
    chosen: Index
    """In the batch."""
    points: Array
    """One row for each node."""
    encoding: Encoding
    limbs: int
    given: bool
    """Whether the questions are about submitted features."""

    @property
    def pairs(self) -> Index:
        """The questions in the batch once for each node."""
        return np.concatenate([self.chosen] * len(self.points))

    @property
    def size(self) -> int:
        """The number of integers that are shared."""
        match self.target:
            case Target.SCORE:
                return 4 * self.points.size + len(self.chosen)
            case Target.MOMENTS:
                return 2 * self.points.size
            case Target.RANK:
                return self.points.size


def groups_by_width(limbs: Integers, least: int) -> Iterator[tuple[int, Index]]:
    """Ring widths with the features that use them, narrowest first.

    A group of fewer than ``least`` features joins the next wider one: what it would save in
    bytes, it would cost in operations.
    """
    waiting = np.empty(0, dtype=np.intp)
    widths = np.unique(limbs)
    for width in widths:
        waiting = np.concatenate([waiting, np.flatnonzero(limbs == width)])
        if len(waiting) >= least or width == widths[-1]:
            yield int(width), np.sort(waiting)
            waiting = np.empty(0, dtype=np.intp)


def _shifted(a: Limbs, bits: Integers) -> Limbs:
    """Each value of a times its own 2^bits."""
    if len(bits) and np.all(bits == bits[0]):  # as a rule
        return wide.shift_left(a, int(bits[0]))
    result = np.empty_like(a)
    for some in np.unique(bits).tolist():
        these = bits == some
        result[:, these] = wide.shift_left(a[:, these], some)
    return result

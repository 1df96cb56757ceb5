"""The Yeo-Johnson features that share their exchanges, at one party: their sums, score and moments.

docs/protocol.md, sections 6.2 to 6.4.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from securefedyj.engines import Engine, Shared, concatenate
from securefedyj.numerics import wide
from securefedyj.numerics.arrays import Array, Index, Integers
from securefedyj.numerics.encoding import Domain, Encoding, choose_encoding
from securefedyj.numerics.sums import Sums
from securefedyj.numerics.wide import Limbs
from securefedyj.protocol.state import Input, RunState

# Fewer pairs than these are not worth a ring of their own width.
WORTHWHILE = 512


class Batch(NamedTuple):
    """The features that share their exchanges, at one party."""

    run: RunState
    domain: Domain
    features: Index
    n: Integers
    n_squared: Limbs
    phi_grid: Integers

    @classmethod
    def of(cls, run: RunState) -> Batch:
        """The batch of the next opening."""
        features = run.schedule.batch
        domain, n = run.agreement.domain.take(features), run.schedule.n[features]
        n_squared = wide.from_ints([count * count for count in n.tolist()], 2)
        return cls(run, domain, features, n, n_squared, domain.phi_grid())

    def groups(self, chosen: Index, points: Array, *, scored: bool) -> list[Group]:
        """Groups for the score at one or more nodes, or for moments alone in narrower rings."""
        nodes, size = points.shape
        every = np.concatenate([chosen] * nodes)
        encoding = choose_encoding(self.domain.take(every), self.n[every], points.ravel())
        limbs = encoding.limbs if scored else -(-(encoding.v_bits + 2) // 64)
        widths = limbs.reshape(nodes, size).max(axis=0)
        pairs = np.arange(nodes * size).reshape(nodes, size)
        return [
            Group(g, chosen[g], points[:, g], encoding.take(pairs[:, g].ravel()), width, scored)
            for width, g in groups_by_width(widths, WORTHWHILE // nodes)
        ]

    @property
    def last(self) -> bool:
        """Whether no batch follows."""
        return len(self.features) == 0 or self.features[-1] == len(self.run.schedule.n) - 1

    def inputs(self, groups: Sequence[Group]) -> list[Input]:
        """This silo's terms for each group, from one pass over its rows.

        For a score all four at all nodes, and S_phi; for moments S_y and n S_yy.
        """
        inputs: list[Input] = []
        for group, sums in zip(groups, self._sums(groups), strict=True):
            pairs = len(group.pairs)
            size = 4 * pairs + len(group.chosen) if group.scored else 2 * pairs
            own = None if sums is None else np.concatenate(self._terms(group, sums), axis=1)
            inputs.append((own, size, group.limbs))
        return inputs

    def _sums(self, groups: Sequence[Group]) -> Sequence[Sums | None]:
        """This silo's sums for each group; None at a party without data."""
        if self.run.silo is None or not groups:
            return [None] * len(groups)
        limbs = max(group.limbs for group in groups)
        together = self.run.silo.sums(
            self.features[np.concatenate([group.pairs for group in groups])],
            np.concatenate([group.points.ravel() for group in groups]),
            Encoding.joined([group.encoding for group in groups]),
            limbs,
        )
        ends = np.cumsum([len(group.pairs) for group in groups])[:-1].tolist()
        parts = zip(*(np.split(part, ends, axis=1) for part in together), strict=True)
        return [
            Sums(*(wide.resize(part, group.limbs) for part in own))
            for group, own in zip(groups, parts, strict=True)
        ]

    async def score(self, engine: Engine, shared: Shared, nodes: int, first: bool) -> Shared:
        """D at all nodes; at first also -V at node 0, behind it.

        Delta is the sign of D, which is V > 0 times the derivative of the log-likelihood, on an
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

    def _terms(self, group: Group, sums: Sums) -> list[Limbs]:
        """This silo's S_y, n S_yy, h S_d and n h S_yd, with h = n 2^phi_grid; and S_phi.

        The factors are public; before sharing, one party can multiply by them alone.
        """
        pairs, limbs, size = group.pairs, group.limbs, len(group.pairs)
        factors = wide.zeros(limbs, 3 * size)
        factors[0, : 2 * size] = np.concatenate([self.n[pairs]] * 2)
        factors[:2, 2 * size :] = self.n_squared[:, pairs]
        scaled = wide.scale(np.concatenate([sums.yy, sums.d, sums.yd], axis=1), factors)
        nS_yy, *others = (scaled[:, k * size : (k + 1) * size] for k in range(3))
        if not group.scored or self.run.silo is None:
            return [sums.y, nS_yy]
        phi = self.run.silo.phi_sum(self.features[group.chosen], limbs)
        return [sums.y, nS_yy, *(_shifted(a, self.phi_grid[pairs]) for a in others), phi]


class Group(NamedTuple):
    """Features that share a ring, and the points of the search where they are evaluated."""

    places: Index
    """Among the features of the exchange."""
    chosen: Index
    """In the batch."""
    points: Array
    """One row for each node."""
    encoding: Encoding
    limbs: int
    scored: bool
    """Whether the score is computed, or moments alone."""

    @property
    def pairs(self) -> Index:
        """The features in the batch once for each node."""
        return np.concatenate([self.chosen] * len(self.points))


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

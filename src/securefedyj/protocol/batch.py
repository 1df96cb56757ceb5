"""A party's run as far as it is, and the features whose turn it is: what all exchanges share.

docs/protocol.md, section 6.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from securefedyj.engines import Engine, Shared, SharedBits, concatenate
from securefedyj.errors import InputError, ProtocolError, Unverified, code_of
from securefedyj.numerics import wide
from securefedyj.numerics.arrays import Array, Index, Integers
from securefedyj.numerics.encoding import Domain, Encoding, choose_encoding
from securefedyj.numerics.sums import Silo, Sums
from securefedyj.numerics.wide import Limbs
from securefedyj.party.rounds import in_lockstep
from securefedyj.protocol.agreement import Agreement
from securefedyj.protocol.course import Course, Due
from securefedyj.protocol.groups import WORTHWHILE, groups_by_width, shifted
from securefedyj.protocol.log import Log
from securefedyj.protocol.reveals import Counts, Reveal
from securefedyj.protocol.transcript import Transcript
from securefedyj.strict import Malformed

Opened = NDArray[np.uint8]
Input = tuple[Limbs | None, int, int]  # a party's vector, its size and its limbs


class TooFewValues(InputError):
    """Fewer values in all than the parties have agreed on as the least."""


def check_enough(course: Course) -> None:
    """Refuse to go on after the counts where a feature has fewer values than agreed on."""
    agreement = course.agreement
    if course.due is None and len(few := course.too_few()):
        named = (f"{agreement.features[j]!r} ({course.n[j]})" for j in few[:5].tolist())
        raise TooFewValues(
            "SFY-RUN-001",
            f"{len(few)} feature(s) have fewer than {agreement.minimum_values} values over all "
            f"silos: {', '.join(named)}. Nothing but the numbers of values of all features was "
            "revealed. Leave the features out, or agree on another minimum.",
        )


REFUTED = (
    "What was revealed on the way does not hold for the sums of all silos: somebody did not follow "
    "the protocol, or a machine computes wrongly. There is no result, and this run cannot go on. "
    "Find out why before you agree on another one."
)


def check_verdict(course: Course) -> None:
    """Refuse to go on where what was revealed does not hold."""
    if course.refuted:
        raise Unverified("SFY-RUN-002", REFUTED)


class Run(NamedTuple):
    """One party's run: what it computes with, and how far it is."""

    engine: Engine
    silo: Silo | None
    transcript: Transcript
    course: Course
    log: Log
    accepted: tuple[int, bytes] | None = None
    """Of which opening all members have accepted their parts in an earlier session, and ours."""

    def part(self) -> bytes | None:
        """Our part of the next opening, if it is not to be computed again."""
        if self.accepted is None or self.accepted[0] != len(self.transcript.reveals):
            return None
        return self.accepted[1]

    def due(self) -> Due | None:
        """The opening that comes next; None at the end. What ends a run for good is an error."""
        check_enough(self.course)
        check_verdict(self.course)
        return self.course.due

    @property
    def agreement(self) -> Agreement:
        return self.transcript.agreement

    async def share(self, engine: Engine, own: Sequence[Input]) -> list[Shared]:
        """Begin an exchange: share vectors, each with its size and limbs, in one round.

        All parties say in the same round what they have revealed so far: whoever has another
        transcript is found out before anything is computed with the inputs.
        """
        branches: list[Coroutine[Any, Any, Any]] = [engine.agree(self.transcript.digest())]
        for vector, size, limbs in own:
            branches.append(engine.share(vector, size=size, limbs=limbs))
        _, *shared = await in_lockstep(*branches)
        return shared

    async def open_bits(self, engine: Engine, bits: Sequence[SharedBits]) -> Sequence[Opened]:
        """Open vectors of bits, in a round that is for nothing else.

        Which bits these are depends on what was opened before: that must be what all others have.
        """
        await engine.compared()
        self.log.opening(self.transcript)
        return await in_lockstep(*(engine.open_bits(some) for some in bits))

    def reveal(self, reveal: Reveal) -> None:
        """Keep what was opened, if it can have been."""
        try:
            self.course.take(reveal)
        except Malformed as error:
            raise ProtocolError(
                code_of(error, "SFY-RUN-003"), f"What was opened cannot be: {error}."
            ) from None
        self.transcript.reveals.append(reveal)
        self.log.revealed(self.transcript)

    async def open_counts(self, due: Due) -> None:
        """n of each feature: how many values all silos have together (section 6.1)."""
        own = None if self.silo is None else wide.from_digits(self.silo.count[None], 62, 1)
        (shared,) = await self.share(self.engine, [(own, len(due.features), 1)])
        self.log.opening(self.transcript)
        counts = await self.engine.open(shared)
        self.reveal(Counts(due.features, counts[0].astype(np.int64)))


class Batch(NamedTuple):
    """The features that share their exchanges, at one party."""

    run: Run
    domain: Domain
    features: Index
    n: Integers
    n_squared: Limbs
    phi_grid: Integers

    @classmethod
    def of(cls, run: Run) -> Batch:
        """The batch whose turn it is."""
        features = run.course.batch
        domain, n = run.agreement.domain.take(features), run.course.n[features]
        n_squared = wide.from_ints([count * count for count in n.tolist()], 2)
        return cls(run, domain, features, n, n_squared, domain.phi_grid())

    @property
    def last(self) -> bool:
        """Whether no batch follows."""
        return len(self.features) == 0 or self.features[-1] == len(self.run.course.n) - 1

    def inputs(self, groups: Sequence[Group]) -> list[Input]:
        """This silo's terms of each group, from one pass over its rows: for a score all four at all
        nodes, and S_phi; for moments S_y and n S_yy.
        """
        inputs: list[Input] = []
        for group, sums in zip(groups, self._sums(groups), strict=True):
            terms = 4 * len(group.pairs) + len(group.chosen)
            size = terms if group.scored else 2 * len(group.pairs)
            own = None if sums is None else np.concatenate(self._terms(group, sums), axis=1)
            inputs.append((own, size, group.limbs))
        return inputs

    def _sums(self, groups: Sequence[Group]) -> Sequence[Sums | None]:
        """This silo's sums for each group; None of a party without data."""
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

        The factors are public; before sharing, multiplying by them is a single party's work.
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
        return [sums.y, nS_yy, *(shifted(a, self.phi_grid[pairs]) for a in others), phi]


class Group(NamedTuple):
    """Features that share a ring, and where they are looked at."""

    places: Index
    """Among the features that were asked for."""
    chosen: Index
    """In the batch."""
    points: Array
    """One row for each node."""
    encoding: Encoding
    limbs: int
    scored: bool
    """Whether the score is wanted, or moments alone."""

    @property
    def pairs(self) -> Index:
        """The features in the batch once for each node."""
        return np.concatenate([self.chosen] * len(self.points))


def moment_groups(batch: Batch, chosen: Index, lmbda: Array) -> list[Group]:
    """Groups of features whose V and S_y are wanted; D, which would be wider, is not."""
    encoding = choose_encoding(batch.domain.take(chosen), batch.n[chosen], lmbda)
    limbs_of_V = -(-(encoding.v_bits + 2) // 64)
    return [
        Group(g, chosen[g], lmbda[None, g], encoding.take(g), limbs, scored=False)
        for limbs, g in groups_by_width(limbs_of_V, WORTHWHILE)
    ]


def score_groups(batch: Batch, chosen: Index, points: Array) -> list[Group]:
    """Groups of features whose score is wanted, at one or more nodes."""
    nodes, size = points.shape
    every = np.concatenate([chosen] * nodes)
    encoding = choose_encoding(batch.domain.take(every), batch.n[every], points.ravel())
    widths = encoding.limbs.reshape(nodes, size).max(axis=0)
    pairs = np.arange(nodes * size).reshape(nodes, size)
    return [
        Group(g, chosen[g], points[:, g], encoding.take(pairs[:, g].ravel()), limbs, scored=True)
        for limbs, g in groups_by_width(widths, WORTHWHILE // nodes)
    ]

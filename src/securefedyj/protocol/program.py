"""SecureFedYJ, the program that every party runs: the paper's algorithm 3.

docs/protocol.md, section 6. It knows the engine only by its interface, and the silo only by its
exact sums. Everything it opens goes into the transcript, and the result follows from the transcript
alone.

Differences from the paper: several steps share an exchange (`search.speculate`); the sums are
exact integers; mean and variance are opened to the precision of the answer and no further.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from securefedyj.engines import Engine, Shared, concatenate
from securefedyj.engines.registry import facts_of
from securefedyj.numerics import wide
from securefedyj.numerics.arrays import Array, Index, Integers, Signs
from securefedyj.numerics.encoding import Domain, Encoding, choose_encoding
from securefedyj.numerics.search import Speculation, exp_update, finished, speculate
from securefedyj.numerics.silo import Silo
from securefedyj.numerics.wide import Limbs
from securefedyj.party.rounds import in_lockstep
from securefedyj.protocol.agreement import Agreement
from securefedyj.protocol.reveals import (
    MAGNITUDE_STEP,
    Counts,
    Moments,
    Step,
    Variation,
    lowest_opened,
)
from securefedyj.protocol.transcript import Transcript

# Pairs of a feature and a lambda in one exchange: features beyond that wait for the next batch.
PAIRS_AT_ONCE = 1 << 18

# Fewer pairs than these are not worth a ring of their own width.
_WORTHWHILE = 512


async def secure_fed_yj(
    engine: Engine,
    silo: Silo | None,
    agreement: Agreement,
    transcript: Transcript | None = None,
    after_exchange: Callable[[Transcript], None] = lambda transcript: None,
) -> Transcript:
    """Fit all features; every party returns the same transcript, still without the result.

    Parameters
    ----------
    silo
        The data of this party; None if it computes but has none.
    transcript
        What an earlier run has revealed, up to the end of one of its exchanges: the fit goes on
        from there. All parties must start from the same.
    after_exchange
        Called with the transcript at the end of each exchange.
    """
    transcript = Transcript(agreement) if transcript is None else transcript
    everything = np.arange(len(agreement.features))
    if not transcript.reveals:
        n = await _open_counts(engine, silo, len(everything))
        transcript.reveals.append(Counts(everything, n))
        after_exchange(transcript)
    n = transcript.counts()
    _check_enough(n, agreement)
    size = features_at_once(agreement)
    for first in range(0, len(everything), size):
        features = everything[first : first + size]
        batch = _Batch.of(features, engine, silo, agreement.domain, n)
        if not transcript.has_moments(features):
            lmbda = await batch.search(agreement, transcript, after_exchange)
            await batch.open_moments(lmbda, transcript)
            after_exchange(transcript)
    return transcript


async def run_party(
    name: str,
    agreement: Agreement,
    silo: Silo | None,
    transcript: Transcript | None = None,
    after_exchange: Callable[[Transcript], None] = lambda transcript: None,
) -> Transcript:
    """One party's whole run: connect its engine to the others, then fit (see `secure_fed_yj`)."""
    connect = facts_of(agreement.engine).connect
    if connect is None:
        raise ValueError(
            f"engine {agreement.engine!r} runs its parties in processes of its own, on one machine"
        )
    engine = await connect(name, agreement.parties, agreement.committee)
    return await secure_fed_yj(engine, silo, agreement, transcript, after_exchange)


def features_at_once(agreement: Agreement) -> int:
    """How many features share their exchanges: a batch (docs/protocol.md, section 6.1)."""
    return max(1, PAIRS_AT_ONCE // (int(2**agreement.levels_per_exchange) - 1))


class TooFewValues(ValueError):
    """Fewer values in all than the parties have agreed on as the least."""


def _check_enough(n: Integers, agreement: Agreement) -> None:
    few = [
        f"{name!r} ({count})"
        for name, count in zip(agreement.features, n.tolist(), strict=True)
        if count < agreement.minimum_values
    ]
    if few:
        raise TooFewValues(
            f"{len(few)} feature(s) have fewer than {agreement.minimum_values} values over all "
            f"silos: {', '.join(few[:5])}. Nothing but these numbers was revealed. Leave the "
            "features out, or agree on another minimum."
        )


async def _open_counts(engine: Engine, silo: Silo | None, size: int) -> Integers:
    """n of each feature: how many values all silos have together (section 6.1)."""
    own = None if silo is None else wide.from_digits(silo.count[None], 62, 1)
    counts = await engine.open(await engine.share(own, size=size, limbs=1))
    return np.asarray(counts[0], dtype=np.int64)


class _Batch(NamedTuple):
    """The features that share their exchanges, at one party."""

    engine: Engine
    silo: Silo | None
    domain: Domain
    features: Index
    n: Integers
    n_squared: Limbs
    phi_grid: Integers

    @classmethod
    def of(
        cls,
        features: Index,
        engine: Engine,
        silo: Silo | None,
        domain: Domain,
        n: Integers,
    ) -> _Batch:
        """The batch of some features; domain and n are those of all."""
        domain, n = domain.take(features), n[features]
        n_squared = wide.from_ints([count * count for count in n.tolist()], 2)
        return cls(engine, silo, domain, features, n, n_squared, domain.phi_grid())

    async def search(
        self,
        agreement: Agreement,
        transcript: Transcript,
        after_exchange: Callable[[Transcript], None],
    ) -> Array:
        """Find lambda* of each feature: signs of the score, each followed by ExpUpdate.

        One turn of the loop is an exchange (docs/protocol.md, section 6.3), and each of its levels
        one step of the search. A feature that does not vary gets lambda = 1.
        """
        max_steps = agreement.max_steps
        limits = self.domain.limits()
        bracket = transcript.search_state().take(self.features)
        done = transcript.steps_done(self.features)
        varies = ~transcript.constant()[self.features] if done else self.n > 1
        for step in range(done, max_steps, agreement.levels_per_exchange):
            active = np.flatnonzero(~finished(bracket) & varies)
            if not len(active):
                break
            levels = min(agreement.levels_per_exchange, max_steps - step)
            tree = speculate(bracket.take(active), levels, limits.take(active))
            path, varies[active] = await self._walk_by_width(active, tree, first=step == 0)
            if step == 0:
                transcript.reveals.append(Variation(self.features[active], varies[active]))
            for level, signs in enumerate(path):
                now = np.flatnonzero(signs)  # the others were over before
                if not len(now):
                    break
                where, delta = active[now], signs[now]
                here = bracket.take(where)
                transcript.reveals.append(
                    Step(step + level, self.features[where], here.value, delta)
                )
                bracket.put(where, exp_update(here, delta, limits.take(where)))
            after_exchange(transcript)
        return np.where(varies, bracket.value, 1.0)

    async def _walk_by_width(
        self, active: Index, tree: Speculation, first: bool
    ) -> tuple[Signs, NDArray[np.bool_]]:
        """Signs on the path of each feature; those of one ring width in a group (section 6.2)."""
        nodes, size = tree.points.shape
        every = np.concatenate([active] * nodes)
        encoding = choose_encoding(self.domain.take(every), self.n[every], tree.points.ravel())
        widths = encoding.limbs.reshape(nodes, size).max(axis=0)
        groups = list(_groups_by_width(widths, _WORTHWHILE // nodes))
        if len(groups) == 1:
            return await self._walk(active, tree, encoding, groups[0][0], first)
        pairs = np.arange(nodes * size).reshape(nodes, size)
        walks = await in_lockstep(
            *(
                self._walk(
                    active[g], tree.take(g), encoding.take(pairs[:, g].ravel()), limbs, first
                )
                for limbs, g in groups
            )
        )
        path, varies = np.zeros((tree.levels, size), dtype=np.int8), np.ones(size, dtype=bool)
        for (_, group), (signs, variation) in zip(groups, walks, strict=True):
            path[:, group], varies[group] = signs, variation
        return path, varies

    async def _walk(
        self, chosen: Index, tree: Speculation, encoding: Encoding, limbs: int, first: bool
    ) -> tuple[Signs, NDArray[np.bool_]]:
        """One exchange of a group: signs at all points under sharing, then open those on the path.

        Signs off the path stay shared, so that what is opened does not depend on how many
        levels share an exchange. On the path, 0 stands where the search was over before. In the
        first exchange it is also opened whether a feature varies at all; the search of one that
        does not is over.
        """
        nodes, size = tree.points.shape
        score, V = await self._score(chosen, tree, encoding, limbs, first)
        shrink = await self.engine.negative(score if V is None else concatenate([score, -V]))

        path = np.zeros((tree.levels, size), dtype=np.int8)
        varies = np.ones(size, dtype=bool)
        if first:
            variation = slice(nodes * size, None)
            varies = (await self.engine.open_bits(shrink[variation])).astype(bool)
        unfinished = ~finished(tree.tree)
        node, column = np.zeros(size, dtype=np.intp), np.arange(size)
        for level in range(tree.levels):
            now = np.flatnonzero(unfinished[node, column] & varies)
            if not len(now):
                break
            opened = await self.engine.open_bits(shrink[node[now] * size + now])
            path[level, now] = 1 - 2 * opened.astype(np.int8)
            node = tree.child(node, path[level])
        return path, varies

    async def _score(
        self, chosen: Index, tree: Speculation, encoding: Encoding, limbs: int, first: bool
    ) -> tuple[Shared, Shared | None]:
        """D at all points, where Delta = sign(D); in the first exchange also V at the root.

        D is V > 0 times the derivative of the log-likelihood, on an integer grid:
        D = S_phi V - h (n S_yd - S_y S_d) with V = n S_yy - S_y^2, bracketed for two rounds
        (docs/protocol.md, section 6.3, steps 1 to 3).
        """
        nodes, size = tree.points.shape
        pairs = np.concatenate([chosen] * nodes)
        terms = self._terms(pairs, tree.points.ravel(), encoding, limbs)
        if self.silo is not None:
            terms.append(self.silo.phi_sum(self.features[chosen], limbs))
        S_y, nS_yy, hS_d, nhS_yd, S_phi = await self._share(terms, [len(pairs)] * 4 + [size], limbs)
        S_phi = concatenate([S_phi] * nodes)  # it does not depend on lambda
        V = None
        if first:
            root = S_y[:size]
            products = await self.engine.multiply(
                concatenate([S_phi, root]), concatenate([S_y, root])
            )
            product, V = products[: len(pairs)], nS_yy[:size] - products[len(pairs) :]
        else:
            product = await self.engine.multiply(S_phi, S_y)
        sums = await self.engine.sum_of_products([(S_phi, nS_yy), (S_y, hS_d - product)])
        return sums - nhS_yd, V

    async def open_moments(self, lmbda: Array, transcript: Transcript) -> None:
        """Open S_y and V = n S_yy - S_y^2 at lambda*, down to the precision of the answer.

        docs/protocol.md, section 6.4.
        """
        chosen = np.flatnonzero(self.n > 0)
        encoding = choose_encoding(self.domain.take(chosen), self.n[chosen], lmbda[chosen])
        # V and the thresholds it is compared with; D, which would be wider, is not asked for.
        limbs_of_V = -(-(encoding.v_bits + 2) // 64)
        groups = list(_groups_by_width(limbs_of_V, _WORTHWHILE))
        opened = await in_lockstep(
            *(
                self._moments(chosen[g], lmbda[chosen[g]], encoding.take(g), limbs)
                for limbs, g in groups
            )
        )
        for (_, group), moments in zip(groups, opened, strict=True):
            transcript.reveals.append(Moments(self.features[chosen[group]], *moments))

    async def _moments(
        self, chosen: Index, lmbda: Array, encoding: Encoding, limbs: int
    ) -> tuple[Integers, list[int], list[int]]:
        """Magnitude of V, then V and S_y without the bits below the precision of the answer."""
        terms = self._terms(chosen, lmbda, encoding, limbs)
        S_y, nS_yy = await self._share(terms[:2], [len(chosen)] * 2, limbs)
        V = nS_yy - await self.engine.multiply(S_y, S_y)
        steps = range(MAGNITUDE_STEP, int(encoding.v_bits.max()) + 1, MAGNITUDE_STEP)
        thresholds = wide.from_ints([1 << bits for bits in steps], limbs)
        size = len(chosen)
        below = concatenate([V] * len(steps)) - np.repeat(thresholds, size, axis=1)
        small, bits = await in_lockstep(
            self.engine.negative(below), self.engine.bits(concatenate([V, S_y]))
        )
        reached = 1 - (await self.engine.open_bits(small)).reshape(-1, size)
        magnitude = reached.sum(axis=0).astype(np.int64)
        V_low, y_low = lowest_opened(magnitude)
        positions = np.arange(64 * limbs)[:, None]
        top = MAGNITUDE_STEP * (magnitude + 1)
        wanted = np.hstack([(positions >= V_low) & (positions < top), positions >= y_low])
        opened = np.zeros(wanted.shape, dtype=np.uint8)
        opened[wanted] = await self.engine.open_bits(bits[wanted])
        V_opened, y_opened = np.hsplit(opened, 2)
        return (
            magnitude,
            _integers(V_opened, V_low, signed=False),
            _integers(y_opened, y_low, signed=True),
        )

    def _terms(self, chosen: Index, lmbda: Array, encoding: Encoding, limbs: int) -> list[Limbs]:
        """This silo's S_y, n S_yy, h S_d and n h S_yd, with h = n 2^phi_grid.

        The factors are public; before sharing, multiplying by them is a single party's work.
        """
        if self.silo is None:
            return []
        y, d, yy, yd = self.silo.sums(self.features[chosen], lmbda, encoding, limbs)
        size = len(chosen)
        factors = wide.zeros(limbs, 3 * size)
        factors[0, : 2 * size] = np.concatenate([self.n[chosen]] * 2)
        factors[:2, 2 * size :] = self.n_squared[:, chosen]
        scaled = wide.scale(np.concatenate([yy, d, yd], axis=1), factors)
        nS_yy, *others = (scaled[:, k * size : (k + 1) * size] for k in range(3))
        return [y, nS_yy, *(_shifted(a, self.phi_grid[chosen]) for a in others)]

    async def _share(self, terms: list[Limbs], sizes: list[int], limbs: int) -> list[Shared]:
        """Share vectors of these sizes, summed over all silos."""
        own = np.concatenate(terms, axis=1) if terms else None
        shared = await self.engine.share(own, size=sum(sizes), limbs=limbs)
        ends = list(itertools.accumulate(sizes))
        return [shared[end - size : end] for size, end in zip(sizes, ends, strict=True)]


def _shifted(a: Limbs, bits: Integers) -> Limbs:
    """a * 2^bits, of each value its own."""
    if len(bits) and np.all(bits == bits[0]):  # as a rule
        return wide.shift_left(a, int(bits[0]))
    shifted = np.empty_like(a)
    for some in np.unique(bits).tolist():
        these = bits == some
        shifted[:, these] = wide.shift_left(a[:, these], some)
    return shifted


def _integers(bits: NDArray[np.uint8], low: Integers, *, signed: bool) -> list[int]:
    """The integers with these bits, shifted right by ``low``; those below were not opened."""
    width = len(bits)
    data = np.packbits(bits.T, axis=1, bitorder="little")
    values = [int.from_bytes(row.tobytes(), "little") for row in data]
    return [
        (value - (1 << width) if signed and value >> (width - 1) else value) >> int(shift)
        for value, shift in zip(values, low, strict=True)
    ]


def _groups_by_width(limbs: Integers, least: int) -> Iterator[tuple[int, Index]]:
    """Ring widths with the features that use them (docs/protocol.md, section 6.2).

    A group of fewer than ``least`` features joins the next wider one: what it would save in
    bytes, it would cost in operations.
    """
    if len(limbs) and np.all(limbs == limbs[0]):
        yield int(limbs[0]), np.arange(len(limbs))
        return
    waiting = np.empty(0, dtype=np.intp)
    widths = np.unique(limbs)
    for width in widths:
        waiting = np.concatenate([waiting, np.flatnonzero(limbs == width)])
        if len(waiting) >= least or width == widths[-1]:
            yield int(width), np.sort(waiting)
            waiting = np.empty(0, dtype=np.intp)

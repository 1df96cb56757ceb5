"""What a run reveals, kind by kind (docs/protocol.md, section 7).

Opened, and nothing else, are: how many values each feature has and whether they vary, the signs
of the search, whether all of that holds, if that was agreed on, and mean and variance at the end.
One reveal is one opening, and one opening is one reveal: what stands in a transcript was opened by
all parties in a round of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from securefedyj.numerics.arrays import Array, Index, Integers, Signs
from securefedyj.numerics.encoding import choose_encoding
from securefedyj.numerics.search import Bracket, exp_update
from securefedyj.protocol.agreement import Agreement

# The magnitude of V is told in steps of this many bits.
MAGNITUDE_STEP = 8


class Counts(NamedTuple):
    """n of each feature: the number of values that all silos have together."""

    features: Index
    n: Integers


class Variation(NamedTuple):
    """Whether a feature has two distinct values at all, over all silos, on its grid."""

    features: Index
    varies: NDArray[np.bool_]


class Step(NamedTuple):
    """One step of the search: the sign of the score of each feature at its lambda."""

    step: int
    features: Index
    lmbda: Array
    delta: Signs


class Verdict(NamedTuple):
    """Whether all that was revealed of a batch before holds for the sums of all silos.

    Only of a verified run. If it does not hold, nothing else is revealed. Part of `Final`; up to
    version 3 of the protocol an opening of its own, followed by magnitudes and moments.
    """

    features: Index
    holds: bool


class Magnitudes(NamedTuple):
    """The magnitude of V = n S_yy - S_y^2 at lambda*, as an integer on the grid of the encoding.

    V lies in [2^(8 magnitude), 2^(8 magnitude + 8)), or below 256 where the magnitude is 0.
    """

    features: Index
    magnitude: Integers


class Moments(NamedTuple):
    """V and S_y at lambda*, without their lowest bits: `lowest_opened` many, by the magnitude."""

    features: Index
    V: list[int]
    S_y: list[int]


class Final(NamedTuple):
    """The verdict of a batch and, if it holds, magnitudes and moments: the end of a verified run.

    All in one opening, so that nobody sees a part of it and can still change the rest. A feature
    without a value has zeros; so has every feature if the verdict is that something does not hold.
    """

    features: Index
    holds: bool
    magnitude: Integers
    V: list[int]
    S_y: list[int]

    def parts(self, counts: Integers) -> Iterator[Verdict | Magnitudes | Moments]:
        """The same as reveals of their own, given n of all features of the run."""
        yield Verdict(self.features, self.holds)
        some = np.flatnonzero(counts[self.features] > 0)
        if self.holds and len(some):
            features = self.features[some]
            yield Magnitudes(features, self.magnitude[some])
            yield Moments(features, [self.V[j] for j in some], [self.S_y[j] for j in some])


Reveal = Counts | Variation | Step | Verdict | Magnitudes | Moments | Final
KINDS: dict[str, type[Reveal]] = {
    kind.__name__.lower(): kind
    for kind in (Counts, Variation, Step, Verdict, Magnitudes, Moments, Final)
}
"""The kinds of reveals, by their names in the file."""

R = TypeVar("R", bound=Reveal)


def lowest_opened(magnitude: Integers, result_bits: int) -> tuple[Integers, Integers]:
    """The lowest bits of V and of S_y that are opened, by the magnitude of V (section 6.4).

    From V >= 2^(8 magnitude) follows sqrt(V) >= 2^(4 magnitude), which is n times the standard
    deviation: S_y is opened down to ``result_bits`` below that, and V to ``result_bits`` + 8 bits
    in all.
    """
    return (
        np.maximum(MAGNITUDE_STEP * magnitude - result_bits, 0),
        np.maximum(MAGNITUDE_STEP * magnitude // 2 - result_bits, 0),
    )


@dataclass
class Revealed:
    """What a run has revealed so far, in order, and what can be read off it."""

    agreement: Agreement
    reveals: list[Reveal] = field(default_factory=list)

    @property
    def n_features(self) -> int:
        return len(self.agreement.features)

    def all(self, kind: type[R]) -> Iterator[R]:
        """The reveals of one kind, in order, those that are part of a final opening included."""
        for reveal in self.reveals:
            if isinstance(reveal, kind):
                yield reveal
            elif isinstance(reveal, Final) and kind in (Verdict, Magnitudes, Moments):
                yield from (part for part in reveal.parts(self.counts()) if isinstance(part, kind))

    def counts(self) -> Integers:
        """n of each feature, 0 while it is unknown."""
        n = np.zeros(self.n_features, dtype=np.int64)
        for reveal in self.all(Counts):
            n[reveal.features] = reveal.n
        return n

    def constant(self) -> NDArray[np.bool_]:
        """Features that were not found to vary."""
        constant = np.ones(self.n_features, dtype=bool)
        for reveal in self.all(Variation):
            constant[reveal.features] = ~reveal.varies
        return constant

    def search_state(self) -> Bracket:
        """Where the signs so far have led each feature."""
        limits = self.agreement.domain.limits()
        state = Bracket.start(self.n_features)
        for reveal in self.all(Step):
            where = reveal.features
            state.put(where, exp_update(state.take(where), reveal.delta, limits.take(where)))
        return state

    def magnitudes(self) -> Integers:
        """The magnitude of V of each feature, -1 while it is unknown."""
        magnitude = np.full(self.n_features, -1, dtype=np.int64)
        for reveal in self.all(Magnitudes):
            magnitude[reveal.features] = reveal.magnitude
        return magnitude

    def signs_opened(self) -> Integers:
        """How many signs of each feature were revealed."""
        signs = np.zeros(self.n_features, dtype=np.int64)
        for reveal in self.all(Step):
            np.add.at(signs, reveal.features, 1)
        return signs

    def bits_opened(self) -> Integers:
        """How many bits about the values of each feature were revealed, besides n.

        The signs; the steps that the magnitude of V is told in; the bits of V; and those of S_y,
        its sign included, from the first that is not 0.
        """
        bits, known = self.signs_opened(), self.magnitudes()
        for reveal in self.all(Magnitudes):
            np.add.at(bits, reveal.features, self._thresholds(reveal.features))
        for moments in self.all(Moments):
            magnitude = np.maximum(known[moments.features], 0)
            V_low, _ = lowest_opened(magnitude, self.agreement.result_bits)
            of_V = MAGNITUDE_STEP * (magnitude + 1) - V_low
            of_S_y = np.array([1 + abs(S_y).bit_length() for S_y in moments.S_y], dtype=np.int64)
            np.add.at(bits, moments.features, of_V + of_S_y)
        return bits

    def _thresholds(self, features: Index) -> Integers:
        """How many thresholds V of each feature is compared with, to tell its magnitude."""
        varies = ~self.constant()[features]
        lmbda = np.where(varies, self.search_state().value[features], 1.0)
        encoding = choose_encoding(
            self.agreement.domain.take(features), self.counts()[features], lmbda
        )
        return encoding.v_bits // MAGNITUDE_STEP

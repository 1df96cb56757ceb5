"""What a run reveals, kind by kind (docs/protocol.md, section 7).

Opened, and nothing else, are: how many values each feature has and whether they vary, the signs
of the search, and mean and variance at the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from securefedyj.numerics.arrays import Array, Index, Integers, Signs
from securefedyj.numerics.search import Bracket, exp_update
from securefedyj.protocol.agreement import Agreement

# The magnitude of V is told in steps of this many bits, and of V itself at most these are opened.
MAGNITUDE_STEP = 8
VARIANCE_BITS = 52
# S_y is opened down to this many bits below its standard deviation.
MEAN_BITS = 44


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


class Moments(NamedTuple):
    """V = n S_yy - S_y^2 and S_y at lambda*, as integers on the grid of the encoding.

    V lies in [2^(8 magnitude), 2^(8 magnitude + 8)), or below 256 where the magnitude is 0.
    Both come without their lowest bits, `lowest_opened` many.
    """

    features: Index
    magnitude: Integers
    V: list[int]
    S_y: list[int]


Reveal = Counts | Variation | Step | Moments
KINDS: dict[str, type[Reveal]] = {
    kind.__name__.lower(): kind for kind in (Counts, Variation, Step, Moments)
}
"""The kinds of reveals, by their names in the file."""

R = TypeVar("R", bound=Reveal)


def lowest_opened(magnitude: Integers) -> tuple[Integers, Integers]:
    """The lowest bits of V and of S_y that are opened, by the magnitude of V (section 6.4).

    From V >= 2^(8 magnitude) follows sqrt(V) >= 2^(4 magnitude), which is n times the standard
    deviation.
    """
    return (
        np.maximum(MAGNITUDE_STEP * (magnitude + 1) - VARIANCE_BITS, 0),
        np.maximum(MAGNITUDE_STEP * magnitude // 2 - MEAN_BITS, 0),
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
        """The reveals of one kind, in order."""
        return (reveal for reveal in self.reveals if isinstance(reveal, kind))

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

    def steps_done(self, features: Index) -> int:
        """How many steps of the search of these features, a batch, were revealed."""
        steps = (
            reveal.step + 1 for reveal in self.all(Step) if np.isin(reveal.features, features).any()
        )
        return max(steps, default=0)

    def signs_opened(self) -> Integers:
        """How many signs of each feature were revealed."""
        signs = np.zeros(self.n_features, dtype=np.int64)
        for reveal in self.all(Step):
            np.add.at(signs, reveal.features, 1)
        return signs

    def has_moments(self, features: Index) -> bool:
        """Whether the moments of these features, a batch, were revealed."""
        return any(np.isin(reveal.features, features).any() for reveal in self.all(Moments))

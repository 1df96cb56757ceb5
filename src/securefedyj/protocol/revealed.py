"""What follows from the reveals of a run alone, whether or not they follow the schedule."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from securefedyj.numerics.arrays import Array, Bools, Integers
from securefedyj.numerics.encoding import choose_encoding
from securefedyj.numerics.search import Bracket, exp_update, finished
from securefedyj.protocol.agreement import Agreement
from securefedyj.protocol.reveals import (
    MAGNITUDE_STEP,
    Counts,
    Final,
    Magnitudes,
    Moments,
    Reveal,
    Step,
    Variation,
    Verdict,
    lowest_opened,
)

R = TypeVar("R", bound=Reveal)


@dataclass
class Revealed:
    """Everything that one run has revealed so far, to all parties alike.

    Arrays have one entry per question (`Agreement.asked`).
    """

    agreement: Agreement
    reveals: list[Reveal] = field(default_factory=list)

    @property
    def n_features(self) -> int:
        """The number of questions."""
        return len(self.agreement.asked)

    def all(self, kind: type[R]) -> Iterator[R]:
        """The reveals of one kind, in order, including those that are part of a final opening."""
        for reveal in self.reveals:
            if isinstance(reveal, kind):
                yield reveal
            elif isinstance(reveal, Final) and kind in (Verdict, Magnitudes, Moments):
                yield from (
                    part for part in reveal.parts(self.measured()) if isinstance(part, kind)
                )

    def counts(self) -> Integers:
        """n of each feature, 0 while it is unknown."""
        n = np.zeros(self.n_features, dtype=np.int64)
        for reveal in self.all(Counts):
            n[reveal.features] = reveal.n
        return n

    def values_of_features(self) -> tuple[int, ...]:
        """n of each feature of the agreement."""
        _, first = np.unique(self.agreement.asked.column, return_index=True)
        return tuple(self.counts()[first].tolist())

    def measured(self) -> Bools:
        """Which questions have moments."""
        return (self.counts() > 0) & ~self.agreement.asked.ranked

    def refused(self) -> dict[int, str]:
        """Why some quantiles were not asked for, by the numbers of their questions."""
        return self.agreement.asked.refused(self.counts(), self.agreement.minimum_values)

    def admitted(self) -> Bools:
        """The quantiles that were asked for."""
        admitted = self.agreement.asked.ranked
        admitted[list(self.refused())] = False
        return admitted

    def constant(self) -> Bools:
        """Features that were not found to vary."""
        constant = np.ones(self.n_features, dtype=bool)
        for reveal in self.all(Variation):
            constant[reveal.features] = ~reveal.varies
        return constant

    def search_state(self) -> Bracket:
        """Where the signs so far have led each feature."""
        limits = self.agreement.asked.domain.limits()
        state = Bracket.start(self.n_features, limits)
        for reveal in self.all(Step):
            where = reveal.features
            state.put(where, exp_update(state.take(where), reveal.delta, limits.take(where)))
        return state

    def optimum(self) -> Array:
        """lambda* of each feature as far as the search has come, or `Domain.at_constants`."""
        nearest = self.agreement.asked.domain.at_constants()
        return np.where(self.constant(), nearest, self.search_state().value)

    def unfinished(self) -> Bools:
        """Questions that are still without an answer; none while n is unknown."""
        known = self.counts() > 0
        unfinished = known & self.admitted() & ~finished(self.search_state())
        unfinished |= self.measured()
        for reveal in self.all(Moments):
            unfinished[reveal.features] = False
        return unfinished

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

        The signs, the comparisons that give the magnitude of V, the bits of V, and those of S_y
        with its sign, from the first that is not 0.
        """
        bits, magnitude, lmbda = self.signs_opened(), self.magnitudes(), self.optimum()
        for reveal in self.all(Magnitudes):
            some = reveal.features
            domain = self.agreement.asked.domain.take(some)
            encoding = choose_encoding(domain, self.counts()[some], lmbda[some])
            np.add.at(bits, some, encoding.v_bits // MAGNITUDE_STEP)
        for moments in self.all(Moments):
            known = np.maximum(magnitude[moments.features], 0)
            V_low, _ = lowest_opened(known, self.agreement.result_bits)
            of_S_y = np.array([1 + abs(S_y).bit_length() for S_y in moments.S_y], dtype=np.int64)
            np.add.at(bits, moments.features, MAGNITUDE_STEP * (known + 1) - V_low + of_S_y)
        return bits

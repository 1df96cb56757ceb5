"""The exact sums of a silo that is known by how often each public point occurs in it.

The counts may be shares of counts: integers of either sign, and several for each point. A row with
the value of a point adds the same integers to a sum each time that it occurs. So the sums are those
of `ArraySilo`, modulo 2^(64 limbs) (docs/protocol.md, section 13).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from securefedyj import kernel
from securefedyj.numerics import reference, wide
from securefedyj.numerics.arrays import Array, Index, Integers
from securefedyj.numerics.encoding import LINEAR, RANKED, Domain, Encoding
from securefedyj.numerics.sums import PADDING, Sums, pairs_of
from securefedyj.numerics.wide import Limbs

LIMBS = 3
"""Of a count."""
# Of the sums of counts and phi.
_PHI_LIMBS = LIMBS + 1
# Digits of a count in the kernel, WEIGHT_DIGITS and WEIGHT_BITS there.
_DIGITS, _BITS = 3, 56
# Rows of the other sums that a point takes as long as.
_ROWS_PER_POINT = 8
_HALF, _LOW_HALF = np.uint64(32), np.uint64(0xFFFF_FFFF)


class WeighedPoints:
    """Points of each feature, each with several counts.

    Where an `ArraySilo` answers with one integer for each pair, these have one for each pair by the
    first counts, then one for each by the second counts, and so on.

    Parameters
    ----------
    domain : Domain
        The agreed bounds.
    points : sequence of arrays
        Those of each feature, in ascending order; none of a feature without counts.
    counts : sequence of arrays of shape (several, 3 limbs, points)
        How often each point of a feature occurs.
    """

    def __init__(self, domain: Domain, points: Sequence[Array], counts: Sequence[Limbs]) -> None:
        self._domain, self._points, self._counts = domain, points, counts
        self.several = len(counts[0])
        room = [-(-len(own) // PADDING) * PADDING for own in points]
        self._start: Integers = np.cumsum([0, *room], dtype=np.int64)
        self._values = np.zeros(self._start[-1])
        self._weights: Integers = np.zeros((self.several, _DIGITS, self._start[-1]), dtype=np.int64)
        phi_scale = np.ldexp(1.0, domain.phi_grid().astype(np.int32))
        self._below: list[Limbs] = []
        self._phi: list[Limbs] = []
        for j, own in enumerate(points):
            some, one = self._places(j), domain.take(np.full(len(own), j))
            if domain.scale[j] != RANKED:
                linear = domain.scale[j] == LINEAR
                self._values[some] = one.scaled(own) if linear else one.logarithm(own)
            self._weights[:, :, some] = _digits(counts[j])
            self._below.append(_running(counts[j].swapaxes(0, 1)))
            phi = np.rint(self._values[some] * phi_scale[j]).astype(np.int64).view(np.uint64)
            self._phi.append(self._weighed(j, wide.resize(phi[None], _PHI_LIMBS)))

    def count(self, features: Index) -> Limbs:
        """How many values each feature has."""
        return _joined([self._below[j][:, :, -1] for j in features.tolist()])

    def totals(self, features: Index) -> Limbs:
        """The counts of all points of some features, one behind the other."""
        return np.concatenate([self._counts[j] for j in features.tolist()], axis=2)

    def ranks(self, feature: Index, points: Array) -> Limbs:
        """How many values of features are at most their points; a row for each node."""
        found = []
        for j, own in zip(feature.tolist(), points.T, strict=True):
            places = np.searchsorted(self._points[j], own, side="right")
            found.append(self._below[j][:1, :, places])
        return _joined(found)

    def phi_sum(self, features: Index, limbs: int) -> Limbs:
        """S_phi of the features, on the grid of their domain."""
        found = _joined([self._phi[j] for j in features.tolist()])
        return wide.resize(found, limbs)

    def sums(self, feature: Index, lmbda: Array, encoding: Encoding, limbs: int) -> Sums:
        """The sums of each pair of a feature and a lambda, in that many limbs."""
        pairs = pairs_of(self._domain.take(feature), feature, lmbda, encoding)
        if (loops := kernel.loops()) is None:
            each = [self._sums_of(pairs[k : k + 1], limbs) for k in range(len(pairs))]
            return Sums(*map(_joined, zip(*each, strict=True)))
        result = np.empty((4, limbs, self.several * len(pairs)), dtype=np.uint64)

        def work(first: int, last: int) -> None:
            public = self._values, self._start, self._weights, self.several
            loops.weighed(*public, pairs, first, last, limbs, result)

        rows = int(np.diff(self._start)[feature].sum()) * _ROWS_PER_POINT
        kernel.shared_out(len(pairs), rows, work)
        return Sums(*result)

    def apart(self, integers: Limbs) -> Limbs:
        """What was answered, by the first counts, by the second ones, and so on."""
        return integers.reshape(len(integers), self.several, -1).swapaxes(0, 1)

    def _places(self, j: int) -> slice:
        """Where the points of a feature are."""
        return slice(self._start[j], self._start[j] + len(self._points[j]))

    def _sums_of(self, pair: Any, limbs: int) -> list[Limbs]:
        """The sums of one pair, from those of every point alone."""
        j = int(pair["feature"][0])
        points = np.repeat(pair, len(self._points[j]))
        points["feature"] = np.arange(len(points))
        rows = self._values[self._places(j), None]
        return [self._weighed(j, own) for own in reference.sums(rows, points, limbs)]

    def _weighed(self, j: int, integers: Limbs) -> Limbs:
        """The sums of integers over the values of a feature, given those of its points."""
        limbs = len(integers)
        counts = [wide.resize(own, limbs)[:, :, None] for own in self._counts[j]]
        return np.hstack([wide.sum_of_products(integers[:, :, None], own) for own in counts])


def _digits(counts: Limbs) -> Integers:
    """Digits of counts, the lowest first; the highest one has the sign."""
    low, middle, high = counts.swapaxes(0, 1)
    mask = np.uint64((1 << _BITS) - 1)
    parts = [low, low >> np.uint64(56) | middle << np.uint64(8)]
    top = middle >> np.uint64(48) | high << np.uint64(16)
    found: Integers = np.stack([*(part & mask for part in parts), top], axis=1).view(np.int64)
    return found


def _joined(found: Sequence[Limbs]) -> Limbs:
    """Integers of shape (limbs, several, ...) of each feature or pair, in order."""
    return np.stack(found, axis=-1).reshape(len(found[0]), -1)


def _running(counts: Limbs) -> Limbs:
    """The sums of the first 0, 1, 2, ... counts."""
    halves = np.zeros((2 * len(counts), counts.shape[1], counts.shape[2] + 1), dtype=np.uint64)
    halves[::2, :, 1:], halves[1::2, :, 1:] = counts & _LOW_HALF, counts >> _HALF
    np.cumsum(halves, axis=2, out=halves)
    for low, high in pairwise(halves):
        high += low >> _HALF
    running: Limbs = (halves[::2] & _LOW_HALF) | (halves[1::2] << _HALF)
    return running

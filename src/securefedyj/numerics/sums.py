"""A silo's exact integer sums S_y, S_d, S_yy, S_yd and S_phi (docs/protocol.md, section 4.4).

Every residual is rounded once to an integer on the grid of the encoding; everything after that is
integer arithmetic. So the sums do not depend on the order or the grouping of the rows: over
silos, over blocks of a file, over threads. Nor do they depend on what computes them: the
kernel, or `reference` without one.

A silo keeps L = log(1+|x|) of every row with the sign of x, and 0 where the value is missing, which
adds nothing to any sum; for Box-Cox, L = log(x/lower) of the agreed lower bound. The kernel does
the same work for every row, whatever its value: so how long an answer takes depends on the number
of rows and on the public encodings alone.
"""

from __future__ import annotations

from functools import partial, reduce
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from securefedyj import kernel
from securefedyj.errors import InputError
from securefedyj.numerics import reference, wide
from securefedyj.numerics.arrays import Array, Index, Integers
from securefedyj.numerics.encoding import (
    DECAY,
    DIGIT,
    RANKED,
    RATIO,
    Domain,
    Encoding,
    kinds,
    sides_of,
)
from securefedyj.numerics.wide import Limbs

# Rows are padded to a multiple of this, the PADDING of kernel.h.
PADDING = 32
# Values that are copied at once to bring columns together.
_COPIED = 1 << 18
# One part of the rows for each thread, where pairs of a feature and a lambda are few.
_FEW_PAIRS = 8
# Rows that the kernel sums at once, less those that parts of the rows may differ by.
_MOST_ROWS = (1 << 24) - PADDING

# The struct pair of kernel.h.
_PAIR = np.dtype(
    [
        *((name, "<i8") for name in ("feature", "grid", "bits_y", "bits_d", "decaying")),
        ("kind", "<i8", 2),
        ("skipped", "<i8", 2),
        ("u", "<f8", 2),
    ]
)


class Sums(NamedTuple):
    """The sums of pairs of a feature and a lambda, each on the grid of its encoding."""

    y: Limbs
    d: Limbs
    yy: Limbs
    yd: Limbs


class Silo(Protocol):
    """A silo's data, known by exact sums over its rows (docs/protocol.md, section 4)."""

    @property
    def count(self) -> Integers:
        """How many values each feature has here."""

    def phi_sum(self, features: Index, limbs: int) -> Limbs:
        """S_phi of the features, on the grid of their domain."""

    def sums(self, feature: Index, lmbda: Array, encoding: Encoding, limbs: int) -> Sums:
        """The sums of each pair of a feature and a lambda, in that many limbs."""

    def ranks(self, feature: Index, points: Array) -> Integers:
        """How many values of RANKED features are at most their points; a row for each node."""


class OutOfBounds(InputError):
    """A value outside the bounds that were agreed for its feature."""


class ArraySilo:
    """The values of one silo, arranged for many evaluations of their sums.

    Parameters
    ----------
    X : array of shape (n_rows, n_columns)
        The rows of the silo; NaN is missing.
    domain : Domain
        The agreed bounds. A value outside raises `OutOfBounds`.
    names : list of str
        Names of the features, for that error.
    columns : array of int, optional
        The column of each feature, where several share one.
    """

    def __init__(
        self, X: ArrayLike, domain: Domain, names: list[str], columns: Index | None = None
    ) -> None:
        # Logarithms of narrower numbers would have other bits.
        table = np.require(X, np.float64, ["C", "A"])
        if columns is not None:
            table = np.ascontiguousarray(table[:, columns])
        rows, features = table.shape
        self._domain, self._row = domain, _rows(domain, columns)
        padding = PADDING if kernel.loops() else reference.ROWS
        room = max(1, -(-rows // padding)) * padding
        self._values = np.zeros((len(np.unique(self._row)), room))
        self._phi: Integers = np.zeros((features, 2), dtype=np.int64)
        self.count: Integers = np.zeros(features, dtype=np.int64)
        scale = np.ldexp(1.0, domain.phi_grid().astype(np.int32))
        others = np.flatnonzero(domain.scale > RATIO)
        step = max(1, _COPIED // max(rows, 1))
        starts = np.unique([*range(0, features, step), *others, *others + 1])
        pieces = [slice(a, b) for a, b in pairwise([*starts[starts < features], features])]

        def fill(some: slice) -> bool:
            if domain.scale[some.start] <= RATIO:
                return self._fill(table, some, scale[some])
            return self._fill_other(table[:, some.start], some.start)

        if any(kernel.in_threads(fill, pieces)):
            refuse_outside(values_outside(table, domain), domain, names)

    def _fill_other(self, x: Array, j: int) -> bool:
        """Arrange a feature without logarithms; return whether a value is outside its bounds."""
        values, known = self._values[self._row[j]], x == x
        self.count[j] = np.count_nonzero(known)
        if self._domain.scale[j] == RANKED:
            values[len(x) :] = np.inf
            values[: len(x)] = np.where(known, x, np.inf)
        else:
            domain = self._domain.take(np.array([j]))
            values[: len(x)] = np.where(known, domain.scaled(x), 0.0)
        return bool(np.any((self._domain.lower[j] > x) | (self._domain.upper[j] < x)))

    def _fill(self, table: Array, some: slice, scale: Array) -> bool:
        """Arrange some columns; return whether a value is outside its bounds."""
        # A domain that came from another process may lie anywhere in memory.
        lower, upper, least = np.array([*self._domain[:2], self._domain.least])[:, some]
        if (loops := kernel.loops()) is None:
            X = table[:, some].T
            outside = bool(np.any((lower[:, None] > X) | (upper[:, None] < X)))
            if not outside:
                L, phi = reference.arranged(X, least, scale)
                self._values[self._row[some], : X.shape[1]], self._phi[some] = L, phi
                self.count[some] = np.count_nonzero(X == X, axis=1)
            return outside
        rows, features = len(table), some.stop - some.start
        X = np.empty((features, rows))
        loops.transpose(table, table.shape[1], some.start, features, rows, X, rows)
        first = int(self._row[some.start])
        values = self._values[first : first + features]
        count, phi = self.count[some], self._phi[some]
        room = values.shape[1]
        public = lower, upper, least, scale
        return bool(loops.arrange(X, features, rows, *public, values, room, count, phi))

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the values take as they are arranged."""
        return self._values.nbytes + self._phi.nbytes + self.count.nbytes

    def ranks(self, feature: Index, points: Array) -> Integers:
        nodes, room = len(points), self._values.shape[1]
        rows, points = np.tile(self._row[feature], nodes), np.ascontiguousarray(points)
        counts = np.empty(points.shape, dtype=np.int64)
        if (loops := kernel.loops()) is None:
            for k, (row, point) in enumerate(zip(rows, points.ravel(), strict=True)):
                counts.flat[k] = np.count_nonzero(self._values[row] <= point)
            return counts

        def work(first: int, last: int) -> None:
            loops.ranks(self._values, room, rows, points, first, last, counts)

        kernel.shared_out(len(rows), room * len(rows), work)
        return counts

    def phi_sum(self, features: Index, limbs: int) -> Limbs:
        digits = np.ascontiguousarray(self._phi[features].T)
        return wide.from_digits(digits, reference.PHI_DIGIT, limbs)

    def sums(self, feature: Index, lmbda: Array, encoding: Encoding, limbs: int) -> Sums:
        pairs = pairs_of(self._domain.take(feature), self._row[feature], lmbda, encoding)
        if (loops := kernel.loops()) is None:
            return Sums(*reference.sums(self._values, pairs, limbs))
        rows, values = self._values.shape[1], self._values.shape[1] * len(pairs)
        parts = kernel.threads() if len(pairs) < _FEW_PAIRS and values > 1 << 17 else 1
        parts = max(parts, -(-rows // _MOST_ROWS))
        results = np.empty((parts, 4, limbs, len(pairs)), dtype=np.uint64)

        def work(part: int, first: int, last: int) -> None:
            blocks = rows // PADDING
            begin, end = (blocks * k // parts * PADDING for k in (part, part + 1))
            asked = pairs, first, last, limbs, results[part]
            loops.sums(self._values, rows, begin, end, *asked)

        if parts == 1:
            kernel.shared_out(len(pairs), values, partial(work, 0))
        else:
            kernel.in_threads(lambda part: work(part, 0, len(pairs)), range(parts))
        return Sums(*(reduce(wide.add, several) for several in zip(*results, strict=True)))


def _rows(domain: Domain, columns: Index | None) -> Index:
    """The row of each feature's values: those that are counted in one column share theirs."""
    first, ranked = np.arange(len(domain.scale)), np.flatnonzero(domain.scale == RANKED)
    if columns is not None:
        _, at, back = np.unique(columns[ranked], return_index=True, return_inverse=True)
        first[ranked] = ranked[at[back]]
    return np.unique(first, return_inverse=True)[1]


def pairs_of(domain: Domain, feature: Index, lmbda: Array, encoding: Encoding) -> Any:
    """What the loops take for each pair of a feature and a lambda; all of it is public."""
    L, u = sides_of(domain, lmbda)
    sides = np.array([encoding.positive, encoding.negative])  # (side, bits, pair)
    kind, bits, skipped = kinds(L, u), sides[:, :2], sides[:, 2] // DIGIT * DIGIT
    pairs = np.zeros(len(feature), dtype=_PAIR)
    pairs["decaying"] = (kind[0] == DECAY) * 1 - (kind[1] == DECAY)  # never both
    # A side that no value can be on takes what the other one takes.
    for own, other in ((0, 1), (1, 0)):
        empty = L[own] == 0
        for part in (u, kind, bits, skipped):
            part[own][..., empty] = part[other][..., empty]
    pairs["feature"], pairs["grid"] = feature, encoding.grid
    pairs["bits_y"], pairs["bits_d"] = bits.max(axis=0)
    pairs["kind"], pairs["skipped"], pairs["u"] = kind.T, skipped.T, u.T
    return pairs


def values_outside(X: Array, domain: Domain) -> Integers:
    """How many values of each feature are outside its bounds."""
    outside = (domain.lower > X) | (domain.upper < X) | np.isinf(X)
    count: Integers = np.count_nonzero(outside, axis=0)
    return count


def refuse_outside(count: Integers, domain: Domain, names: list[str]) -> None:
    """Raise `OutOfBounds` for the first feature that has such values."""
    if count.any():
        j = int(np.flatnonzero(count)[0])
        raise OutOfBounds(
            "SFY-NUM-009",
            f"feature {names[j]!r} has {int(count[j])} value(s) outside its agreed "
            f"bounds [{domain.lower[j]:g}, {domain.upper[j]:g}]. Nothing was sent. Correct the "
            "values, or agree on wider bounds with all silos.",
        )

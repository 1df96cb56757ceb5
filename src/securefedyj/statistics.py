"""A silo's exact integer sums S_y, S_d, S_yy, S_yd and S_phi.

Every residual is rounded once to an integer on the grid of the plan; everything after that is
integer arithmetic. So the sums do not depend on the order or the grouping of the rows: over
silos, over blocks of a file, over threads.

How. A residual is split into digits of 22 bits, by steps that are exact in float64, and one
matrix product per row sums all products of two digits. A row has 2048 values at most, so each
entry is an integer of at most 2^(21 + 21 + 11) = 2^53 and exact in float64 too, in whatever
order the product adds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from securefedyj import limbs as wide
from securefedyj.elementary import Array, log1p, phi12, reduce_exponent
from securefedyj.limbs import Limbs
from securefedyj.plan import Domain, Integers, Plan, decaying, near_one

Index = NDArray[np.intp]

_DIGIT = 22
_ROW = 2048  # values in a row
_BLOCK = 12288  # values in a block of rows: large enough to outweigh the calls, small for the cache


# On a decaying side, w/u cannot tell values of smaller |u| L from each other; y itself can.
_SMALL = 2.0**-6


class OutOfBounds(ValueError):
    """A value outside the bounds that were agreed for its feature."""


class Sums(NamedTuple):
    """The sums of pairs of a feature and a lambda, each on the grid of its plan."""

    y: Limbs
    d: Limbs
    yy: Limbs
    yd: Limbs


class _Shelf(NamedTuple):
    """Rows of L = log(1+|x|), each of one feature and one sign, padded to the same length."""

    L: Array
    held: Integers


class SiloStatistics:
    """The values of one silo, arranged for many evaluations of their sums.

    Parameters
    ----------
    X : array of shape (n_rows, n_features)
        The rows of the silo; NaN is missing.
    domain : Domain
        The agreed bounds. A value outside raises `OutOfBounds`.
    names : list of str
        Names of the features, for that error.
    """

    def __init__(self, X: Array, domain: Domain, names: list[str]) -> None:
        _check_bounds(X, domain, names)
        self._domain = domain
        self.n_features = X.shape[1]
        self.count: Integers = len(X) - np.count_nonzero(np.isnan(X), axis=0)
        rows = sorted(_rows_by_sign(X), key=lambda row: len(row[2]))
        self._feature: Index = np.array([row[0] for row in rows], dtype=np.intp)
        self._sign: Integers = np.array([row[1] for row in rows], dtype=np.int64)
        self._shelves = list(_shelve([row[2] for row in rows]))
        heights = [len(shelf.L) for shelf in self._shelves]
        self._shelf: Index = np.repeat(np.arange(len(heights)), heights)
        self._place: Index = np.concatenate([np.arange(h) for h in [*heights, 0]])
        # The rows of feature j are order[first[j]:first[j + 1]].
        self._order: Index = np.argsort(self._feature, kind="stable")
        self._first: Index = np.searchsorted(
            self._feature[self._order], np.arange(self.n_features + 1)
        )
        self._phi = self._phi_digits()

    def phi_sum(self, features: Index, limbs: int) -> Limbs:
        """S_phi of the features, on the grid of their domain."""
        return wide.from_digits(self._phi[:, features], 31, limbs)

    def _phi_digits(self) -> Integers:
        """S_phi of all features in two digits of 31 bits, which leaves room for 2^31 values."""
        digits = np.zeros((2, self.n_features), dtype=np.int64)
        scale = np.exp2(self._domain.phi_grid().astype(np.float64))
        for number, shelf in enumerate(self._shelves):
            rows = self._shelf == number
            integers = np.rint(shelf.L * scale[self._feature[rows], None]).astype(np.int64)
            halves = np.stack([integers & (2**31 - 1), integers >> 31]).sum(axis=2)
            np.add.at(digits.T, self._feature[rows], (self._sign[rows] * halves).T)
        return digits

    def sums(self, feature: Index, lmbda: Array, plan: Plan, limbs: int) -> Sums:
        """The sums of each pair of a feature and a lambda, in that many limbs."""
        plain, shifted = ({sign: _Totals(len(feature), plan) for sign in (+1, -1)} for _ in "ab")
        for task in self._tasks(feature, lmbda, plan):
            (shifted if task.far else plain)[task.sign].add(task)
        positive, negative = (
            _sum(plain[sign].sums(limbs), shifted[sign].sums_with_constants(u, plan, limbs))
            for sign, u in ((+1, lmbda), (-1, 2 - lmbda))
        )
        if negative is None:
            return positive or Sums(*(wide.zeros(limbs, len(feature)) for _ in Sums._fields))
        if positive is None:
            positive = Sums(*(wide.zeros(limbs, len(feature)) for _ in Sums._fields))
        # On the negative side y = -Y.
        return Sums(
            wide.subtract(positive.y, negative.y),
            wide.add(positive.d, negative.d),
            wide.add(positive.yy, negative.yy),
            wide.subtract(positive.yd, negative.yd),
        )

    def _tasks(self, feature: Index, lmbda: Array, plan: Plan) -> Iterator[_Task]:
        """Blocks of rows, each with its pair, that one kind of arithmetic serves."""
        held = self._first[feature + 1] - self._first[feature]
        pair = np.repeat(np.arange(len(feature)), held)
        row = self._order[
            np.arange(len(pair)) + np.repeat(self._first[feature] - np.cumsum(held) + held, held)
        ]
        sign = self._sign[row]
        domain = self._domain.take(feature[pair])
        u = np.where(sign > 0, lmbda[pair], 2 - lmbda[pair])
        L_max = np.where(sign > 0, domain.L_positive, domain.L_negative)
        kind = np.where(near_one(L_max, u), _NEAR_ONE, _GENERAL)
        kind[decaying(L_max, u)] = _DECAYING
        y_bits, d_bits, spare = (
            np.where(sign > 0, a[pair], b[pair])
            for a, b in zip(plan.positive, plan.negative, strict=True)
        )
        skipped = spare // _DIGIT
        # A side without room has but zeros, which take a digit, too.
        y_digits, d_digits = (np.maximum(_digits(b) - skipped, 1) for b in (y_bits, d_bits))
        keys = np.stack([kind, sign, self._shelf[row], y_digits, d_digits, skipped])
        for (kind_, sign_, number, ny, nd, skip), members in _grouped(keys):
            # On a decaying side y is w/u beside a constant, or for small L not beside one.
            regimes = (_NEAR_ONE, _DECAYING) if kind_ == _DECAYING else (kind_,)
            shelf = self._shelves[number]
            step = max(1, _BLOCK // shelf.L.shape[1])
            for first in range(0, len(members), step):
                task = members[first : first + step]
                place = self._place[row[task]]
                for regime in regimes:
                    yield _Task(
                        sign_,
                        _RESIDUALS[regime],
                        kind_ == _DECAYING,
                        regime == _DECAYING,
                        pair[task],
                        shelf.L[place],
                        shelf.held[place],
                        u[task],
                        plan.grid[pair[task]] - _DIGIT * skip,
                        (ny, nd, skip),
                    )


class _Task(NamedTuple):
    sign: int
    residuals: Callable[[Array, Array], tuple[Array, Array]]
    mixed: bool  # whether only some of the values count: those near L = 0, or
    far: bool  # those far from it, which have a constant
    pair: Index
    L: Array
    held: Integers
    u: Array
    grid: Integers
    digits: tuple[int, int, int]  # of y, of d, and lowest ones that stay zero

    def chosen(self) -> NDArray[np.bool_] | None:
        """Which values of the rows count; None if all do."""
        columns = self.L.shape[1]
        mask = None
        if np.any(self.held < columns):
            mask = np.arange(columns) < self.held[:, None]
        if self.mixed:
            apart = (np.abs(self.u[:, None]) * self.L <= _SMALL) != self.far
            mask = apart if mask is None else mask & apart
        return mask

    def gram(self, mask: NDArray[np.bool_] | None, scratch: Array) -> Integers:
        """Sums of the digits of r_y and r_d and of their products, for each row.

        Index 0 stands for the number one, then come the digits of r_y, then those of r_d,
        lowest first.
        """
        rows, columns = self.L.shape
        L = self.L if mask is None else np.where(mask, self.L, 0.0)
        y, d = self.residuals(L, self.u[:, None])
        if mask is not None:
            y *= mask
            d *= mask
        ny, nd, _ = self.digits
        shape = (rows, 1 + ny + nd, columns)
        parts = scratch[: shape[0] * shape[1] * shape[2]].reshape(shape)
        parts[:, 0] = 1.0
        _split(y, self.grid, parts[:, 1 : 1 + ny])
        _split(d, self.grid, parts[:, 1 + ny :])
        products: Array = parts[:, : 1 + ny] @ parts.transpose(0, 2, 1)
        return products.astype(np.int64)


class _Totals:
    """Sums over the rows of one side of each pair, as digits of 22 bits, lowest first."""

    def __init__(self, pairs: int, plan: Plan) -> None:
        ny, nd = (
            int(_digits(np.maximum(a, b)).max())
            for a, b in list(zip(plan.positive, plan.negative, strict=True))[:2]
        )
        widths = (ny, nd, 2 * ny, ny + nd)
        self.y, self.d, self.yy, self.yd = (np.zeros((pairs, w), np.int64) for w in widths)
        self.count = np.zeros(pairs, np.int64)
        self._additions = 0
        self._scratch = np.empty(_BLOCK * (1 + ny + nd))

    def add(self, task: _Task) -> None:
        mask = task.chosen()
        held = task.held if mask is None else np.count_nonzero(mask, axis=1)
        if not held.any():
            return
        (ny, nd, skip), gram = task.digits, task.gram(mask, self._scratch)
        np.add.at(self.count, task.pair, held)
        np.add.at(self.y[:, skip : skip + ny], task.pair, gram[:, 0, 1 : 1 + ny])
        np.add.at(self.d[:, skip : skip + nd], task.pair, gram[:, 0, 1 + ny :])
        for a in range(ny):
            low = 2 * skip + a
            np.add.at(self.yy[:, low : low + ny], task.pair, gram[:, 1 + a, 1 : 1 + ny])
            np.add.at(self.yd[:, low : low + nd], task.pair, gram[:, 1 + a, 1 + ny :])
        # What one row adds to a digit is below 2^58: carry before an int64 could overflow.
        self._additions += int(np.bincount(task.pair).max())
        if self._additions >= 16:
            self._carry()

    def _carry(self) -> None:
        self._additions = 0
        for digits in (self.y, self.d, self.yy, self.yd):
            for j in range(digits.shape[1] - 1):
                carry = digits[:, j] >> _DIGIT
                digits[:, j] -= carry << _DIGIT
                digits[:, j + 1] += carry

    def sums(self, limbs: int) -> Sums | None:
        """The sums as wide integers; None if there were no values."""
        if not self.count.any():
            return None
        # One conversion of all four, side by side: many small ones would cost more.
        parts = (self.y, self.d, self.yy, self.yd)
        pairs = len(self.count)
        digits = np.zeros((max(part.shape[1] for part in parts), 4 * pairs), dtype=np.int64)
        for k, part in enumerate(parts):
            digits[: part.shape[1], k * pairs : (k + 1) * pairs] = part.T
        return Sums(*np.split(wide.from_digits(digits, _DIGIT, limbs), 4, axis=1))

    def sums_with_constants(self, u: Array, plan: Plan, limbs: int) -> Sums | None:
        """The sums of y = c_y + r_y and d = c_d + r_d from those of the residuals."""
        r = self.sums(limbs)
        if r is None:
            return None
        where = np.flatnonzero(self.count)
        inverse = 1 / np.abs(u[where])
        c_y, c_d = (
            _on_grid(constant, plan.grid[where], limbs) for constant in (inverse, inverse * inverse)
        )
        n = wide.from_digits(self.count[None, where], 62, limbs)
        r_y, r_d, r_yy, r_yd = (part[:, where] for part in r)
        n_y, n_d = wide.multiply(n, c_y), wide.multiply(n, c_d)
        both = wide.add(r_y, r_y)
        r.y[:, where] = wide.add(r_y, n_y)
        r.d[:, where] = wide.add(r_d, n_d)
        r.yy[:, where] = wide.add(r_yy, wide.multiply(c_y, wide.add(both, n_y)))
        r.yd[:, where] = wide.add(
            r_yd, wide.add(wide.multiply(c_y, wide.add(r_d, n_d)), wide.multiply(c_d, r_y))
        )
        return r


def _sum(a: Sums | None, b: Sums | None) -> Sums | None:
    if a is None or b is None:
        return a or b
    return Sums(*map(wide.add, a, b))


def _near_one(L: Array, u: Array) -> tuple[Array, Array]:
    """y = L phi_1(z), d = L^2 (phi_1 - phi_2)(z) where w = e^z is near 1 for all values."""
    phi1, phi2 = phi12(u * L)
    d = phi1 - phi2
    phi1 *= L
    d *= L
    d *= L
    return phi1, d


def _general(L: Array, u: Array) -> tuple[Array, Array]:
    """y = (w - 1)/u, d = (L w - y)/u, and the series of d where these would cancel."""
    power, r = reduce_exponent(u * L)
    phi1, phi2 = phi12(r)
    near = power == 1.0
    series = phi1 - phi2
    series *= L
    series *= L
    # expm1(z) = 2^n r phi_1(r) + (2^n - 1), which is r phi_1(r) itself where n = 0.
    phi1 *= r
    phi1 *= power
    power -= 1.0
    phi1 += power
    inverse = 1 / u
    y = phi1 * inverse
    phi1 += 1.0
    phi1 *= L
    phi1 -= y
    phi1 *= inverse
    np.copyto(phi1, series, where=near)
    return y, phi1


def _decaying(L: Array, u: Array) -> tuple[Array, Array]:
    """r_y = w/u, r_d = (w/u)(L - 1/u): what is left of y and d when they near their limits."""
    power, r = reduce_exponent(u * L)
    phi1, _ = phi12(r)
    phi1 *= r
    phi1 += 1.0
    phi1 *= power
    inverse = 1 / u
    phi1 *= inverse
    return phi1, phi1 * (L - inverse)


_NEAR_ONE, _GENERAL, _DECAYING = range(3)
_RESIDUALS = (_near_one, _general, _decaying)


def _digits(bits: Integers) -> Integers:
    """How many signed digits of 22 bits hold a number of so many bits and its sign."""
    return -(-(bits + 1) // _DIGIT)


def _split(values: Array, grid: Integers, digits: Array) -> None:
    """Write the digits of values * 2^grid, rounded to an integer, lowest first; uses up values.

    Every step is exact: the difference to the nearest integer, and products by powers of two.
    """
    count = digits.shape[1]
    values *= np.exp2((grid - _DIGIT * (count - 1)).astype(np.float64))[:, None]
    for j in reversed(range(count)):
        np.rint(values, out=digits[:, j])
        if j:
            values -= digits[:, j]
            values *= 2.0**_DIGIT


def _on_grid(constants: Array, grid: Integers, limbs: int) -> Limbs:
    count = int(_digits(grid + 3).max())
    digits = np.empty((len(constants), count, 1))
    _split(constants[:, None].copy(), grid, digits)
    return wide.from_digits(digits[:, :, 0].T.astype(np.int64), _DIGIT, limbs)


def _grouped(keys: Integers) -> Iterator[tuple[list[int], Index]]:
    """Each distinct column of keys with the positions where it stands."""
    order = np.lexsort(keys)
    change = np.any(keys[:, order[1:]] != keys[:, order[:-1]], axis=0)
    for members in np.split(order, np.flatnonzero(change) + 1):
        if len(members):
            yield keys[:, members[0]].tolist(), members


def _rows_by_sign(X: Array) -> Iterator[tuple[int, int, Array]]:
    """Rows (feature, sign, L) of at most 2048 values of one feature and sign."""
    columns = max(1, _BLOCK // max(len(X), 1))
    for left in range(0, X.shape[1], columns):
        values = np.ascontiguousarray(X[:, left : left + columns].T)
        for j, (x, L) in enumerate(zip(values, log1p(np.abs(values)), strict=True), start=left):
            for sign, chosen in ((+1, x >= 0), (-1, x < 0)):
                side = L[chosen]
                for first in range(0, len(side), _ROW):
                    yield j, sign, side[first : first + _ROW]


def _shelve(rows: list[Array]) -> Iterator[_Shelf]:
    """Rows that come sorted by length, padded to the same length in groups of similar length."""
    first = 0
    while first < len(rows):
        limit = len(rows[first]) * 9 // 8
        last = first
        while last < len(rows) and len(rows[last]) <= limit:
            last += 1
        members = rows[first:last]
        L = np.zeros((len(members), len(members[-1])))
        for place, row in zip(L, members, strict=True):
            place[: len(row)] = row
        yield _Shelf(L, np.array([len(row) for row in members]))
        first = last


def _check_bounds(X: Array, domain: Domain, names: list[str]) -> None:
    """Raise `OutOfBounds` for the first feature with a value outside its bounds."""
    outside = (domain.lower > X) | (domain.upper < X) | np.isinf(X)
    if outside.any():
        j = int(np.flatnonzero(outside.any(axis=0))[0])
        raise OutOfBounds(
            f"feature {names[j]!r} has {int(outside[:, j].sum())} value(s) outside its agreed "
            f"bounds [{domain.lower[j]:g}, {domain.upper[j]:g}]. Nothing was sent. Correct the "
            "values, or agree on wider bounds with all silos."
        )

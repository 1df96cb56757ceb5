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

import math
from collections.abc import Iterator
from itertools import pairwise
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
_PAIRS = 4096  # pairs of a feature and a lambda at once
# What one row adds to a digit is below 2^58: carry before the sums of four totals overflow.
_ROWS_BEFORE_CARRY = 4


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
        rows = sorted(_rows_by_sign(X), key=lambda row: len(row.L))
        self._feature: Index = np.array([row.feature for row in rows], dtype=np.intp)
        self._sign: Integers = np.array([row.sign for row in rows], dtype=np.int64)
        self._number: Integers = np.array([row.number for row in rows], dtype=np.int64)
        self._shelves = list(_shelve([row.L for row in rows]))
        heights = [len(shelf) for shelf in self._shelves]
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
            integers = np.rint(shelf * scale[self._feature[rows], None]).astype(np.int64)
            halves = np.stack([integers & (2**31 - 1), integers >> 31]).sum(axis=2)
            np.add.at(digits.T, self._feature[rows], (self._sign[rows] * halves).T)
        return digits

    def sums(self, feature: Index, lmbda: Array, plan: Plan, limbs: int) -> Sums:
        """The sums of each pair of a feature and a lambda, in that many limbs."""
        pieces = [
            self._sums(feature[some], lmbda[some], plan.take(some), limbs)
            for some in _pieces(len(feature), _PAIRS)
        ]
        return Sums(*(np.concatenate(parts, axis=1) for parts in zip(*pieces, strict=True)))

    def _sums(self, feature: Index, lmbda: Array, plan: Plan, limbs: int) -> Sums:
        sides = {+1: _Side(lmbda, plan), -1: _Side(2 - lmbda, plan)}
        carried = 0
        for group in self._groups(feature, lmbda, plan):
            if group.number >= carried + _ROWS_BEFORE_CARRY:
                carried = group.number
                for side in sides.values():
                    side.carry()
            sides[group.sign].add(group)
        positive, negative = sides[+1].total(), sides[-1].total()
        # On the negative side y = -Y.
        sums = (
            positive.y - negative.y,
            positive.d + negative.d,
            positive.yy + negative.yy,
            positive.yd - negative.yd,
        )
        # One conversion of all four, side by side: many small ones would cost more.
        digits = np.zeros((max(map(len, sums)), len(sums), len(feature)), dtype=np.int64)
        for k, part in enumerate(sums):
            digits[: len(part), k] = part
        joined = wide.from_digits(digits.reshape(len(digits), -1), _DIGIT, limbs)
        return Sums(*np.split(joined, len(sums), axis=1))

    def _groups(self, feature: Index, lmbda: Array, plan: Plan) -> Iterator[_Group]:
        """Rows, each with its pair, that one kind of arithmetic serves; a pair at most once."""
        held = self._first[feature + 1] - self._first[feature]
        pair = np.repeat(np.arange(len(feature)), held)
        row = self._order[
            np.arange(len(pair)) + np.repeat(self._first[feature] - np.cumsum(held) + held, held)
        ]
        sign = self._sign[row]
        u, L_max, grid = (
            np.where(sign > 0, positive[pair], negative[pair])
            for positive, negative in (
                (lmbda, 2 - lmbda),
                (self._domain.L_positive[feature], self._domain.L_negative[feature]),
                (plan.grid, plan.grid),
            )
        )
        y_bits, d_bits, spare = (
            np.where(sign > 0, a[pair], b[pair])
            for a, b in zip(plan.positive, plan.negative, strict=True)
        )
        kind = np.where(near_one(L_max, u), _NEAR_ONE, _GENERAL)
        kind[decaying(L_max, u)] = _DECAYING
        skipped = spare // _DIGIT
        # A side without room has but zeros, which take a digit, too.
        y_digits, d_digits = (np.maximum(_digits(b) - skipped, 1) for b in (y_bits, d_bits))
        keys = np.stack(
            [y_digits, d_digits, skipped, kind, sign, self._shelf[row], self._number[row]]
        )
        for (ny, nd, skip, kind_, sign_, shelf, number), members in _grouped(keys):
            yield _Group(
                number,
                sign_,
                kind_,
                pair[members],
                self._shelves[shelf],
                self._place[row[members]],
                u[members],
                grid[members] - _DIGIT * skip,
                (ny, nd, skip),
            )


class _Group(NamedTuple):
    number: int  # of the rows within their feature and sign
    sign: int
    kind: int
    pair: Index
    shelf: Array
    place: Index  # of the rows on the shelf
    u: Array
    grid: Integers
    digits: tuple[int, int, int]  # of y, of d, and lowest ones that stay zero


class _Totals:
    """Sums over rows of each pair, as digits of 22 bits: arrays (digits, pairs), lowest first."""

    def __init__(self, pairs: int, ny: int, nd: int) -> None:
        # Two digits more than one product takes make room for the sum of 2^31.
        heights = (ny + 2, nd + 2, 2 * ny + 2, ny + nd + 2)
        self.y, self.d, self.yy, self.yd = (np.zeros((h, pairs), np.int64) for h in heights)

    def add(self, gram: Array, pair: Index, digits: tuple[int, int, int]) -> None:
        """Add the sums of `_gram` of one row of each of these pairs."""
        ny, nd, skip = digits
        products = np.ascontiguousarray(gram.astype(np.int64).transpose(1, 2, 0))
        yy = np.zeros((2 * ny - 1, len(pair)), np.int64)
        yd = np.zeros((ny + nd - 1, len(pair)), np.int64)
        for a in range(ny):
            yy[a : a + ny] += products[1 + a, 1 : 1 + ny]
            yd[a : a + nd] += products[1 + a, 1 + ny :]
        y, d = products[0, 1 : 1 + ny], products[0, 1 + ny :]
        everywhere = len(pair) == self.y.shape[1]
        for total, low, part in (
            (self.y, skip, y),
            (self.d, skip, d),
            (self.yy, 2 * skip, yy),
            (self.yd, 2 * skip, yd),
        ):
            total[low : low + len(part), slice(None) if everywhere else pair] += part

    def carry(self) -> None:
        for digits in (self.y, self.d, self.yy, self.yd):
            _carry(digits)


class _Side:
    """The sums of one side of each pair: of plain values, and of residuals beside a constant."""

    def __init__(self, u: Array, plan: Plan) -> None:
        self._u, self._grid = u, plan.grid
        # The constants 1/|u| <= 2 and 1/u^2 <= 4 of a decaying side take grid + 3 bits.
        self._heights = tuple(
            int(_digits(np.maximum(np.maximum(a, b), plan.grid + 3)).max())
            for a, b in list(zip(plan.positive, plan.negative, strict=True))[:2]
        )
        self._plain = _Totals(len(u), *self._heights)
        self._residual: _Totals | None = None
        self._count = np.zeros(len(u), np.int64)  # of the residuals

    def add(self, group: _Group) -> None:
        """Add a row to each of the group's pairs."""
        ny, nd, _ = group.digits
        columns = group.shelf.shape[1]
        scratch = np.empty((1 + ny + nd) * max(columns, _BLOCK))
        gram = np.empty((len(group.pair), 1 + ny, 1 + ny + nd))
        near_gram = np.zeros_like(gram) if group.kind == _DECAYING else None
        for block in _pieces(len(group.pair), max(1, _BLOCK // columns)):
            L, u = group.shelf[group.place[block]], group.u[block, None]
            y, d = _RESIDUALS[group.kind](L, u)
            if near_gram is not None:
                # The values near L = 0, if any, are the first ones, and are plain.
                near = _count_near(L, u)
                self._count[group.pair[block]] += columns - near
                width = int(near.max())
                chosen = np.arange(width) < near[:, None]
                y[:, :width] *= ~chosen
                d[:, :width] *= ~chosen
                L = L[:, :width] * chosen
                if L.any():
                    near_gram[block] = _gram(
                        *_near_one(L, u), group.grid[block], group.digits, scratch
                    )
            gram[block] = _gram(y, d, group.grid[block], group.digits, scratch)
        if near_gram is None:
            self._plain.add(gram, group.pair, group.digits)
            return
        self._plain.add(near_gram, group.pair, group.digits)
        if self._residual is None:
            self._residual = _Totals(len(self._u), *self._heights)
        self._residual.add(gram, group.pair, group.digits)

    def carry(self) -> None:
        self._plain.carry()
        if self._residual is not None:
            self._residual.carry()

    def total(self) -> _Totals:
        """The sums of all y and d, those with a constant being c_y + r_y and c_d + r_d."""
        total, r = self._plain, self._residual
        if r is None:
            return total
        inverse = 1 / np.where(self._count, np.abs(self._u), 1.0)
        c_y, c_d = (_on_grid(constant, self._grid) for constant in (inverse, inverse * inverse))
        n_c_y = self._count * c_y
        _carry(r.y)
        twice = 2 * r.y
        twice[: len(c_y)] += n_c_y
        _carry(twice)
        r.d[: len(c_d)] += self._count * c_d
        _carry(r.d)
        _add_product(r.yy, c_y, twice)
        _add_product(r.yd, c_y, r.d)
        _add_product(r.yd, c_d, r.y)
        r.y[: len(c_y)] += n_c_y
        for part, residual in zip(
            (total.y, total.d, total.yy, total.yd), (r.y, r.d, r.yy, r.yd), strict=True
        ):
            part += residual
        return total


def _count_near(L: Array, u: Array) -> Integers:
    """How many values of each row have |u| L <= _SMALL; they are its first ones."""
    slope, width = np.abs(u), 8
    while width < L.shape[1] and np.any(slope[:, 0] * L[:, width - 1] <= _SMALL):
        width *= 8
    counts: Integers = np.count_nonzero(slope * L[:, :width] <= _SMALL, axis=1)
    return counts


def _gram(
    y: Array, d: Array, grid: Integers, digits: tuple[int, int, int], scratch: Array
) -> Array:
    """Sums of the digits of y and d and of their products, for each row; uses up y and d.

    Index 0 stands for the number one, then come the digits of y, then those of d, lowest first.
    """
    ny, nd, _ = digits
    shape = (1 + ny + nd, *y.shape)
    parts = scratch[: math.prod(shape)].reshape(shape)
    parts[0] = 1.0
    _split(y, grid, parts[1 : 1 + ny])
    _split(d, grid, parts[1 + ny :])
    products: Array = parts[: 1 + ny].transpose(1, 0, 2) @ parts.transpose(1, 2, 0)
    return products


def _carry(digits: Integers) -> None:
    """Leave 22 bits in each digit but the highest."""
    for low, high in pairwise(digits):
        carry = low >> _DIGIT
        high += carry
        low -= carry << _DIGIT


def _add_product(total: Integers, a: Integers, b: Integers) -> None:
    for j, digit in enumerate(a):
        total[j : j + len(b)] += digit * b


def _pieces(length: int, size: int) -> Iterator[slice]:
    """Slices of at most that size that make up the whole, which may be empty."""
    for first in range(0, max(length, 1), size):
        yield slice(first, first + size)


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
    values *= np.exp2((grid - _DIGIT * (len(digits) - 1)).astype(np.float64))[:, None]
    for digit in digits[:0:-1]:
        np.rint(values, out=digit)
        values -= digit
        values *= 2.0**_DIGIT
    np.rint(values, out=digits[0])


def _on_grid(constants: Array, grid: Integers) -> Integers:
    """The digits of constants * 2^grid, rounded to an integer."""
    digits = np.empty((int(_digits(grid + 3).max()), len(constants), 1))
    _split(constants[:, None].copy(), grid, digits)
    return digits[:, :, 0].astype(np.int64)


def _grouped(keys: Integers) -> Iterator[tuple[list[int], Index]]:
    """Each distinct column of keys with the positions where it stands."""
    order = np.lexsort(keys)
    change = np.any(keys[:, order[1:]] != keys[:, order[:-1]], axis=0)
    for members in np.split(order, np.flatnonzero(change) + 1):
        if len(members):
            yield keys[:, members[0]].tolist(), members


class _Row(NamedTuple):
    """At most 2048 values of one feature and sign."""

    feature: int
    sign: int
    number: int  # of this row among those of its feature and sign
    L: Array  # log(1+|x|), ascending


def _rows_by_sign(X: Array) -> Iterator[_Row]:
    columns = max(1, _BLOCK // max(len(X), 1))
    for left in range(0, X.shape[1], columns):
        values = np.ascontiguousarray(X[:, left : left + columns].T)
        for j, (x, L) in enumerate(zip(values, log1p(np.abs(values)), strict=True), start=left):
            for sign, chosen in ((+1, x >= 0), (-1, x < 0)):
                side = np.sort(L[chosen])
                for number, first in enumerate(range(0, len(side), _ROW)):
                    yield _Row(j, sign, number, side[first : first + _ROW])


def _shelve(rows: list[Array]) -> Iterator[Array]:
    """Rows that come sorted by length, filled up with zeros in groups of similar length.

    Zeros go to the front, where a row is smallest: they count as values with x = 0, whose y, d
    and phi are 0.
    """
    first = 0
    while first < len(rows):
        limit = len(rows[first]) * 9 // 8
        last = first
        while last < len(rows) and len(rows[last]) <= limit:
            last += 1
        members = rows[first:last]
        shelf = np.zeros((len(members), len(members[-1])))
        for place, row in zip(shelf, members, strict=True):
            place[len(place) - len(row) :] = row
        yield shelf
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

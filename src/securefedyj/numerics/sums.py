"""A silo's exact integer sums S_y, S_d, S_yy, S_yd and S_phi.

Every residual is rounded once to an integer on the grid of the encoding; everything after that is
integer arithmetic. So the sums do not depend on the order or the grouping of the rows: over
silos, over blocks of a file, over threads.

How. A residual is split into digits of 22 bits, by steps that are exact in float64, and one
matrix product per row sums all products of two digits. A row has 2048 values at most, so each
entry is an integer of at most 2^(21 + 21 + 11) = 2^53 and exact in float64 too, in whatever
order the product adds.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from securefedyj.numerics import wide
from securefedyj.numerics.arrays import Array, Index, Integers
from securefedyj.numerics.elementary import LN2_HIGH, LN2_LOW, exp, log1p, phi12, reduce_exponent
from securefedyj.numerics.encoding import Domain, Encoding, decaying, near_one
from securefedyj.numerics.silo import Sums
from securefedyj.numerics.wide import Limbs

_DIGIT = 22
_ROW = 2048  # values in a row
_BLOCK = 30720  # values in a block of rows: enough to outweigh the calls, and no more memory
_PAIRS = 4096  # pairs of a feature and a lambda at once
# A float64 has four digits at most that are not 0. So a row adds to a digit of a sum less than
# four sums of products of two digits, and with the constants 2^57; and there are two sides.
_ROWS_BEFORE_CARRY = 16

# On a decaying side, w/u cannot tell values of smaller |u| L from each other; y itself can.
_SMALL = 2.0**-6
# The exponent of 2^-1023 is that of zero: `reduce_exponent` makes 0 of e^-_GONE.
_GONE = 1023 * (LN2_HIGH + LN2_LOW)


class OutOfBounds(ValueError):
    """A value outside the bounds that were agreed for its feature."""


class ArraySilo:
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
        self._phi = wide.from_digits(self._phi_digits(), 31, 2)
        self._asked = self._arranged(np.empty(0, dtype=np.intp))

    def phi_sum(self, features: Index, limbs: int) -> Limbs:
        """S_phi of the features, on the grid of their domain."""
        return wide.resize(self._phi[:, features], limbs)

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

    def sums(self, feature: Index, lmbda: Array, encoding: Encoding, limbs: int) -> Sums:
        """The sums of each pair of a feature and a lambda, in that many limbs."""
        if len(feature) <= _PAIRS:
            return self._sums(feature, lmbda, encoding, limbs)
        pieces = [
            self._sums(feature[some], lmbda[some], encoding.take(some), limbs)
            for some in _pieces(len(feature), _PAIRS)
        ]
        return Sums(*(np.concatenate(parts, axis=1) for parts in zip(*pieces, strict=True)))

    def _sums(self, feature: Index, lmbda: Array, encoding: Encoding, limbs: int) -> Sums:
        groups = list(self._groups(feature, lmbda, encoding))
        total = _Totals(len(feature), max((g.skip + g.digits for g in groups), default=1))
        carried = 0
        for group in groups:
            if group.number // _ROWS_BEFORE_CARRY != carried:
                carried = group.number // _ROWS_BEFORE_CARRY
                total.carry()
            total.add(group, group.values())
        # One conversion of all four, side by side: many small ones would cost more.
        digits = np.zeros((len(total.double), 4, len(feature)), dtype=np.int64)
        digits[: len(total.single), :2] = total.single
        digits[:, 2:] = total.double
        _carry(digits)
        twofold = digits[0::2] + (digits[1::2] << _DIGIT)
        joined = wide.from_digits(twofold.reshape(len(twofold), -1), 2 * _DIGIT, limbs)
        return Sums(*joined.reshape(limbs, 4, -1).swapaxes(0, 1))

    def _groups(self, feature: Index, lmbda: Array, encoding: Encoding) -> Iterator[_Group]:
        """Rows, each with its pair, that one kind of arithmetic serves; a pair at most once."""
        asked = self._asked
        if not np.array_equal(feature, asked.feature):  # a search asks for the same again
            asked = self._asked = self._arranged(feature)
        for sign, side, (pair, place, L_max, *fixed) in (
            (+1, encoding.positive, asked.positive),
            (-1, encoding.negative, asked.negative),
        ):
            if not len(pair):
                continue
            u = lmbda[pair] if sign > 0 else 2 - lmbda[pair]
            y_bits, d_bits, spare = (part[pair] for part in side)
            kind = np.where(near_one(L_max, u), _NEAR_ONE, _GENERAL)
            kind[decaying(L_max, u)] = _DECAYING
            skipped = spare // _DIGIT
            # A side without room has but zeros, which take a digit, too.
            digits = np.maximum(_digits(np.maximum(y_bits, d_bits)) - skipped, 1)
            keys = np.array([digits, skipped, kind, *fixed])
            for (count, skip, kind_, shelf, number), members in _grouped(keys):
                yield _Group(
                    number,
                    sign,
                    kind_,
                    pair[members],
                    self._shelves[shelf],
                    place[members],
                    u[members],
                    encoding.grid[pair[members]] - _DIGIT * skip,
                    count,
                    skip,
                )

    def _arranged(self, feature: Index) -> _Arrangement:
        held = self._first[feature + 1] - self._first[feature]
        pair = np.repeat(np.arange(len(feature)), held)
        row = self._order[
            np.arange(len(pair)) + np.repeat(self._first[feature] - np.cumsum(held) + held, held)
        ]
        sides = []
        for sign, L_max in (+1, self._domain.L_positive), (-1, self._domain.L_negative):
            these = self._sign[row] == sign
            some, owner = row[these], pair[these]
            sides.append(
                _Rows(
                    owner,
                    self._place[some],
                    L_max[feature[owner]],
                    self._shelf[some],
                    self._number[some],
                )
            )
        return _Arrangement(feature.copy(), *sides)


class _Rows(NamedTuple):
    """Rows of one sign, each with its pair of a feature and some lambda."""

    pair: Index
    place: Index  # on the shelf
    L_max: Array
    shelf: Index
    number: Integers


class _Arrangement(NamedTuple):
    """The rows of each pair."""

    feature: Index  # of the pairs
    positive: _Rows
    negative: _Rows


class _Group(NamedTuple):
    number: int  # of the rows within their feature and sign
    sign: int
    kind: int
    pair: Index
    shelf: Array
    place: Index  # of the rows on the shelf
    u: Array
    grid: Integers
    digits: int  # of y and of d
    skip: int  # lowest ones that stay zero besides

    def values(self) -> _Gram:
        """The sums of y and d over each row."""
        gram = self._gram(_RESIDUALS[self.kind])
        if self.kind != _DECAYING:
            return gram
        rows, near = self._near()
        count = np.full(len(self.pair), self.shelf.shape[1])
        if len(rows):
            count[rows] -= near._count_near()
        self._add_constants(gram, count)
        if len(rows):
            gram.add(rows, near._gram(_near_values))
        return gram

    def _gram(self, residuals: Callable[..., tuple[Array, Array]]) -> _Gram:
        """Sums of the digits of y and d, and of their products by the digits of y."""
        n, pairs, columns = self.digits, len(self.pair), self.shelf.shape[1]
        sums, products = np.empty((2 * n, pairs)), np.empty((pairs, 2 * n, n))
        # The integer part of what is scaled is the highest digit.
        scale = np.exp2((self.grid - _DIGIT * (n - 1)).astype(np.float64))[:, None]
        u, ones = self.u[:, None], np.ones(columns)
        for block in _pieces(pairs, self._rows_at_once()):
            place = self.place[block]
            arrays = _SCRATCH.arrays(_WORK + 2 * n, len(place), columns)
            work, digits = arrays[:_WORK], arrays[_WORK:]
            np.take(self.shelf, place, axis=0, out=work[0], mode="clip")  # which saves a copy
            y, d = residuals(u[block], scale[block], *work)
            _split(y, digits[:n])
            _split(d, digits[n:])
            np.matmul(digits, ones, out=sums[:, block])
            np.matmul(digits.transpose(1, 0, 2), digits[:n].transpose(1, 2, 0), out=products[block])
        single, double = sums.reshape(2, n, pairs), products.T.reshape(n, 2, n, pairs)
        return _Gram(single.astype(np.int64), double.astype(np.int64, order="C"))

    def _add_constants(self, residuals: _Gram, count: Integers) -> None:
        """Make of the sums of so many r those of c + r."""
        inverse = 1 / np.abs(self.u)
        c = _on_grid(np.stack([inverse, inverse * inverse]), self.grid, self.digits)
        r, r_products = residuals
        # (c_y + r_y)(c + r) = r_y r + c_y (c + r) + r_y c, for y and for d.
        r_y = r[0].copy()
        r += count * c
        r_products += c[0][:, None, None] * r
        r_products += r_y[:, None, None] * c

    def _near(self) -> tuple[Index, _Group]:
        """The rows that have values near L = 0, and of them the first columns, where these are."""
        slope = np.abs(self.u)
        rows = np.flatnonzero(slope * self.shelf[self.place, 0] <= _SMALL)
        place, slope, width = self.place[rows], slope[rows], 8
        while width < self.shelf.shape[1] and np.any(
            slope * self.shelf[place, width - 1] <= _SMALL
        ):
            width *= 8
        return rows, self._replace(
            pair=self.pair[rows],
            shelf=self.shelf[:, :width],
            place=place,
            u=self.u[rows],
            grid=self.grid[rows],
        )

    def _count_near(self) -> Integers:
        """How many values near L = 0 each row has."""
        near = (
            _is_near(self.shelf[self.place[block]], self.u[block, None])
            for block in _pieces(len(self.place), self._rows_at_once())
        )
        return np.concatenate([np.count_nonzero(which, axis=1) for which in near])

    def _rows_at_once(self) -> int:
        columns: int = self.shelf.shape[1]
        return min(len(self.place), max(1, _BLOCK // columns))


class _Gram(NamedTuple):
    """Sums over rows, each with its pair: of the digits of y and of d, the lowest first."""

    single: Integers  # (y or d, digit, row)
    double: Integers  # (digit of y, y or d, digit of that, row): of products

    def add(self, rows: Index, other: _Gram) -> None:
        """Add to some rows the sums of others."""
        self.single[..., rows] += other.single
        self.double[..., rows] += other.double


class _Totals:
    """Sums over rows of each pair, as digits of 22 bits, lowest first.

    Arrays of shape (digits, 2, pairs): of y and d, and of y y and y d.
    """

    def __init__(self, pairs: int, digits: int) -> None:
        # Two digits more than one product takes make room for the sum of 2^31.
        self.single = np.zeros((digits + 2, 2, pairs), np.int64)
        self.double = np.zeros((2 * digits + 2, 2, pairs), np.int64)

    def add(self, group: _Group, gram: _Gram) -> None:
        """Add one row to each of the group's pairs; on the negative side y = -Y."""
        digits, skip, pairs = group.digits, group.skip, len(group.pair)
        if group.sign < 0:
            gram.single[0] *= -1
            gram.double[:, 1] *= -1
        double = np.zeros((2 * digits - 1, 2, pairs), np.int64)
        for a, row in enumerate(gram.double.swapaxes(1, 2)):
            double[a : a + digits] += row
        where = slice(None) if pairs == self.single.shape[2] else group.pair
        self.single[skip : skip + digits, :, where] += gram.single.swapaxes(0, 1)
        self.double[2 * skip : 2 * skip + len(double), :, where] += double

    def carry(self) -> None:
        _carry(self.single)
        _carry(self.double)


def _carry(digits: Integers) -> None:
    """Move what is beyond 22 bits of a digit to the next one, which makes room in all of them.

    Not as far as it goes: digits of 2^b may have 2^22 + 2^(b-22) afterwards.
    """
    carry = digits[:-1] >> _DIGIT
    digits[:-1] -= carry << _DIGIT
    digits[1:] += carry


def _pieces(length: int, size: int) -> Iterator[slice]:
    """Slices of at most that size that make up the whole, which may be empty."""
    for first in range(0, max(length, 1), size):
        yield slice(first, first + size)


# Residuals, times powers of two, which are exact. L comes in the first of the arrays to work with;
# y and d are returned in two of them.


def _near_one(
    u: Array, scale: Array, L: Array, z: Array, y: Array, d: Array, _: Array
) -> tuple[Array, Array]:
    """y = L phi_1(z), d = L^2 (phi_1 - phi_2)(z) where w = e^z is near 1 for all values."""
    np.multiply(u, L, out=z)
    phi12(z, y, d)
    np.subtract(y, d, out=d)
    d *= L
    L *= scale
    y *= L
    d *= L
    return y, d


def _general(
    u: Array, scale: Array, L: Array, z: Array, power: Array, d: Array, series: Array
) -> tuple[Array, Array]:
    """y = (w - 1)/u, d = (L w - y)/u, and the series of d where these would cancel."""
    np.multiply(u, L, out=z)
    reduce_exponent(z, power, d, series)
    phi12(z, d, series)
    near = power == 1.0
    np.subtract(d, series, out=series)
    series *= L
    L *= scale
    series *= L
    # expm1(z) = 2^n r phi_1(r) + (2^n - 1), which is r phi_1(r) itself where n = 0.
    d *= z
    d *= power
    power -= 1.0
    d += power
    inverse = 1 / u
    y = np.multiply(d, inverse * scale, out=z)
    d += 1.0
    d *= L
    d -= y
    d *= inverse
    np.copyto(d, series, where=near)
    return y, d


def _decaying(
    u: Array, scale: Array, L: Array, z: Array, power: Array, a: Array, b: Array
) -> tuple[Array, Array]:
    """r_y = w/u, r_d = (w/u)(L - 1/u): what is left of y and d when they near their limits.

    Nothing of values near L = 0, which cannot be told from each other by it.
    """
    rows = np.flatnonzero(_is_near(L[:, :1], u))
    if len(rows):
        L[rows] = np.where(_is_near(L[rows], u[rows]), _GONE / np.abs(u[rows]), L[rows])
    np.multiply(u, L, out=z)
    reduce_exponent(z, power, a, b)
    exp(z, a, b)
    z *= power
    inverse = 1 / u
    z *= inverse * scale
    L -= inverse
    L *= z
    return z, L


def _near_values(
    u: Array, scale: Array, L: Array, z: Array, y: Array, d: Array, _: Array
) -> tuple[Array, Array]:
    """y and d themselves of the values near L = 0, and nothing of the others."""
    L *= _is_near(L, u)
    return _near_one(u, scale, L, z, y, d, _)


def _is_near(L: Array, u: Array) -> NDArray[np.bool_]:
    near: NDArray[np.bool_] = np.abs(u) * L <= _SMALL
    return near


_NEAR_ONE, _GENERAL, _DECAYING = range(3)
_RESIDUALS = (_near_one, _general, _decaying)
_WORK = 5  # arrays that these take


class _Scratch(threading.local):
    """Memory for blocks, kept from one to the next: new memory costs as much as the arithmetic."""

    def __init__(self) -> None:
        self._memory = np.empty(0)

    def arrays(self, count: int, rows: int, columns: int) -> Array:
        """So many arrays; what the last ones held is lost."""
        size = count * rows * columns
        if len(self._memory) < size:
            self._memory = np.empty(size)
        return self._memory[:size].reshape(count, rows, columns)


_SCRATCH = _Scratch()


def _digits(bits: Integers) -> Integers:
    """How many signed digits of 22 bits hold a number of so many bits and its sign."""
    return -(-(bits + 1) // _DIGIT)


def _split(values: Array, digits: Array) -> None:
    """Write values * 2^(22 (digits - 1)), rounded to integers, digit by digit; uses up values.

    Every step is exact: the difference to the nearest integer, and products by powers of two.
    """
    for digit in digits[:0:-1]:
        np.rint(values, out=digit)
        values -= digit
        values *= 2.0**_DIGIT
    np.rint(values, out=digits[0])


def _on_grid(constants: Array, grid: Integers, count: int) -> Integers:
    """That many digits of constants * 2^grid, rounded to an integer; the axis before the last."""
    digits = np.empty((count, *constants.shape))
    _split(constants * np.exp2((grid - _DIGIT * (count - 1)).astype(np.float64)), digits)
    return digits.swapaxes(0, 1).astype(np.int64)


def _grouped(keys: Integers) -> Iterator[tuple[list[int], Index | slice]]:
    """Each distinct column of keys with the positions where it stands."""
    if keys.size and (keys == keys[:, :1]).all():
        yield keys[:, 0].tolist(), slice(None)
        return
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
        x = np.ascontiguousarray(X[:, left : left + columns].T)
        L = log1p(np.abs(x))
        ordered = np.sort(np.where(x < 0, -L, L), axis=1)  # what is missing comes last
        negative, positive = np.count_nonzero(x < 0, axis=1), np.count_nonzero(x >= 0, axis=1)
        counts = zip(ordered, negative.tolist(), positive.tolist(), strict=True)
        for j, (values, below, above) in enumerate(counts, start=left):
            sides = {+1: values[below : below + above], -1: -values[:below][::-1]}
            for sign, side in sides.items():
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

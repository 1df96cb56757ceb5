"""A silo's exact sums by NumPy alone; `fused` has the same by compiled loops.

A residual is split into digits of 22 bits, by steps that are exact in float64, and one
matrix product per row sums all products of two digits. A row has 2048 values at most, so each
entry is an integer of at most 2^(21 + 21 + 11) = 2^53 and exact in float64 too, in whatever
order the product adds.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from securefedyj.numerics import residuals, wide
from securefedyj.numerics.arrays import Array, Index, Integers
from securefedyj.numerics.encoding import DIGIT, Domain, Encoding, is_decaying, is_near_one
from securefedyj.numerics.rows import BLOCK, Rows, check_bounds
from securefedyj.numerics.silo import Sums
from securefedyj.numerics.wide import Limbs

_PAIRS = 4096  # pairs of a feature and a lambda at once
# A float64 has four digits at most that are not 0. So a row adds to a digit of a sum less than
# four sums of products of two digits, and with the constants 2^57; and there are two sides.
_ROWS_BEFORE_CARRY = 16

_NEAR_ONE, _GENERAL, _DECAYING = range(3)
_RESIDUALS = (residuals.near_one, residuals.general, residuals.decaying)


class Matrices:
    """The values of a table as rows of matrices.

    Parameters and promises are those of `ArraySilo`.
    """

    def __init__(self, X: Array, domain: Domain, names: list[str]) -> None:
        check_bounds(X, domain, names)
        self._domain = domain
        self.count: Integers = len(X) - np.count_nonzero(np.isnan(X), axis=0)
        self._rows = Rows(X)
        self._phi = wide.from_digits(self._phi_digits(), 31, 2)
        self._selected = self._rows.select(np.empty(0, dtype=np.intp))

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return self._rows.nbytes + self._phi.nbytes + self.count.nbytes

    def phi_sum(self, features: Index, limbs: int) -> Limbs:
        """S_phi of the features, on the grid of their domain."""
        return wide.resize(self._phi[:, features], limbs)

    def _phi_digits(self) -> Integers:
        """S_phi of all features in two digits of 31 bits, which leaves room for 2^31 values."""
        digits = np.zeros((2, len(self.count)), dtype=np.int64)
        scale = _power_of_two(self._domain.phi_grid())
        for feature, sign, L in self._rows:
            integers = np.rint(L * scale[feature, None]).astype(np.int64)
            halves = np.stack([integers & (2**31 - 1), integers >> 31]).sum(axis=2)
            np.add.at(digits.T, feature, (sign * halves).T)
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
            if group.ordinal // _ROWS_BEFORE_CARRY != carried:
                carried = group.ordinal // _ROWS_BEFORE_CARRY
                total.carry()
            total.add(group, group.sums())
        return total.to_sums(limbs)

    def _groups(self, feature: Index, lmbda: Array, encoding: Encoding) -> Iterator[_Group]:
        """Rows that one kind of arithmetic serves, each with its pair; a pair at most once."""
        selected = self._selected
        if not np.array_equal(feature, selected.feature):  # a search asks for the same again
            selected = self._selected = self._rows.select(feature)
        for sign, side, rows, L_max in (
            (+1, encoding.positive, selected.positive, self._domain.L_positive),
            (-1, encoding.negative, selected.negative, self._domain.L_negative),
        ):
            pair = rows.pair
            if not len(pair):
                continue
            u = lmbda[pair] if sign > 0 else 2 - lmbda[pair]
            y_bits, d_bits, spare = (part[pair] for part in side)
            largest = L_max[rows.feature]
            kind = np.where(is_near_one(largest, u), _NEAR_ONE, _GENERAL)
            kind[is_decaying(largest, u)] = _DECAYING
            skipped = spare // DIGIT
            # A side without room has nothing but zeros, which take a digit, too.
            digits = np.maximum(_digits_for(np.maximum(y_bits, d_bits)) - skipped, 1)
            keys = np.array([digits, skipped, kind, rows.matrix, rows.ordinal])
            for (count, skip, kind_, matrix, ordinal), members in _grouped(keys):
                yield _Group(
                    ordinal,
                    sign,
                    kind_,
                    pair[members],
                    self._rows.matrices[matrix],
                    rows.position[members],
                    u[members],
                    encoding.grid[pair[members]] - DIGIT * skip,
                    count,
                    skip,
                )


class _Group(NamedTuple):
    """Rows of one matrix and one sign, of different pairs, that take the same arithmetic."""

    ordinal: int  # of the rows within their feature and sign
    sign: int
    kind: int
    pair: Index
    matrix: Array
    position: Index  # of the rows in the matrix
    u: Array
    grid: Integers
    digits: int  # of y and of d
    skip: int  # lowest digits besides these, which stay zero

    def sums(self) -> _DigitSums:
        """The sums of y and d over each row, on the positive side."""
        width = self._columns_near_zero() if self.kind == _DECAYING else 0
        near = _NearZero(self, width)
        sums = self._digit_sums(near)
        if self.kind == _DECAYING:
            self._add_constants(sums, near.single, self.matrix.shape[1] - near.count)
        return sums

    def _digit_sums(self, near: _NearZero) -> _DigitSums:
        """Sums of the digits of y and d, and of their products by the digits of y."""
        n, pairs, columns = self.digits, len(self.pair), self.matrix.shape[1]
        sums, products = np.empty((2 * n, pairs)), np.empty((pairs, 2 * n, n))
        scale, u, ones = self.scale, self.u[:, None], np.ones(columns)
        for block in _pieces(pairs, self.rows_at_once):
            position = self.position[block]
            arrays = _SCRATCH.arrays(residuals.WORK_ARRAYS + 2 * n, len(position), columns)
            work, digits = arrays[: residuals.WORK_ARRAYS], arrays[residuals.WORK_ARRAYS :]
            # The mode saves a copy: positions are never out of range.
            np.take(self.matrix, position, axis=0, out=work[0], mode="clip")
            near.take_out(block, work[0])
            y, d = _RESIDUALS[self.kind](u[block], scale[block], *work)
            near.put_in(block, y, d)
            _split(y, digits[:n])
            _split(d, digits[n:])
            np.matmul(digits, ones, out=sums[:, block])
            np.matmul(digits.transpose(1, 0, 2), digits[:n].transpose(1, 2, 0), out=products[block])
        single, double = sums.reshape(2, n, pairs), products.T.reshape(n, 2, n, pairs)
        return _DigitSums(single.astype(np.int64), double.astype(np.int64, order="C"))

    @property
    def scale(self) -> Array:
        """Of each row: the integer part of what is scaled is the highest digit."""
        return _power_of_two(self.grid - DIGIT * (self.digits - 1))[:, None]

    def _add_constants(self, sums: _DigitSums, near_zero: Integers, count: Integers) -> None:
        """Turn the sums over residuals r into those over c + r; ``count`` values have the c."""
        inverse = 1 / np.abs(self.u)
        c = _digits_of(np.stack([inverse, inverse * inverse]), self.grid, self.digits)
        r = sums.single - near_zero
        # (c_y + r_y)(c + r) = r_y r + c_y (c + r) + r_y c, for y and for d.
        r_y = r[0].copy()
        constants = count * c
        r += constants
        sums.single[...] += constants
        sums.double[...] += c[0][:, None, None] * r
        sums.double[...] += r_y[:, None, None] * c

    def _columns_near_zero(self) -> int:
        """How many of the first columns hold all values near L = 0; about, and at least."""
        slope, columns, width = np.abs(self.u), self.matrix.shape[1], 0
        while width < columns and np.any(
            residuals.is_near_zero(self.matrix[self.position, width], slope)
        ):
            width = min(max(8, width + width // 2), columns)
        return width

    @property
    def rows_at_once(self) -> int:
        columns: int = self.matrix.shape[1]
        return min(len(self.position), max(1, BLOCK // columns))


class _DigitSums(NamedTuple):
    """Sums over rows, each with its pair: of the digits of y and of d, the lowest first."""

    single: Integers  # (y or d, digit, row)
    double: Integers  # (digit of y, y or d, digit of that, row): of products


class _NearZero:
    """The values of a group near L = 0, where its side decays: they have no constant, and y and d.

    They are all in the first columns. There, L is replaced by one whose residuals are 0, and y and
    d take the place of these. Many blocks are prepared at once, since the columns are few.

    Attributes
    ----------
    single
        The sums of the digits of these values alone, as those of `_DigitSums`.
    count
        How many they are in each row.
    """

    def __init__(self, group: _Group, width: int) -> None:
        self._group, self._width = group, width
        self._blocks = max(1, BLOCK // max(width * group.rows_at_once, 1))
        self._prepared = slice(0, 0)
        rows = len(group.pair)
        self.single: Integers = np.zeros((2, group.digits, rows), dtype=np.int64)
        self.count: Integers = np.zeros(rows, dtype=np.int64)

    def take_out(self, block: slice, L: Array) -> None:
        if not self._width:
            return
        if block.start >= self._prepared.stop:
            self._prepare(block.start)
        here = self._within(block)
        np.copyto(L[:, : self._width], self._vanishing[here], where=self._near[here])

    def put_in(self, block: slice, y: Array, d: Array) -> None:
        if self._width:
            here = self._within(block)
            y[:, : self._width] += self._y[here]
            d[:, : self._width] += self._d[here]

    def _within(self, block: slice) -> slice:
        return slice(block.start - self._prepared.start, block.stop - self._prepared.start)

    def _prepare(self, first: int) -> None:
        """Compute y and d of some blocks, and their sums."""
        group = self._group
        rows = slice(first, min(first + self._blocks * group.rows_at_once, len(group.pair)))
        L = group.matrix[group.position[rows], : self._width]
        u, scale = group.u[rows, None], group.scale[rows]
        self._near = residuals.is_near_zero(L, u)
        self._vanishing = residuals.vanishing(u)
        work = np.empty((residuals.WORK_ARRAYS, *L.shape))
        np.multiply(L, self._near, out=work[0])
        self._y, self._d = residuals.near_one(u, scale, *work)
        digits = np.empty((2, group.digits, *L.shape))
        _split(self._y.copy(), digits[0])
        _split(self._d.copy(), digits[1])
        self.single[..., rows] = digits.sum(axis=3)
        self.count[rows] = np.count_nonzero(self._near, axis=1)
        self._prepared = rows


class _Totals:
    """Sums over all rows of each pair, as digits of 22 bits, lowest first.

    Arrays of shape (digits, 2, pairs): of y and d, and of y y and y d.
    """

    def __init__(self, pairs: int, digits: int) -> None:
        # Two digits more than one product takes make room for the sum of 2^31.
        self._single = np.zeros((digits + 2, 2, pairs), np.int64)
        self._double = np.zeros((2 * digits + 2, 2, pairs), np.int64)

    def add(self, group: _Group, sums: _DigitSums) -> None:
        """Add one row to each of the group's pairs; on the negative side y = -Y."""
        digits, skip, pairs = group.digits, group.skip, len(group.pair)
        if group.sign < 0:
            sums.single[0] *= -1
            sums.double[:, 1] *= -1
        double = np.zeros((2 * digits - 1, 2, pairs), np.int64)
        for a, row in enumerate(sums.double.swapaxes(1, 2)):
            double[a : a + digits] += row
        where = slice(None) if pairs == self._single.shape[2] else group.pair
        self._single[skip : skip + digits, :, where] += sums.single.swapaxes(0, 1)
        self._double[2 * skip : 2 * skip + len(double), :, where] += double

    def carry(self) -> None:
        """Make room for more rows."""
        _carry(self._single)
        _carry(self._double)

    def to_sums(self, limbs: int) -> Sums:
        """The totals as wide integers."""
        # One conversion of all four, side by side: many small ones would cost more.
        digits = np.zeros((len(self._double), 4, self._double.shape[2]), dtype=np.int64)
        digits[: len(self._single), :2] = self._single
        digits[:, 2:] = self._double
        _carry(digits)
        twofold = digits[0::2] + (digits[1::2] << DIGIT)
        joined = wide.from_digits(twofold.reshape(len(twofold), -1), 2 * DIGIT, limbs)
        return Sums(*joined.reshape(limbs, 4, -1).swapaxes(0, 1))


class _Scratch(threading.local):
    """Memory for blocks, kept from one to the next: new memory costs as much as the arithmetic."""

    def __init__(self) -> None:
        self._memory = np.empty(0)

    def arrays(self, count: int, rows: int, columns: int) -> Array:
        """Arrays to write to; they overwrite those of the last call."""
        size = count * rows * columns
        if len(self._memory) < size:
            self._memory = np.empty(size)
        return self._memory[:size].reshape(count, rows, columns)


_SCRATCH = _Scratch()


def _carry(digits: Integers) -> None:
    """Move what is beyond 22 bits of a digit to the next one, which makes room in all of them.

    Each carry goes one digit up and no further: digits of 2^b may have 2^22 + 2^(b-22) afterwards.
    """
    carry = digits[:-1] >> DIGIT
    digits[:-1] -= carry << DIGIT
    digits[1:] += carry


def _pieces(length: int, size: int) -> Iterator[slice]:
    """Slices of at most that size that make up the whole, which may be empty."""
    for first in range(0, max(length, 1), size):
        yield slice(first, first + size)


def _digits_for(bits: Integers) -> Integers:
    """How many signed digits of 22 bits hold a number of that many bits and its sign."""
    return -(-(bits + 1) // DIGIT)


def _digits_of(constants: Array, grid: Integers, count: int) -> Integers:
    """That many digits of constants * 2^grid, rounded to an integer; the axis before the last."""
    digits = np.empty((count, *constants.shape))
    _split(constants * _power_of_two(grid - DIGIT * (count - 1)), digits)
    return digits.swapaxes(0, 1).astype(np.int64)


def _split(values: Array, digits: Array) -> None:
    """Write values * 2^(22 (digits - 1)), rounded to integers, digit by digit; uses up values.

    Every step is exact: the difference to the nearest integer, and products by powers of two.
    """
    for digit in digits[:0:-1]:
        np.rint(values, out=digit)
        values -= digit
        values *= 2.0**DIGIT
    np.rint(values, out=digits[0])


def _power_of_two(exponent: Integers) -> Array:
    """2^exponent, exactly: NumPy does not promise that of exp2."""
    return np.ldexp(1.0, exponent.astype(np.int32))


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

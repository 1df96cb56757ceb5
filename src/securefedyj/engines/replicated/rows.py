"""Polynomials through R rows, R a power of two from 8 to 128 (docs/protocol.md, section 8).

Rows 0, ..., R - 1 are the points of GF(2^8) with these bytes, a subspace over GF(2); the R bytes
after them, its coset, are the further points. M is the product of (t - row): M_k for R = 2^k,
where M_0(t) = t and M_{j+1}(t) = M_j(t) (M_j(t) + c_j) with c_j = M_j(beta^j). So M is additive: it
is the same, mu, at all further points; their own product is M + mu; and the derivative of both is
the product of all c_j everywhere. Lagrange's coefficient of row r at t is then the product of
(M_j(t - r) + c_j) / c_j, and likewise for further points.

For bits b at rows 0, ..., R - 1, the prover needs at each row i the sum over all other
rows k of b_k / (i - k) in GF(2^8). The difference is the exclusive or of the rows' bytes: these
sums are the product of b and h, with h_k = 1 / k and h_0 = 0, in the group algebra of the rows. It
has a generator u for each bit of a row, with u^2 = 1. In terms of v = u + 1, of which the square is
0, three products of half the size make one; by u it would be four. The lowest generators are left
as they are: some rows are multiplied at once, by a table of all sums of theirs.

Bits of 64 columns are a word, which is what everything acts on.
"""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from securefedyj.engines.replicated import field
from securefedyj.engines.replicated.field import POINTS, Elements
from securefedyj.errors import InputError

FEWEST, MOST = 8, 128
_GROUP = 4
"""Rows to multiply at once. A table of all sums has 2^4 of them."""


class EvaluationDomain:
    """What depends on the number of rows alone."""

    def __init__(self, count: int) -> None:
        if count not in (8, 16, 32, 64, 128):
            raise InputError(
                "SFY-ENG-027", f"The rows are a power of two from 8 to 128, not {count}."
            )
        self.count = count
        self.points, self.further = POINTS[:count], POINTS[count : 2 * count]
        self._constants: list[Elements] = []
        for j in range(count.bit_length() - 1):
            self._constants.append(self._products(POINTS[1 << j : 2 << j][:1])[0])
        derivative = np.ones(1, dtype=np.uint64)
        for constant in self._constants:
            derivative = field.multiply(derivative, constant)
        self.over_derivative = field.power(derivative, 254)  # of GF(2^8): that is 1 / derivative
        self.mu = self.vanishing(self.further[:1])
        self.over_mu = field.power(self.mu, 254)
        # A coefficient depends on point - row alone, which is the exclusive or of their bytes.
        coefficients = field.multiply(self._products(self.further)[1], self.over_derivative)
        index = np.arange(count)
        extension: Elements = coefficients[index[:, None] ^ index]
        self._extension = _chosen(extension)
        self._extension_of_same = _chosen(field.multiply(extension, extension) ^ extension)

    def vanishing(self, t: Elements) -> Elements:
        return self._products(t)[0]

    def at(self, zeta: int) -> tuple[Elements, Elements, Elements]:
        """Return what gives the value at zeta: by values at the rows, for a degree below R; by
        values at the further points and the leading coefficient, for degree R; and M(zeta).
        """
        values, quotients = self._products(POINTS[: 2 * self.count] ^ np.uint64(zeta))
        coefficients = field.multiply(quotients, self.over_derivative)
        vanishing = values[:1]  # the first row is 0
        return (
            coefficients[: self.count],
            np.concatenate([coefficients[self.count :], vanishing ^ self.mu]),
            vanishing,
        )

    def extend(self, values: Elements) -> Elements:
        """Take values at the rows to values at the further points."""
        return _applied(self._extension, values)

    def extend_same(self, values: Elements) -> Elements:
        """Likewise with the squares of Lagrange's coefficients added to them."""
        return _applied(self._extension_of_same, values)

    def _products(self, t: Elements) -> tuple[Elements, Elements]:
        """Return M(t) and M(t) / t, with as many constants as are known."""
        value, quotient = t, np.ones_like(t)
        for constant in self._constants:
            value, quotient = field.multiply(np.stack([value, quotient]), value ^ constant)
        return value, quotient


@cache
def rows(count: int) -> EvaluationDomain:
    return EvaluationDomain(count)


def _chosen(matrix: Elements) -> NDArray[np.uint8]:
    """Which of eight columns each have 1 for each bit, in a matrix over GF(2^8).

    From (n, 8 m) to (m, 8, n): one byte for eight columns, the bits of value 1 first.
    """
    bits = field.to_octets(matrix) >> np.arange(8)[:, None, None] & 1
    return np.packbits(bits, axis=-1, bitorder="little").transpose(2, 0, 1)


def _applied(chosen: NDArray[np.uint8], values: Elements) -> Elements:
    """The product of the matrix and a vector."""
    sums = field.chosen_sums(values.reshape(-1, 8, 1))[:, :, 0]
    parts = [some.take(octets) for some, octets in zip(sums, chosen, strict=True)]
    by_bit: Elements = np.bitwise_xor.reduce(parts, axis=0)
    return field.sum_products(by_bit.T, field.powers(field.BETA, 8))


def reciprocal_sums(words: Elements) -> Elements:
    """Return for each row the sum over the others of bit / (row - other).

    Takes bits of the rows: (rows, words). Returns, of groups of rows, first the bits of value 1,
    then those of value BETA, and so on: (groups, 8, rows of a group, words).
    """
    count, width = words.shape
    halves = _halves(count)
    places = words.reshape(*halves, _GROUP, width).copy()
    _change_basis(places, len(halves))
    sums = field.chosen_sums(places.reshape(-1, _GROUP, width)).reshape(-1, width)
    (_, first), *others = _plan(count)
    result: Elements = sums.take(first, axis=0, mode="clip").reshape(*halves, -1, width)
    scratch = np.empty((len(first) // 2, width), dtype=np.uint64)
    for to, chosen in others:
        some, part = result[to], scratch[: len(chosen)]
        sums.take(chosen, axis=0, mode="clip", out=part)
        some ^= part.reshape(some.shape)
    _change_basis(result, len(halves))
    return result.reshape(-1, 8, _GROUP, width)


def _halves(count: int) -> tuple[int, ...]:
    """One axis for each generator but the lowest, the highest first."""
    return (2,) * ((count // _GROUP).bit_length() - 1)


def _change_basis(values: NDArray[Any], axes: int) -> None:
    """From 1 and u to 1 and v = u + 1 in each of the first axes, or back again."""
    for axis in range(axes):
        low, high = np.moveaxis(values, axis, 0)
        low ^= high


@cache
def chosen_groups(count: int) -> NDArray[np.uint8]:
    """For each group of h, bit and row: the number of the sum of four rows that it adds."""
    halves, row = _halves(count), np.arange(_GROUP)
    h = field.to_octets(field.power(field.POINTS[:count], 254)).reshape(*halves, _GROUP)
    _change_basis(h, len(halves))
    factors = h.reshape(-1, 1, _GROUP)[:, :, row[:, None] ^ row]
    bits = factors >> np.arange(8).reshape(8, 1, 1) & 1
    return np.ascontiguousarray((bits << row).sum(axis=-1), dtype=np.uint8)


@cache
def _plan(count: int) -> list[tuple[Any, NDArray[np.intp]]]:
    """For each group of h: to which groups of rows to add what, by the number of the sum.

    Where two products of generators v have one in common, their product is 0.
    """
    halves, groups = _halves(count), np.arange(count // _GROUP)
    plan = []
    for group, sums in enumerate(chosen_groups(count).reshape(len(groups), -1).astype(np.intp)):
        generators = f"{group:0{len(halves)}b}"
        to = tuple(1 if one == "1" else slice(None) for one in generators)
        of = groups[groups & group == 0]
        plan.append((to, ((of[:, None] << _GROUP) + sums).ravel()))
    return plan

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
has a generator u for each bit of a row, with u^2 = 1. The kernel computes in terms of v = u + 1,
whose square is 0: three products of half the size make one; by u it would be four. The lowest
generators are left as they are: some rows are multiplied at once, by a table of all their sums.
"""

from functools import cache

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
        self._extension: Elements = coefficients[index[:, None] ^ index]
        self._of_same = field.multiply(self._extension, self._extension) ^ self._extension

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
        return field.sum_products(self._extension, values)

    def extend_same(self, values: Elements) -> Elements:
        """Likewise with the squares of Lagrange's coefficients added to them."""
        return field.sum_products(self._of_same, values)

    def _products(self, t: Elements) -> tuple[Elements, Elements]:
        """Return M(t) and M(t) / t, with as many constants as are known."""
        value, quotient = t, np.ones_like(t)
        for constant in self._constants:
            value, quotient = field.multiply(np.stack([value, quotient]), value ^ constant)
        return value, quotient


@cache
def rows(count: int) -> EvaluationDomain:
    return EvaluationDomain(count)


@cache
def inverse(count: int) -> Elements:
    """1 / row for each row but 0, which has 0."""
    return field.power(POINTS[:count], 254)


@cache
def chosen_groups(count: int) -> NDArray[np.uint8]:
    """For each group of h, bit and row: the number of the sum of four rows that it adds."""
    halves, row = (count // _GROUP).bit_length() - 1, np.arange(_GROUP)
    h = field.to_octets(inverse(count)).reshape(*(2,) * halves, _GROUP)
    for axis in range(halves):  # from 1 and u to 1 and v
        low, high = np.moveaxis(h, axis, 0)
        low ^= high
    factors = h.reshape(-1, 1, _GROUP)[:, :, row[:, None] ^ row]
    bits = factors >> np.arange(8).reshape(8, 1, 1) & 1
    return np.ascontiguousarray((bits << row).sum(axis=-1), dtype=np.uint8)

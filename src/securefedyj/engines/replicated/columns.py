"""Arithmetic of the proof of gates, over all columns (see `gates`).

A matrix of bits comes as octets (R / 8, C): row 8 g + t is bit t of octet row g. Columns come in
words of 64 and words in pages of 8. They are taken page by page, so that what is made of them
stays small.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from securefedyj.engines.additive import PackedBits, transpose
from securefedyj.engines.replicated import field, rows
from securefedyj.engines.replicated.field import Elements

PAGE = 512  # columns; the prover takes one page at once
_EVALUATED = 1 << 13  # columns to evaluate at once


class Weights(NamedTuple):
    """The challenge. tau_c = theta^(c div 512) eta^(c mod 512 div 64) x^(c mod 64)."""

    eta: int
    theta: int

    def of_page(self) -> Elements:
        """Powers of eta, for the words of a page."""
        return field.powers(self.eta, PAGE // 64)

    def total(self, values: Elements) -> Elements:
        """Sum over all columns of tau_c times the value of column c."""
        words = field.folded(values)
        pages = field.powers(self.theta, -(-len(words) * 64 // PAGE))
        weights = field.multiply(pages[:, None], self.of_page()).reshape(-1)
        return field.sum_products(words, weights[: len(words)])


def evaluated(bits: PackedBits, coefficients: Elements) -> Elements:
    """Sum over the rows of coefficient times bit, for all columns."""
    tables = np.ascontiguousarray(field.subset_sums(coefficients).T)
    result = np.zeros(bits.shape[1], dtype=np.uint64)
    for start in range(0, len(result), _EVALUATED):
        block = slice(start, start + _EVALUATED)
        for table, octets in zip(tables, bits[:, block], strict=True):
            result[block] ^= table.take(octets)
    return result


def quotient(
    bits: Sequence[PackedBits], left: Elements, right: Elements, weights: Weights
) -> Elements:
    """Return q = Q / M, by its values at the further points and its leading coefficient.

    At a further point, where M is mu, Q is the sum over all columns of tau times
    a b + c d + e + f, plus mu (a r' + b r + c s' + d s), plus mu^2 (r r' + s s'). Only a b + c d is
    summed up there. All else is linear: it is summed up in the rows, and then extended.

    Parameters
    ----------
    bits
        a, b, c, d of right gates. Their e + f is a b + c d.
    left, right
        The masks r and s; r' and s'.
    weights
        The challenge.
    """
    domain = rows.rows(8 * len(bits[0]))
    masks = field.spread(np.stack([right[0], left[0], right[1], left[1]]))
    products, linear, crossed = _summed(bits, masks, weights)
    leading = weights.total(field.total(field.multiply(left, right).T))
    extended = domain.extend(linear ^ field.multiply(domain.mu, crossed))
    values = field.multiply(products ^ extended, domain.over_mu)
    return np.append(values ^ field.multiply(domain.mu, leading), leading)


def _summed(
    bits: Sequence[PackedBits], masks: Elements, weights: Weights
) -> tuple[Elements, Elements, Elements]:
    """Return sums over all columns, weighted by tau: of a b + c d at the further points; of the
    same in the rows; and of bits times masks in the rows.

    Pages are added up in lanes, the last page first, with theta between them (Horner). There are
    eight lanes for each further point, one for each bit of a byte; one for each row; and one for
    each row and word of a page, as masks come without their powers of eta.
    """
    count, columns = 8 * len(bits[0]), bits[0].shape[1]
    powers = weights.of_page()
    tables = np.ascontiguousarray(field.subset_sums(field.spread(np.repeat(powers, 64))).T)
    step = field.multiples(np.array([weights.theta], dtype=np.uint64))
    lanes = np.zeros((9 + len(powers)) * count, dtype=np.uint64)
    weighed, crossed = lanes[: 9 * count], lanes[9 * count :]
    for start in reversed(range(0, columns, PAGE)):
        page = slice(start, start + PAGE)
        lanes[:] = field.scaled(step, lanes)
        a, b, c, d = octets = np.stack([part[:, page] for part in bits])
        products = _planes(_products(a, b) ^ _products(c, d))
        summands = np.concatenate([products, _by_column((a & b) ^ (c & d))], axis=1)
        for table, chosen in zip(tables, summands, strict=False):  # the last page may be shorter
            weighed ^= table.take(chosen)
        terms = _masked(octets, masks[:, page])
        crossed[: terms.size] ^= terms.reshape(-1)
    planes, linear = weighed[: 8 * count].reshape(8, count), weighed[8 * count :]
    return (
        field.sum_products(planes.T, field.powers(field.BETA, 8)),
        linear,
        field.sum_products(crossed.reshape(-1, count).T, powers),
    )


def _products(x: PackedBits, y: PackedBits) -> NDArray[np.uint8]:
    """Values of x y in GF(2^8) at the further points, for all columns: (columns, points)."""
    index = _extended(x).astype(np.uint16)
    index <<= 8
    index |= _extended(y)
    products: NDArray[np.uint8] = rows.octet_products().take(index, mode="clip")
    return products


def _extended(bits: PackedBits) -> NDArray[np.uint8]:
    """Values in GF(2^8) at the further points, for all columns."""
    tables = rows.octet_extension(8 * len(bits))
    words: Elements = tables[0].take(bits[0], axis=0, mode="clip")
    more = np.empty_like(words)
    for table, octets in zip(tables[1:], bits[1:], strict=True):
        table.take(octets, axis=0, out=more, mode="clip")
        words ^= more
    return words.view(np.uint8)


def _planes(octets: NDArray[np.uint8]) -> PackedBits:
    """Pack bits of equal value in eight columns each: (columns / 8, 8 values * points).

    Octets of one point in eight columns are one 8x8 matrix of bits, transposed by swaps as in
    `additive.transpose`; here its rows are in eight words, and each word has eight such matrices.
    """
    columns, points = octets.shape
    words = octets.view(np.uint64).reshape(columns // 8, 8, points // 8)
    for by, octet in ((4, 0x0F), (2, 0x33), (1, 0x55)):
        shift, mask = np.uint64(by), np.uint64(0x0101_0101_0101_0101 * octet)
        pairs = words.reshape(columns // 8, 4 // by, 2, by, points // 8)
        low, high = pairs[:, :, 0], pairs[:, :, 1]
        swapped = ((low >> shift) ^ high) & mask
        high ^= swapped
        low ^= swapped << shift
    return words.view(np.uint8).reshape(columns // 8, 8 * points)


def _by_column(bits: PackedBits) -> PackedBits:
    """Pack eight columns in place of eight rows: (..., columns / 8, rows)."""
    matrices = bits.copy().view("<u8")
    transpose(matrices)
    octets: PackedBits = np.ascontiguousarray(matrices.swapaxes(-1, -2)).view(np.uint8)
    return octets


def _masked(bits: PackedBits, masks: Elements) -> Elements:
    """Sum over 64 columns each of mask times bit, over all pairs: (words, rows)."""
    octets = _by_column(bits)
    pairs, groups, count = octets.shape
    index = octets.astype(np.intp)
    index *= pairs * groups
    index += np.arange(pairs * groups).reshape(pairs, groups, 1)
    chosen = field.subset_sums(masks).reshape(-1).take(index, mode="clip")
    total: Elements = np.bitwise_xor.reduce(chosen, axis=0)
    words: Elements = np.bitwise_xor.reduce(total.reshape(-1, 8, count), axis=1)
    return words

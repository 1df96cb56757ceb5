"""Arithmetic of the proof of gates, over all columns (see `gates`).

A matrix of bits comes as octets (R / 8, C): row 8 g + t is bit t of octet row g. Columns come in
words of 64 and words in pages of 8. The bits of a row in 64 columns are a word, too, and as an
element of the field their sum weighted by x^(c mod 64). They are taken in blocks of some pages, so
that what is made of them stays small.
"""

import threading
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from securefedyj import kernel
from securefedyj.engines.additive import PackedBits, transpose
from securefedyj.engines.replicated import field, rows
from securefedyj.engines.replicated.field import Elements

PAGE = 512  # columns
_BLOCK = 4 * PAGE  # columns that the prover takes at once
_EVALUATED = 1 << 13  # columns to evaluate at once


class Weights(NamedTuple):
    """The challenge. tau_c = theta^(c div 512) eta^(c mod 512 div 64) x^(c mod 64)."""

    eta: int
    theta: int

    def of_page(self) -> Elements:
        """Powers of eta, for the words of a page."""
        return field.powers(self.eta, PAGE // 64)

    def of_words(self, count: int) -> Elements:
        """The weights of all words of whole pages, each without the power of x."""
        pages = field.powers(self.theta, -(-count * 64 // PAGE))
        return field.multiply(pages[:, None], self.of_page()).reshape(-1)


def weighted(values: Elements, weights: Elements) -> Elements:
    """Sum over columns: the value times x^(c mod 64) and the weight of its word."""
    if loops := kernel.loops():
        sums = loops.field_weighted(field.aligned(values), field.aligned(weights))
        return np.array(sums, dtype=np.uint64)
    return field.sum_products(field.folded(values), weights)


def evaluated(bits: PackedBits, coefficients: Elements, some: slice = slice(None)) -> Elements:
    """Sum over the rows of coefficient times bit, for some columns; words of them, or all."""
    start, stop, _ = some.indices(bits.shape[1])
    result = np.zeros(stop - start, dtype=np.uint64)
    if loops := kernel.loops():
        loops.evaluated(bits, bits.shape[1], field.aligned(coefficients), start, stop, result)
        return result
    tables = np.ascontiguousarray(field.subset_sums(coefficients).T)
    for first in range(0, len(result), _EVALUATED):
        block = slice(first, first + _EVALUATED)
        for table, octets in zip(tables, bits[:, start:stop][:, block], strict=True):
            result[block] ^= table.take(octets)
    return result


def quotient(
    bits: Sequence[PackedBits], left: Elements, right: Elements, weights: Weights
) -> Elements:
    """Return q = Q / M, by its values at the further points and its leading coefficient.

    At a further point, where M is mu, Q is the sum over all columns of tau times
    a b + c d + e + f, plus mu (a r' + b r + c s' + d s), plus mu^2 (r r' + s s'). What is linear is
    summed up in the rows, and then extended. So are products. With Lagrange's polynomials L,

        a b = sum over rows i of a_i b_i L_i^2 + (M / M') (a_i b*_i + b_i a*_i) L_i,

    where b*_i is the sum over all other rows k of b_k / (i - k): for two different rows, L_i L_k is
    (M / M') (L_i - L_k) / (i - k).

    ``bits`` are a, b, c, d of right gates, whose e + f is a b + c d. ``left`` are the masks r and
    s, ``right`` r' and s'.
    """
    domain = rows.rows(8 * len(bits[0]))
    same, others, masked = _summed(bits, [right[0], left[0], right[1], left[1]], weights)
    words = weights.of_words(left.shape[1] // 64)[: left.shape[1] // 64]
    leading = np.zeros(1, dtype=np.uint64)
    for start in range(0, left.shape[1], _EVALUATED):
        some = slice(start, start + _EVALUATED)
        products = field.total(field.multiply(left[:, some], right[:, some]), 0)
        leading ^= weighted(products, words[some.start // 64 : some.stop // 64])
    of_pairs = domain.extend(field.multiply(others, domain.over_derivative) ^ masked)
    of_rows = field.multiply(domain.extend_same(same), domain.over_mu)
    return np.append(of_rows ^ of_pairs ^ field.multiply(domain.mu, leading), leading)


def _summed(
    bits: Sequence[PackedBits], masks: Sequence[Elements], weights: Weights
) -> tuple[Elements, Elements, Elements]:
    """Return sums over all columns, in the rows and weighted by tau: of a b + c d; of
    a b* + b a* + c d* + d c*; and of bits times masks.

    Every row has ten lanes for each word of a block: one for the first, eight for the bits of the
    second, one for the last. Blocks are added up there, the last one first, with a power of theta
    between them (Horner); and then pages and words.
    """
    if loops := kernel.loops():
        return _summed_by(loops, bits, masks, weights)
    count, columns = 8 * len(bits[0]), bits[0].shape[1]
    pages = min(_BLOCK // PAGE, max(1, -(-columns // PAGE)))
    theta, eta = (field.multiples(np.array([one], dtype=np.uint64)) for one in reversed(weights))
    step = field.multiples(field.powers(weights.theta, pages + 1)[-1:])
    lanes = np.zeros((10, count, pages * PAGE // 64), dtype=np.uint64)
    for start in reversed(range(0, columns, _BLOCK)):
        block = slice(start, start + _BLOCK)
        lanes = field.scaled(step, lanes)
        words = _by_row(np.stack([part[:, block] for part in bits]))
        some = lanes[:, :, : words.shape[-1]]  # the last block may be shorter
        a, b, c, d = words.swapaxes(0, 1)
        some[0] ^= (a & b) ^ (c & d)
        some[1:9] ^= _other_rows(words)
        some[9] ^= _masked(words, field.spread(np.stack([part[block] for part in masks])))
    by_page = lanes.reshape(10, count, pages, PAGE // 64)
    by_word = _horner(theta, np.moveaxis(by_page, 2, 0))
    same, *octets, masked = _horner(eta, np.moveaxis(by_word, 2, 0))
    return same, field.sum_products(np.stack(octets, axis=1), field.powers(field.BETA, 8)), masked


def _summed_by(
    loops: kernel.Loops, bits: Sequence[PackedBits], masks: Sequence[Elements], weights: Weights
) -> tuple[Elements, Elements, Elements]:
    """The same by the kernel."""
    count, columns = 8 * len(bits[0]), bits[0].shape[1]
    of_words, parts = weights.of_words(columns // 64), [field.aligned(part) for part in masks]
    of_words = np.append(of_words, np.zeros(-len(of_words) % (PAGE // 64), dtype=np.uint64))
    lanes = np.zeros((10, count), dtype=np.uint64)

    def work(first: int, last: int) -> None:
        some = np.empty_like(lanes)
        chosen = rows.chosen_groups(count)
        loops.gate_sums(*bits, *parts, columns, count, of_words, chosen, first, last, some)
        with lock:
            np.bitwise_xor(lanes, some, out=lanes)

    lock = threading.Lock()
    kernel.shared_out(len(of_words) * 64 // PAGE, bits[0].size, work)
    same, *octets, masked = lanes
    return same, field.sum_products(np.stack(octets, axis=1), field.powers(field.BETA, 8)), masked


def _horner(factor: Elements, parts: Elements) -> Elements:
    """Sum of the parts times powers of the element that the table is the `multiples` of."""
    result: Elements = np.zeros_like(parts[0])
    for part in reversed(parts):
        result = field.scaled(factor, result) ^ part
    return result


def _by_row(bits: PackedBits) -> Elements:
    """Pack 64 columns in place of eight rows: from (n, R / 8, C) to (R, n, C / 64)."""
    matrices = bits.copy().view("<u8")
    transpose(matrices)
    n, octet_rows, groups = matrices.shape
    octets = matrices.view(np.uint8).reshape(n, octet_rows, groups // 8, 8, 8)
    by_row = np.ascontiguousarray(octets.transpose(1, 4, 0, 2, 3)).view("<u8")
    return by_row.reshape(8 * octet_rows, n, groups // 8).astype(np.uint64, copy=False)


def _other_rows(words: Elements) -> Elements:
    """Bits of a b* + b a* + c d* + d c* in GF(2^8), by (rows, a to d, words): (8, rows, words)."""
    count, _, width = words.shape
    sums = rows.reciprocal_sums(words[:, [1, 0, 3, 2]].reshape(count, -1))
    groups, _, size, _ = sums.shape
    products = sums.reshape(groups, 8, size, 4, width)
    products &= words.reshape(groups, 1, size, 4, width)
    return field.total(products, 3).swapaxes(0, 1).reshape(8, count, width)


def _masked(words: Elements, masks: Elements) -> Elements:
    """Sum over 64 columns each of mask times bit, over a to d: (rows, words)."""
    count, _, width = words.shape
    sums = field.chosen_sums(masks.reshape(-1, 8, 1)).reshape(-1)
    octets = words.astype("<u8", copy=False).view(np.uint8).reshape(count, 4, width, 8)
    first = 256 * np.arange(4 * width * 8).reshape(1, 4, width, 8)
    index = np.empty((4, 8, count, width), dtype=np.intp)
    np.add(octets.transpose(1, 3, 0, 2), first.transpose(1, 3, 0, 2), out=index)
    return field.total(sums.take(index, mode="clip").reshape(-1, count, width), 0)

"""Arithmetic of the proof of gates, over all columns (see `gates`).

A matrix of bits comes as octets (R / 8, C): row 8 g + t is bit t of octet row g. Columns come in
words of 64 and words in pages of 8. The bits of a row in 64 columns are a word, too, and as an
element of the field their sum weighted by x^(c mod 64).
"""

import threading
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from securefedyj import kernel
from securefedyj.engines.additive import PackedBits
from securefedyj.engines.replicated import field, rows
from securefedyj.engines.replicated.field import Elements

PAGE = 512  # columns


class Weights(NamedTuple):
    """The challenge. tau_c = theta^(c div 512) eta^(c mod 512 div 64) x^(c mod 64)."""

    eta: int
    theta: int

    def of_words(self, count: int) -> Elements:
        """The weights of the first words, each without the power of x."""
        pages = field.powers(self.theta, -(-count * 64 // PAGE))
        of_page = field.powers(self.eta, PAGE // 64)
        return field.multiply(pages[:, None], of_page).reshape(-1)[:count]


def weighted(values: Elements, weights: Elements) -> Elements:
    """Sum over columns: the value times x^(c mod 64) and the weight of its word."""
    if loops := kernel.loops():
        sums = loops.field_weighted(field.aligned(values), field.aligned(weights))
        return np.array(sums, dtype=np.uint64)
    return field.sum_products(field.spread(values), np.repeat(weights, 64))


def evaluated(bits: PackedBits, coefficients: Elements, some: slice = slice(None)) -> Elements:
    """Sum over the rows of coefficient times bit, for some columns; words of them, or all."""
    start, stop, _ = some.indices(bits.shape[1])
    result = np.zeros(stop - start, dtype=np.uint64)
    if loops := kernel.loops():
        loops.evaluated(bits, bits.shape[1], field.aligned(coefficients), start, stop, result)
        return result
    for table, octets in zip(field.subset_sums(coefficients).T, bits[:, start:stop], strict=True):
        result ^= table.take(octets)
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
    products = field.total(field.multiply(left, right), 0)
    leading = weighted(products, weights.of_words(left.shape[1] // 64))
    of_pairs = domain.extend(field.multiply(others, domain.over_derivative) ^ masked)
    of_rows = field.multiply(domain.extend_same(same), domain.over_mu)
    return np.append(of_rows ^ of_pairs ^ field.multiply(domain.mu, leading), leading)


def _summed(
    bits: Sequence[PackedBits], masks: Sequence[Elements], weights: Weights
) -> tuple[Elements, Elements, Elements]:
    """Return sums over all columns, in the rows and weighted by tau: of a b + c d; of
    a b* + b a* + c d* + d c*; and of bits times masks.

    The kernel has ten lanes for every row: one for the first, eight for the bits of the second, one
    for the last.
    """
    if loops := kernel.loops():
        return _summed_by(loops, bits, masks, weights)
    count, of_words = 8 * len(bits[0]), weights.of_words(bits[0].shape[1] // 64)
    a, b, c, d = words = [_by_row(part) for part in bits]
    tau = field.spread(np.repeat(of_words, 64))
    same, inverse = field.sum_products((a & b) ^ (c & d), of_words), rows.inverse(count)
    others, masked = np.zeros((2, count), dtype=np.uint64)
    for i in range(1, count):  # a_i b_k + b_i a_k is the same for i and k
        pairs = (a[i] & b[:i]) ^ (b[i] & a[:i]) ^ (c[i] & d[:i]) ^ (d[i] & c[:i])
        known = field.multiply(field.sum_products(pairs, of_words), inverse[i ^ np.arange(i)])
        others[i] ^= field.total(known)
        others[:i] ^= known
    for part, mask in zip(words, masks, strict=True):
        octets = np.ascontiguousarray(part.view(np.uint8).T)
        masked ^= evaluated(octets, field.multiply(tau, mask))
    return same, others, masked


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


def _by_row(bits: PackedBits) -> Elements:
    """Pack 64 columns in place of eight rows: from (R / 8, C) to (R, C / 64)."""
    unpacked = np.unpackbits(bits, axis=0, bitorder="little")
    return np.packbits(unpacked, axis=1, bitorder="little").view("<u8")

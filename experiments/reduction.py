"""Lattices: reduction by LLL, and a list of the points nearest to a target.

In float64, so the rows must not differ too much in length: who has equations in large numbers
feeds them in bit by bit, from rows that are reduced already.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from securefedyj.numerics.arrays import Array, Integers

_DELTA = 0.99  # of Lovasz's condition


def lll(rows: Array) -> Integers:
    """The unimodular matrix U for which U @ rows is reduced (Lenstra, Lenstra and Lovasz)."""
    B = np.array(rows, dtype=np.float64)
    d = len(B)
    U = np.eye(d, dtype=np.int64)
    Q = np.zeros_like(B)  # the rows, orthogonalized
    mu, norm = np.eye(d), np.zeros(d)
    k = 0
    while k < d:
        _reduce_size(B, U, Q, mu, norm, k)
        if k and norm[k] < (_DELTA - mu[k, k - 1] ** 2) * norm[k - 1]:
            B[[k - 1, k]], U[[k - 1, k]] = B[[k, k - 1]], U[[k, k - 1]]
            k -= 1
        else:
            k += 1
    return U


def _reduce_size(B: Array, U: Integers, Q: Array, mu: Array, norm: Array, k: int) -> None:
    """Subtract earlier rows from row k until all its coefficients are at most about 1/2."""
    while True:
        mu[k, :k] = Q[:k] @ B[k] / norm[:k]
        largest = 0.0
        for j in range(k - 1, -1, -1):
            q = round(mu[k, j])
            if q:
                mu[k, : j + 1] -= q * mu[j, : j + 1]
                U[k] -= q * U[j]
                B[k] -= q * B[j]
                largest = max(largest, abs(q))
        # Large multiples cancel digits: the coefficients are computed once more.
        if largest < 1000:
            break
    rest = B[k] - mu[k, :k] @ Q[:k]
    Q[k] = rest - (Q[:k] @ rest / norm[:k]) @ Q[:k]
    norm[k] = Q[k] @ Q[k]


class Nearest(NamedTuple):
    """Coefficients of points, the nearest first, and whether points were left out on the way."""

    coefficients: Integers
    squares: Array
    truncated: bool


def nearest(rows: Array, target: Array, square: float, width: int) -> Nearest:
    """Points of the lattice whose squared distance to the target is at most ``square``.

    Coefficient by coefficient, from the last to the first, as Fincke and Pohst do; but of the
    partial choices only the ``width`` nearest are kept at each level.
    """
    Q, R = np.linalg.qr(rows.T)
    y = Q.T @ target
    d = len(rows)
    z = np.zeros((1, d), dtype=np.int64)
    cost = np.array([float(target @ target - y @ y)])
    truncated = False
    for i in range(d - 1, -1, -1):
        center = (y[i] - z[:, i + 1 :] @ R[i, i + 1 :]) / R[i, i]
        reach = np.sqrt(np.maximum(square - cost, 0.0)) / abs(R[i, i])
        while True:
            low = np.ceil(center - reach)
            count = np.maximum(np.floor(center + reach) - low + 1, 0).astype(np.int64)
            if count.sum() <= 4 * width:
                break
            truncated, reach = True, reach * 0.8
        parent = np.repeat(np.arange(len(z)), count)
        offset = np.arange(len(parent)) - np.repeat(np.cumsum(count) - count, count)
        chosen = low[parent] + offset
        z = z[parent]
        z[:, i] = chosen.astype(np.int64)
        cost = cost[parent] + (R[i, i] * (chosen - center[parent])) ** 2
        if len(z) > width:
            truncated = True
            best = np.argpartition(cost, width)[:width]
            z, cost = z[best], cost[best]
    order = np.argsort(cost, kind="stable")
    return Nearest(z[order], cost[order], truncated)

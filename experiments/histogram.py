"""What an attacker computes from the result of one column whose possible values are public.

The unknowns are the counts c of the k values. The transcript opens n, S_y and V at lambda*, the
last two up to a window, and brackets lambda*. That makes four equations which are linear in c: for
n, for S_y, for V (about the known mean) and for the score, which vanishes at the optimum. The
counts are a point of a lattice near those that the equations admit: LLL reduces the lattice, and a
list of its nearest points is checked, point by point, against the transcript in exact integers.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from math import comb, log, log2
from operator import mul
from typing import NamedTuple

import numpy as np

from experiments.reduction import lll, nearest
from securefedyj.numerics import wide
from securefedyj.numerics.arrays import Array, Integers
from securefedyj.numerics.encoding import Domain, choose_encoding
from securefedyj.numerics.sums import ArraySilo

_BITS_AT_ONCE = 12  # by which the equations sharpen between two reductions
_NEWTON_STEPS = 60


class Window(NamedTuple):
    """An integer of which the lowest bits were not opened."""

    first: int
    size: int

    def __contains__(self, value: object) -> bool:
        return isinstance(value, int) and 0 <= value - self.first < self.size

    @property
    def middle(self) -> int:
        return self.first + self.size // 2


@dataclass(frozen=True)
class Opened:
    """What a transcript opens of one column, and what is public about it."""

    values: Array
    bounds: tuple[float, float]
    n: int
    lmbda: float
    lower: float
    upper: float
    S_y: Window
    V: Window


class _Terms(NamedTuple):
    """Of each value, as the silos round them: integers on their grids."""

    y: list[int]
    d: list[int]
    yy: list[int]
    yd: list[int]
    phi: list[int]
    grid: int
    phi_grid: int


class Attack:
    """The search for the counts of one column.

    Parameters
    ----------
    opened
        What is known of the column.
    own
        The attacker's own part of the counts, if it is one of the silos and takes its rows for a
        sample of the same population. None: any histogram is as likely as any other.
    """

    def __init__(self, opened: Opened, own: Integers | None = None) -> None:
        self._opened = opened
        self._informed = own is not None
        self._own = np.zeros(len(opened.values), dtype=np.int64) if own is None else own
        self._others = opened.n - int(self._own.sum())
        self._terms = self._terms_at(opened.lmbda)
        self._ends = [
            (sign, self._terms_at(end))
            for sign, end in ((1, opened.lower), (-1, opened.upper))
            if np.isfinite(end)
        ]
        self._prepare()

    def is_consistent(self, counts: Integers) -> bool:
        """Whether a run over these counts would open exactly this transcript."""
        c = counts.tolist()
        opened = self._opened
        if np.any(counts < self._own) or sum(c) != opened.n:
            return False
        S_y, V = self._moments(c, self._terms)
        if S_y not in opened.S_y or V not in opened.V:
            return False
        # The score falls, so its signs at the ends of the bracket tell those at all other steps.
        return all((self._score(c, terms) >= 0) == (sign > 0) for sign, terms in self._ends)

    def search(self, width: int, most: int) -> list[Integers]:
        """Histograms that are consistent with what was opened, the most plausible first."""
        Z, start = self._reduced()
        rows, target = self._rows(Z, self._sharpness), self._target(start, self._sharpness)
        k = len(self._expected)
        points = nearest(rows, target, 4.0 * (k + 3), width)
        counts = start + points.coefficients @ Z
        kept = np.flatnonzero(np.all(counts >= self._own, axis=1))
        residuals = target - points.coefficients[kept] @ rows
        kept = kept[np.all(np.abs(residuals[:, k : k + 2]) < 1.01, axis=1)]
        consistent = (counts[i] for i in kept if self.is_consistent(counts[i]))
        return list(islice(consistent, most))

    def bits_left(self) -> float:
        """log2 of how many histograms are consistent: about, and with no rows of one's own.

        All histograms times the share that meets the equations. Over all histograms, the
        left sides are distributed nearly as by a normal distribution.
        """
        k, n = len(self._opened.values), self._opened.n
        A = self._equations.astype(float) * self._sharpness
        rest = self._right.astype(float) * self._sharpness - n * A.mean(axis=0)
        covariance = n * (n + k) / (k + 1) * np.cov(A.T, bias=True)
        logdet = np.linalg.slogdet(2 * np.pi * covariance).logabsdet
        density = -(rest @ np.linalg.solve(covariance, rest) + logdet) / 2
        windows = 3 * log(2) + log(self._score_share)
        return log2(comb(n + k - 1, k - 1)) + float(density + windows) / log(2)

    def _terms_at(self, lmbda: float) -> _Terms:
        values, k = self._opened.values, len(self._opened.values)
        domain = Domain.from_bounds([self._opened.bounds] * k, k)
        n, lambdas = np.full(k, self._opened.n), np.full(k, lmbda)
        encoding = choose_encoding(domain, n, lambdas)
        limbs = int(encoding.limbs.max())
        silo = ArraySilo(values[None], domain, [str(value) for value in values])
        every = np.arange(k)
        sums = silo.sums(every, lambdas, encoding, limbs)
        y, d = wide.to_ints(sums.y), wide.to_ints(sums.d)
        phi = wide.to_ints(silo.phi_sum(every, limbs))
        yy, yd = wide.to_ints(sums.yy), wide.to_ints(sums.yd)
        return _Terms(y, d, yy, yd, phi, int(encoding.grid[0]), int(domain.phi_grid()[0]))

    def _moments(self, c: list[int], terms: _Terms) -> tuple[int, int]:
        S_y = _dot(c, terms.y)
        return S_y, self._opened.n * _dot(c, terms.yy) - S_y**2

    def _score(self, c: list[int], terms: _Terms) -> int:
        n = self._opened.n
        S_y, V = self._moments(c, terms)
        covariance = n * _dot(c, terms.yd) - S_y * _dot(c, terms.d)
        return _dot(c, terms.phi) * V - (n << terms.phi_grid) * covariance

    def _prepare(self) -> None:
        """The equations, their windows, and which counts are to be expected of them."""
        o, terms = self._opened, self._terms
        n, unit = o.n, 2.0**-terms.grid
        S_y, V = o.S_y.middle, o.V.middle
        mean = round(S_y / n)
        centred = [y - mean for y in terms.y]
        y, d = (np.array(part, dtype=float) * unit for part in (centred, terms.d))
        L = np.array(terms.phi, dtype=float) * 2.0**-terms.phi_grid
        variance = V / n**2 * unit**2
        half_y, half_V = o.S_y.size / 2, max(o.V.size / 2 / n, 0.5)
        expected, fixed = np.full(len(y), n / len(y)), 2.0**64
        for _ in range(4):
            L_0, d_0 = expected @ L / n, expected @ d / n
            # The score times the variance, about averages: what is not known of mean and variance
            # then matters only where the averages are off.
            score = (L - L_0) * variance + L_0 * y**2 - y * (d - d_0)
            expected = self._expect(np.array([np.ones_like(y), y, y**2, score]), n * variance)
        slope = self._slope(expected)
        reach = (o.upper - o.lower) / 2 if np.isfinite(o.upper - o.lower) else abs(o.lmbda)
        by_bracket = slope * variance * reach
        half_score = (
            by_bracket + np.std(L) * n / 4 * half_V * unit**2 / n + np.std(d) / 4 * half_y * unit
        )
        self._score_share = by_bracket / half_score
        self._expected = expected
        self._weight = 1 / self._spread(expected)
        self._equations = np.array(
            [centred, [y * y for y in centred], [round(a * fixed) for a in score.tolist()]],
            dtype=object,
        ).T
        shift = S_y - n * mean
        self._right = np.array([shift, (V + shift**2) // n, 0], dtype=object)
        self._sharpness = 1 / np.array([half_y, half_V, half_score * fixed])

    def _spread(self, expected: Array) -> Array:
        """By how much a count may well differ from what is expected."""
        roomy = np.maximum(expected - self._own, 0) + 0.5
        if not self._informed:
            return roomy
        # Two samples of one population: each of them adds to the difference.
        return np.sqrt(roomy * (1 + self._others / (self._own.sum() + len(roomy))))

    def _slope(self, counts: Array) -> float:
        """Of the score, about: by differences."""
        o, h = self._opened, 1e-3
        x = o.values
        L = np.sign(x) * np.log1p(np.abs(x))
        scores = []
        for t in (o.lmbda - h, o.lmbda + h):
            u = np.where(x >= 0, t, 2 - t)
            y = np.sign(x) * np.expm1(u * np.abs(L)) / u
            d = (np.abs(L) * (1 + u * np.abs(y)) - np.abs(y)) / u
            y = y - counts @ y / o.n
            scores.append(counts @ L - o.n * (counts @ (y * d)) / (counts @ y**2))
        return float(abs(scores[1] - scores[0]) / (2 * h))

    def _expect(self, equations: Array, spread: float) -> Array:
        """The most plausible fractions of counts that fulfil the equations: by Newton's method.

        Any histogram alike: those farthest from all edges, where sum log(c + 1/2) is largest.
        With rows of one's own: those with the least relative entropy to these.
        """
        n, k = self._opened.n, equations.shape[1]
        scale = 1 / np.abs(equations).max(axis=1)
        A = equations * scale[:, None]
        right = np.array([n, 0.0, spread, 0.0]) * scale - A @ (self._own - 0.5)
        s = prior = self._others * (self._own + 1) / (n - self._others + k) + 0.5
        for _ in range(_NEWTON_STEPS):
            gradient = np.log(s / prior) if self._informed else -1 / s
            inverse = s if self._informed else s**2  # of the Hessian
            gap = A @ s - right
            M = (A * inverse) @ A.T
            dual = np.linalg.lstsq(M, gap - A @ (inverse * gradient), rcond=None)[0]
            step = -inverse * (gradient + A.T @ dual)
            s = s + min(1.0, 0.9 / max(float(np.max(-step / s)), 1e-9)) * step
        return s - 0.5 + self._own

    def _rows(self, Z: Integers, sharpness: Array) -> Array:
        exact = Z.astype(object) @ self._equations
        return np.hstack([Z * self._weight, exact.astype(float) * sharpness])

    def _target(self, start: Integers, sharpness: Array) -> Array:
        rest = self._right - start.astype(object) @ self._equations
        return np.concatenate(
            [(self._expected - start) * self._weight, rest.astype(float) * sharpness]
        )

    def _reduced(self) -> tuple[Integers, Integers]:
        """A reduced basis of all differences of histograms, and a histogram near the target."""
        k, n = len(self._expected), self._opened.n
        Z: Integers = np.eye(k - 1, k, dtype=np.int64) - np.eye(k - 1, k, 1, dtype=np.int64)
        start = np.rint(self._expected).astype(np.int64)
        start[0] += n - start.sum()
        largest = np.abs(self._equations).max(axis=0).astype(float)
        sharpness = self._weight.mean() / largest
        while True:
            sharpness = np.minimum(sharpness * 2.0**_BITS_AT_ONCE, self._sharpness)
            Z = lll(self._rows(Z, sharpness)) @ Z
            rows, target = self._rows(Z, sharpness), self._target(start, sharpness)
            start = start + _babai(rows, target) @ Z
            if np.all(sharpness == self._sharpness):
                return Z, start


def _dot(c: list[int], terms: list[int]) -> int:
    return sum(map(mul, c, terms))


def _babai(rows: Array, target: Array) -> Integers:
    """Coefficients of a point near the target: the nearest plane, again and again."""
    Q, R = np.linalg.qr(rows.T)
    rest = Q.T @ target
    z = np.zeros(len(rows), dtype=np.int64)
    for i in range(len(rows) - 1, -1, -1):
        z[i] = round(rest[i] / R[i, i])
        rest -= z[i] * R[:, i]
    return z

"""The likelihood in many digits: the judge of all float64 results.

Formulas are written from the definition and share nothing with the package. When all values
lie on one side of zero the constant of Psi drops out of variances and is left out, since no
number of digits would make up for it.
"""

from __future__ import annotations

import json
import math
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from mpmath import mp, mpf

from securefedyj.numerics.arrays import Array

_DIGITS = 40
_NEWTON_STEPS = 50
_PROVEN = 1e-14  # relative distance within which a change of sign encloses the optimum
_FIXTURE = Path(__file__).parents[1] / "tests" / "data" / "oracle_108.json"


class Derivatives(NamedTuple):
    """Of the log-likelihood, in lambda; for the margin see `derivatives`."""

    score: mpf
    curvature: mpf
    margin: mpf


@cache
def oracle_108() -> dict[tuple[str, int], float]:
    """lambda* of the paper's 108 features to 30 digits, rounded to float64."""
    rows = json.loads(_FIXTURE.read_text(encoding="utf-8"))["features"]
    return {(row["dataset"].replace("_", " "), row["column"]): float(row["lambda"]) for row in rows}


def derivatives(x: Array, lmbda: float | mpf) -> Derivatives:
    """Score and curvature of the log-likelihood at lambda.

    The curvature of -log L is n (a - b) with a = (Var(y') + Cov(y, y'')) / Var(y) and
    b = 2 (Cov(y, y') / Var(y))^2; the margin is (a - b) / (|a| + b), what is left of it after
    cancellation.
    """
    values, counts = np.unique(x, return_counts=True)
    with mp.workdps(_digits(values, float(lmbda))):
        lam = mp.convert(lmbda)
        logs = _signed_logs(tuple(values.tolist()), mp.prec)
        one_sided = values[0] >= 0 or values[-1] < 0
        rows = [_psi(u, lam, 0 if one_sided else 1) for u in logs]
        weights = [int(c) for c in counts]
        n = sum(weights)
        y, d, dd = (_centred([row[k] for row in rows], weights, n) for k in range(3))
        k00, k01 = _mean(y, y, weights, n), _mean(y, d, weights, n)
        k11, k02 = _mean(d, d, weights, n), _mean(y, dd, weights, n)
        phi = mp.fsum(w * u for w, u in zip(weights, logs, strict=True))
        a, b = (k11 + k02) / k00, 2 * (k01 / k00) ** 2
        return Derivatives(phi - n * k01 / k00, -n * (a - b), (a - b) / (abs(a) + b))


def optimum(x: Array, start: float) -> float:
    """lambda* of x by Newton's method from a start close to it, and proven.

    The score falls strictly, so a change of its sign between two points encloses the optimum.
    """
    lam = mpf(start)
    step = mpf("inf")
    for _ in range(_NEWTON_STEPS):
        if abs(step) < 1e-9 * max(abs(lam), mpf("1e-3")):
            break
        at = derivatives(x, lam)
        step = -at.score / at.curvature
        lam += step
    reach = _PROVEN * max(abs(lam), mpf("1e-3"))
    if not derivatives(x, lam - reach).score > 0 > derivatives(x, lam + reach).score:
        raise ArithmeticError(f"no optimum was found from the start {start!r}")
    return float(lam)


def _psi(u: mpf, lam: mpf, constant: int) -> tuple[mpf, mpf, mpf]:
    """Psi and its first two derivatives in lambda at x with sgn(x) log(1 + |x|) = u."""
    if u < 0:
        y, d, dd = _branch(-u, 2 - lam, constant)
        return -y, d, -dd
    return _branch(u, lam, constant)


def _branch(u: mpf, lam: mpf, constant: int) -> tuple[mpf, mpf, mpf]:
    if not lam:
        return u, u**2 / 2, u**3 / 3
    power = mp.exp(lam * u)
    y = (power - constant) / lam
    d = (u * power - y) / lam
    return y, d, (u * u * power - 2 * d) / lam


def _centred(terms: list[mpf], weights: list[int], n: int) -> list[mpf]:
    mean = mp.fsum(w * t for w, t in zip(weights, terms, strict=True)) / n
    return [t - mean for t in terms]


def _mean(a: list[mpf], b: list[mpf], weights: list[int], n: int) -> mpf:
    return mp.fsum(w * s * t for w, s, t in zip(weights, a, b, strict=True)) / n


@lru_cache(maxsize=8)
def _signed_logs(values: tuple[float, ...], prec: int) -> tuple[mpf, ...]:
    """sgn(x) log(1 + |x|); kept, since the same data come at several lambdas."""
    with mp.workprec(prec):
        return tuple(mp.sign(v) * mp.log1p(abs(mpf(v))) for v in values)


def _digits(values: Array, lmbda: float) -> int:
    """Digits that leave about 40 after all cancellations.

    Values that lie a relative delta apart lose three times its digits; u near 0 loses as many
    for each division by u; with both sides, w may fall far below the constant it is added to.
    """
    logs = np.sign(values) * np.log1p(np.abs(values))
    gaps = np.diff(logs)
    gap = float(gaps[gaps > 0].min(initial=1.0))
    lost = -3 * math.log10(min(gap, 1.0))
    for u in (lmbda, 2 - lmbda):
        lost += 3 * max(0.0, -math.log10(abs(u))) if u else 0.0
    if values[0] < 0 <= values[-1]:
        decay = max(-lmbda * logs[-1], (2 - lmbda) * logs[0], 0.0)
        lost += 2 * decay / math.log(10)
    return 20 * math.ceil((_DIGITS + lost + math.log10(2 + abs(lmbda))) / 20)

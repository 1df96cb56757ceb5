"""Yeo-Johnson maximum likelihood in multiple precision, as a reference for the float64 code.

Nothing here is shared with the package: formulas are written from the definition and evaluated
with so many digits that rounding does not matter. One identity is used, because no number of
digits would replace it: when all data lie on one side of zero, the constant of Ψ drops out of
variances and covariances (see ``_branch``).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from mpmath import mp, mpf

BASE_DIGITS = 60
"""Digits left after the cancellations that ``_digits`` foresees; ``optimum`` confirms at twice."""

_ROOT_TOLERANCE = mpf(10) ** -35
_AGREEMENT = mpf(10) ** -32
# An optimum can be exactly 0 (two values of one sign): relative error is then measured from here.
_SMALLEST_SCALE = mpf(10) ** -20

Lambda: TypeAlias = mpf | float | str


class Groups(NamedTuple):
    """Distinct data values and how often each occurs: ties cost nothing."""

    values: tuple[float | mpf, ...]
    counts: tuple[int, ...]


def as_box_cox(x: Iterable[float]) -> list[mpf]:
    """x/a - 1 to 900 digits: its Yeo-Johnson fit is the Box-Cox fit of x, but for an affine map."""
    values = [float(value) for value in x]
    with mp.workprec(3000):
        return [mpf(value) / mpf(min(values)) - 1 for value in values]


def group(x: Iterable[float | mpf]) -> Groups:
    """Collect ties; each value is the exact rational number that its double stands for."""
    counter = Counter(value if isinstance(value, mpf) else float(value) for value in x)
    if not all(mp.isfinite(value) for value in counter):
        raise ValueError("the oracle takes finite values only")
    if len(counter) < 2:
        raise ValueError("the likelihood is unbounded: at least two distinct values are needed")
    values = tuple(sorted(counter))
    return Groups(values, tuple(counter[value] for value in values))


def optimum(x: Iterable[float]) -> mpf:
    """Return the maximum-likelihood λ, with a relative error below 1e-30.

    It is computed with ever doubled digits until two results agree: the first number of digits is
    an estimate, and the agreement is what shows that it was enough.
    """
    groups = group(x)
    factor = 1
    previous = _solve(groups, factor, *_bracket(groups, factor, mpf(0), mpf(1)))
    while True:
        factor *= 2
        radius = _scale(previous) * mpf(10) ** -25
        current = _solve(groups, factor, *_bracket(groups, factor, previous, radius))
        if abs(current - previous) <= _AGREEMENT * _scale(current):
            return current
        previous = current


def score(x: Iterable[float], lam: Lambda) -> mpf:
    """Return the derivative of the profile log-likelihood with respect to λ."""
    return _score(group(x), lam)


def log_likelihood(x: Iterable[float], lam: Lambda) -> mpf:
    """Return the profile log-likelihood at λ, without its constant -n/2."""
    groups = group(x)
    with mp.workdps(_digits(groups.values, lam)):
        lam, n = mp.convert(lam), sum(groups.counts)
        _, variance, _, phi = _moments(groups, lam)
        return -n * mp.log(2 * mp.pi * variance) / 2 + (lam - 1) * phi


def mean_var(x: Iterable[float], lam: Lambda) -> tuple[mpf, mpf]:
    """Return mean and population variance of the transformed data."""
    groups = group(x)
    with mp.workdps(_digits(groups.values, lam)):
        lam, n = mp.convert(lam), sum(groups.counts)
        mean = _dot(groups.counts, [_psi(value, lam) for value in groups.values]) / n
        return mean, _moments(groups, lam)[1]


def transform(x: Iterable[float], lam: Lambda) -> list[mpf]:
    """Return Ψ(λ, x) of each value."""
    values = tuple(value if isinstance(value, mpf) else float(value) for value in x)
    with mp.workdps(_digits(values, lam)):
        lam = mp.convert(lam)
        return [_psi(value, lam) for value in values]


def _psi(value: float, lam: mpf) -> mpf:
    """Evaluate the definition of Ψ."""
    if value < 0:
        return -_psi(-value, 2 - lam)
    u = mp.log1p(mpf(value))
    return mp.expm1(lam * u) / lam if lam else u


def _branch(u: mpf, lam: mpf, constant: int) -> tuple[mpf, mpf]:
    """Return Ψ and dΨ/dλ for x = exp(u) - 1 >= 0, Ψ being (exp(λ u) - constant) / λ.

    The constant is 1, or 0 where it does not matter. [10, 10, 10, 10.0001] shows why it has to go
    then: at its λ of -1e5 all four Ψ are -1/λ with differences of relative size 11^-100000.
    """
    if not lam:
        return u, u**2 / 2
    power = mp.exp(lam * u)
    psi = (power - constant) / lam
    return psi, (u * power - psi) / lam


def _psi_and_slope(u: mpf, lam: mpf, constant: int) -> tuple[mpf, mpf]:
    """Extend ``_branch`` to negative x by Ψ(λ, -x) = -Ψ(2 - λ, x)."""
    if u >= 0:
        return _branch(u, lam, constant)
    psi, slope = _branch(-u, 2 - lam, constant)
    return -psi, slope


def _moments(groups: Groups, lam: mpf) -> tuple[int, mpf, mpf, mpf]:
    """Return n, Var(Ψ), Cov(Ψ, dΨ/dλ) and Σ sgn(x) log(1 + |x|), at the precision set."""
    values, counts = groups
    n = sum(counts)
    logs = _signed_logs(values, mp.prec)
    constant = 0 if values[0] >= 0 or values[-1] < 0 else 1
    pairs = [_psi_and_slope(u, lam, constant) for u in logs]
    y = _centred(counts, [pair[0] for pair in pairs])
    d = _centred(counts, [pair[1] for pair in pairs])
    variance = _dot(counts, [a * a for a in y]) / n
    covariance = _dot(counts, [a * b for a, b in zip(y, d, strict=True)]) / n
    return n, variance, covariance, _dot(counts, logs)


def _score(groups: Groups, lam: Lambda, factor: int = 1) -> mpf:
    """Evaluate the score with ``factor`` times the digits it should need."""
    with mp.workdps(factor * _digits(groups.values, lam)):
        n, variance, covariance, phi = _moments(groups, mp.convert(lam))
        return phi - n * covariance / variance


def _dot(counts: Iterable[int], terms: Iterable[mpf]) -> mpf:
    return mp.fsum(count * term for count, term in zip(counts, terms, strict=True))


def _centred(counts: tuple[int, ...], terms: list[mpf]) -> list[mpf]:
    mean = _dot(counts, terms) / sum(counts)
    return [term - mean for term in terms]


@lru_cache(maxsize=16)
def _signed_logs(values: tuple[float, ...], prec: int) -> tuple[mpf, ...]:
    """Return sgn(x) log(1 + |x|); kept, since a root search asks for the same ones again."""
    with mp.workprec(prec):
        return tuple(mp.sign(value) * mp.log1p(abs(mpf(value))) for value in values)


@lru_cache(maxsize=16)
def _closest(values: tuple[float, ...]) -> mpf:
    """Return the least difference between signed logarithms of neighbouring distinct values."""
    with mp.workdps(BASE_DIGITS):
        logs = _signed_logs(values, mp.prec)
        return min((abs(b - a) for a, b in pairwise(logs) if a != b), default=mpf(1))


def _digits(values: tuple[float, ...], lam: Lambda) -> int:
    """Return the digits with which the score keeps about BASE_DIGITS correct ones.

    With data that lie δ apart, Ψ differs by δ, its slope depends on λ by δ², and the score is a
    difference of two terms that agree up to δ: three times the digits of δ get lost. dΨ/dλ divides
    by λ² (or by (2 - λ)²) what is nearly zero when λ is, and its variation once more. Finally the
    exponential of a large number has as many digits fewer as the number has before the point.
    """
    lam = mp.convert(lam)
    largest = _signed_logs((max(map(abs, values)),), 53)[0]
    lost = 3 * (_zeros(_closest(values)) + _zeros(lam) + _zeros(2 - lam))
    before_point = max(0, mp.mag(1 + abs(lam)) + mp.mag(1 + largest))
    needed = BASE_DIGITS + math.ceil(0.302 * (lost + before_point))
    # In steps, so that neighbouring λ share the logarithms kept by _signed_logs.
    return -(-needed // 20) * 20


def _zeros(value: mpf) -> int:
    """Return the number of binary zeros after the point (0 for 0, a case without cancellation)."""
    return max(0, -mp.mag(value)) if value else 0


def _scale(lam: mpf) -> mpf:
    return max(abs(lam), _SMALLEST_SCALE)


def _bracket(groups: Groups, factor: int, start: mpf, step: mpf) -> tuple[mpf, mpf]:
    """Return low and high with score(low) >= 0 >= score(high): the score decreases in λ.

    From the start, the step in the direction of the root is doubled until the sign changes.
    """
    with mp.workdps(factor * BASE_DIGITS):
        direction = 1 if _score(groups, start, factor) > 0 else -1
        near, far = start, start + direction * step
        while _score(groups, far, factor) * direction > 0:
            step *= 2
            near, far = far, start + direction * step
        return min(near, far), max(near, far)


def _solve(groups: Groups, factor: int, low: mpf, high: mpf) -> mpf:
    """Find the root of the score in a bracket: Illinois steps, and bisection if they are slow."""
    with mp.workdps(factor * BASE_DIGITS):
        at_low, at_high = _score(groups, low, factor), _score(groups, high, factor)
        last_sign, slow, width = 0, 0, high - low
        while high - low > _ROOT_TOLERANCE * _scale(low + high):
            lam = (low + high) / 2 if slow >= 3 else _secant(low, at_low, high, at_high)
            value = _score(groups, lam, factor)
            sign = mp.sign(value)
            if sign == 0:
                return lam
            # An end that stays twice gets half its weight, so that the next step passes the root.
            weight = mpf(1) / 2 if sign == last_sign else 1
            if sign > 0:
                low, at_low, at_high = lam, value, at_high * weight
            else:
                high, at_high, at_low = lam, value, at_low * weight
            last_sign = sign
            slow, width = (0, high - low) if high - low <= width / 2 else (slow + 1, width)
        return (low + high) / 2


def _secant(low: mpf, at_low: mpf, high: mpf, at_high: mpf) -> mpf:
    if at_low == at_high:
        return (low + high) / 2
    return (low * at_high - high * at_low) / (at_high - at_low)

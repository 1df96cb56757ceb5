"""Whether a fit is right, by the oracle; how many are; and code that shows one that is not."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.fuzz import oracle
from benchmarks.fuzz.cases import Case, Outcome, most, outcomes
from benchmarks.fuzz.families import Array

# Values that differ by less, or by 2^-53 (1 + |x|) at most, may count as constant: the docstring
# of `SecureFedYJ` says so.
_CONSTANT_BELOW = 2.0**-60
# Squares of such a Z would overflow; no standardized value is as large.
_FAR_OFF = 1e150


@dataclass(frozen=True)
class Verdict:
    """How far lambda, Z, mean(Z) and var(Z) are off; what follows from a wrong lambda is 0."""

    lmbda: float = 0.0
    z: float = 0.0
    mean: float = 0.0
    var: float = 0.0
    allowed: float = oracle.PRECISION

    @property
    def right(self) -> bool:
        return max(self.lmbda, self.z, self.mean, self.var) <= self.allowed


@dataclass
class Tally:
    """What came of some features."""

    features: int = 0
    flagged: int = 0
    flagged_in_vain: int = 0
    at_bound: int = 0
    wrong: int = 0
    lmbda: float = 0.0
    z: float = 0.0
    mean: float = 0.0
    var: float = 0.0
    passes: int = 0

    def count(self, outcome: Outcome, verdict: Verdict) -> None:
        self.add(
            Tally(
                features=1,
                flagged=not outcome.converged,
                flagged_in_vain=not outcome.converged and verdict.right,
                at_bound=outcome.at_bound,
                wrong=outcome.converged and not verdict.right,
                passes=outcome.passes,
            )
        )
        if outcome.converged:
            self.add(Tally(lmbda=verdict.lmbda, z=verdict.z, mean=verdict.mean, var=verdict.var))

    def add(self, other: Tally) -> None:
        for name in ("features", "flagged", "flagged_in_vain", "at_bound", "wrong"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("lmbda", "z", "mean", "var", "passes"):
            setattr(self, name, max(getattr(self, name), getattr(other, name)))


def next_to_few_digits(x: float) -> bool:
    """Whether x looks like a number of few digits: it is taken for that (docs/protocol.md, 7)."""
    rounded = [float(f"{x:.{digits}e}") for digits in range(10)]
    return any(0 < abs(x - number) <= 2.0**-53 * (1 + abs(x)) for number in rounded)


def judge(case: Case, outcome: Outcome) -> Verdict:
    """Compare with the oracle; of a feature that is flagged, no further than needed."""
    box_cox = case.method == "box-cox"
    sample = oracle.Sample.of(case.x, box_cox)
    if sample.constant:
        off = 0.0 if outcome.lmbda == 1 else math.inf
        near = case.fit == "federated" and next_to_few_digits(float(sample.values[0]))
        allowed = 2.0**-53 if near else 0.0
        return Verdict(off, most(outcome.z), *_moments_off(outcome.z, 0.0), allowed=allowed)
    extent = float(sample.values[-1] - sample.values[0])
    largest = float(np.abs(sample.values).max())
    closest = 2.0**-53 * largest if box_cox else max(_CONSTANT_BELOW, 2.0**-53 * (1 + largest))
    if case.fit == "federated" and outcome.constant and extent <= closest:
        return Verdict(0.0 if outcome.lmbda == 1 else math.inf)
    if outcome.at_bound and outcome.converged:
        # The optimum lies beyond: the score must still point there.
        beyond = oracle.score(sample, outcome.lmbda) * math.copysign(1.0, outcome.lmbda)
        off = 0.0 if beyond > 0 else math.inf
    else:
        off = oracle.error(sample, outcome.lmbda, search=outcome.converged)
    if not off <= oracle.PRECISION:
        return Verdict(off)
    expected = oracle.standardized(sample, outcome.lmbda)
    expected = expected[np.searchsorted(sample.values, case.values)]
    with np.errstate(all="ignore"):
        z = most((outcome.z - expected) / np.maximum(1.0, np.abs(expected)))
    return Verdict(off, z, *_moments_off(outcome.z, 1.0))


def _moments_off(z: Array, var: float) -> tuple[float, float]:
    """How far mean(Z) is from 0, and var(Z) from what it should be; sums are rounded once."""
    if most(z) > _FAR_OFF:
        return math.inf, math.inf
    mean = math.fsum(z) / len(z)
    return abs(mean), abs(math.fsum((z - mean) ** 2) / len(z) - var)


def is_wrong(case: Case) -> bool:
    """Fit a feature alone: is it wrong, and not flagged?"""
    (outcome,) = outcomes([case])
    return outcome.converged and not judge(case, outcome).right


def told(case: Case, outcome: Outcome, verdict: Verdict) -> str:
    """What is wrong, and code that shows it."""
    return (
        f"WRONG ({case.fit}, {case.family}): lambda {outcome.lmbda!r} is off by "
        f"{verdict.lmbda:.2g}, Z by {verdict.z:.2g}, mean(Z) by {verdict.mean:.2g}, var(Z) by "
        f"{verdict.var:.2g}\n{reproduction(case, lambda x: is_wrong(replace(case, x=x)))}"
    )


def reproduction(case: Case, wrong: Callable[[Array], bool]) -> str:
    """Code that shows the error again, with as few values as do."""
    x, varies = case.x, _varies(case.x)
    while 2 < len(x) <= 400:
        for size in {len(x) // 2, len(x) - 1}:
            parts = (x[:size], x[-size:], x[::2]) if size > 1 else ()
            alike = [part for part in parts if _varies(part) == varies and _known(part) > 1]
            smaller = next((part for part in alike if wrong(part)), None)
            if smaller is not None:
                x = smaller
                break
        else:
            break
    values = f"np.array({x.tolist()!r})" if len(x) <= 60 else case.source
    steps = f"method={case.method!r}, max_steps={case.max_steps}"
    estimator = (
        f"SecureFedYJ(engine='clear', bounds={case.bounds}, {steps}).fit([x[:, None]])"
        if case.fit == "federated"
        else f"ExpYJ(solver={case.fit!r}, {steps}).fit(x[:, None])"
    )
    return f"    x = {values}\n    {estimator}"


def _known(x: Array) -> int:
    return int(np.count_nonzero(~np.isnan(x)))


def _varies(x: Array) -> bool:
    return len(np.unique(x[~np.isnan(x)])) > 1

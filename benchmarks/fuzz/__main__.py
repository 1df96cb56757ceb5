"""Fit random features and check every fit by the oracle.

    python -m benchmarks.fuzz --minutes 10 --seed 7
    python -m benchmarks.fuzz --features 200 --family narrow

A feature is wrong if lambda is off by more than 1e-9 of max(|lambda|, 1/sqrt(|score'|/n)), or a
transformed value by more than 1e-9 of max(1, |z|), and nothing says so (`converged_`). The exit
code is 1 if there is any; each is printed as code that shows it again, with as few values as do.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.fuzz import oracle
from benchmarks.fuzz.families import FAMILIES, MANY_ROWS
from securefedyj import ExpYJ, SecureFedYJ

Array = NDArray[np.float64]

_AT_ONCE = 60  # features in a federated fit
_DEFAULT = 2.0**20
_LARGEST = 2.0**100
_SMALLEST = 2.0**-40


@dataclass
class Tally:
    """What came of one family with one fit."""

    features: int = 0
    flagged: int = 0
    flagged_in_vain: int = 0
    at_bound: int = 0
    wrong: int = 0
    worst_lambda: float = 0.0
    worst_z: float = 0.0
    worst_mean: float = 0.0
    worst_var: float = 0.0
    most_passes: int = 0


@dataclass(frozen=True)
class Case:
    """One feature and how it is fitted."""

    family: str
    fit: str  # "newton", "expsearch" or "federated"
    x: Array = field(repr=False)
    bounds: tuple[float, float] | None = None
    max_steps: int = 40


@dataclass(frozen=True)
class Outcome:
    """What a fit says of one feature."""

    lmbda: float
    converged: bool
    at_bound: bool
    z: Array = field(repr=False)  # of the distinct values, ascending
    z_rows: Array = field(repr=False)  # of all values
    passes: int = 0


def fit_pooled(case: Case) -> Outcome:
    yj = ExpYJ(solver=case.fit, max_steps=case.max_steps)
    values = np.unique(case.x[~np.isnan(case.x)] + 0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yj.fit(case.x[:, None])
        return Outcome(
            float(yj.lambdas_[0]),
            _converged(yj)[0],
            bool(yj.at_bound_[0]),
            yj.transform(values[:, None])[:, 0],
            yj.transform(case.x[:, None])[:, 0],
            len(yj.path_),
        )


def fit_federated(cases: Sequence[Case]) -> list[Outcome]:
    """All features in one fit, which pads the shorter ones with NaN."""
    X = np.full((max(len(case.x) for case in cases), len(cases)), np.nan)
    for j, case in enumerate(cases):
        X[: len(case.x), j] = case.x
    bounds = [case.bounds or (-_DEFAULT, _DEFAULT) for case in cases]
    fed = SecureFedYJ(engine="clear", bounds=bounds, max_steps=cases[0].max_steps)
    outcomes = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fed.fit([X])
        Z, converged = fed.transform(X), _converged(fed)
        for j, case in enumerate(cases):
            present = ~np.isnan(case.x)
            _, first = np.unique(case.x[present] + 0.0, return_index=True)
            z = Z[: len(case.x), j][present]
            # Values that differ by less than the grid count as constant, and the result says so.
            said = converged[j] and bool(fed.var_[j] > 0)
            outcomes.append(
                Outcome(float(fed.lambdas_[j]), said, bool(fed.at_bound_[j]), z[first], z)
            )
    return outcomes


def _converged(fitted: Any) -> list[bool]:
    return [bool(one) for one in fitted.converged_]


@dataclass(frozen=True)
class Verdict:
    lmbda_error: float
    z_error: float

    @property
    def right(self) -> bool:
        return self.lmbda_error == 0.0 and self.z_error <= oracle.PRECISION


def judge(case: Case, outcome: Outcome, tally: Tally) -> Verdict:
    """Compare with the oracle, and count."""
    sample = oracle.Sample.of(case.x)
    tally.features += 1
    tally.flagged += not outcome.converged
    tally.at_bound += outcome.at_bound
    tally.most_passes = max(tally.most_passes, outcome.passes)
    if outcome.at_bound and outcome.converged:
        # The optimum lies beyond: the score must still point there.
        beyond = oracle.score(sample, outcome.lmbda) * math.copysign(1.0, outcome.lmbda)
        verdict = Verdict(0.0 if beyond > 0 else math.inf, 0.0)
    else:
        off = oracle.error(sample, outcome.lmbda)
        verdict = Verdict(off, _z_error(sample, outcome) if off == 0.0 else 0.0)
    if not outcome.converged:
        tally.flagged_in_vain += verdict.right
        return verdict
    tally.wrong += not verdict.right
    tally.worst_lambda = max(tally.worst_lambda, verdict.lmbda_error)
    tally.worst_z = max(tally.worst_z, verdict.z_error)
    if verdict.right and not outcome.at_bound:
        z = outcome.z_rows[~np.isnan(outcome.z_rows)]
        tally.worst_mean = max(tally.worst_mean, abs(float(np.mean(z))))
        tally.worst_var = max(tally.worst_var, abs(float(np.mean(z * z)) - 1))
    return verdict


def _z_error(sample: oracle.Sample, outcome: Outcome) -> float:
    expected = oracle.standardized(sample, outcome.lmbda)
    return float(np.max(np.abs(outcome.z - expected) / np.maximum(1.0, np.abs(expected))))


def bounds_for(x: Array, rng: np.random.Generator) -> tuple[float, float] | None:
    """The default bounds where they hold the values, or others from tight to far too wide."""
    largest = float(np.nanmax(np.abs(x)))
    kind = int(rng.integers(4))
    if kind == 0 and largest <= _DEFAULT:
        return None
    wide = largest * 2.0 ** rng.choice([0.0, 1.0, 5.0, 20.0])
    wide = min(max(wide, 2 * _SMALLEST), _LARGEST)
    if kind == 1:
        return (-wide, wide)
    lower = 0.0 if np.nanmin(x) >= 0 else -wide
    upper = 0.0 if np.nanmax(x) <= 0 and lower < 0 else wide
    return (lower, upper)


def reproduction(case: Case, wrong: Any) -> str:
    """Code that shows the error again, with as few values as do."""
    x = case.x
    while len(x) > 2 and len(x) <= 400:
        for size in {len(x) // 2, len(x) - 1}:
            parts = (x[:size], x[-size:], x[::2]) if size > 1 else ()
            smaller = next((part for part in parts if _distinct(part) and wrong(part)), None)
            if smaller is not None:
                x = smaller
                break
        else:
            break
    values = f"np.array({x.tolist()!r})" if len(x) <= 60 else f"... {len(x)} values of the seed"
    estimator = (
        f"SecureFedYJ(engine='clear', bounds={case.bounds}).fit([x[:, None]])"
        if case.fit == "federated"
        else f"ExpYJ(solver={case.fit!r}).fit(x[:, None])"
    )
    return f"    x = {values}\n    {estimator}"


def _distinct(x: Array) -> bool:
    present = x[~np.isnan(x)]
    return len(present) > 1 and bool(np.any(present != present[0]))


def fits(case: Case) -> Verdict:
    """Fit a feature alone and judge it; the outcome counts nowhere."""
    outcome = fit_federated([case])[0] if case.fit == "federated" else fit_pooled(case)
    tally = Tally()
    verdict = judge(case, outcome, tally)
    return Verdict(0.0, 0.0) if not outcome.converged else verdict


def pooled_cases(rng: np.random.Generator, names: Sequence[str]) -> Iterator[Case]:
    while True:
        for name in names:
            solver = "expsearch" if rng.random() < 0.2 else "newton"
            x = FAMILIES[name](rng)
            yield Case(name, solver, x, max_steps=1200 if solver == "expsearch" else 40)


def federated_cases(rng: np.random.Generator, names: Sequence[str]) -> Iterator[Case]:
    while True:
        for name in names:
            x = FAMILIES[name](rng)
            if np.nanmax(np.abs(x)) <= _LARGEST and np.nanmax(np.abs(x)) >= _SMALLEST:
                yield Case(name, "federated", x, bounds_for(x, rng))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.fuzz",
        description="Fit random features and check every fit by an oracle of hundreds of bits.",
    )
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop after so long")
    parser.add_argument("--features", type=int, default=20_000, help="of each fit, at most")
    parser.add_argument("--large", type=int, default=40, help="pooled features of 70,000 rows up")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--family", action="append", help="only this one; may be given again")
    parser.add_argument("--fit", choices=["pooled", "federated"], help="only this one")
    options = parser.parse_args(arguments)
    known = {**FAMILIES, **MANY_ROWS}
    if unknown := [name for name in options.family or () if name not in known]:
        parser.error(f"no family {unknown[0]!r}; there are {', '.join(known)}")
    names = [name for name in FAMILIES if name in (options.family or FAMILIES)]
    large = [name for name in MANY_ROWS if name in (options.family or MANY_ROWS)]
    deadline = time.monotonic() + 60 * options.minutes
    run = _Run(deadline)
    rng = np.random.default_rng(options.seed)
    for number in range(options.large if large and options.fit != "federated" else 0):
        name = large[number % len(large)]
        case = Case(name, "newton", MANY_ROWS[name](rng))
        if not run.check([case]):
            break
    if names:
        pooled = pooled_cases(np.random.default_rng([options.seed, 1]), names)
        federated = federated_cases(np.random.default_rng([options.seed, 2]), names)
        for first in range(0, options.features, _AT_ONCE):
            size = min(_AT_ONCE, options.features - first)
            if options.fit != "federated" and not run.check([next(pooled) for _ in range(size)]):
                break
            if options.fit != "pooled" and not run.check([next(federated) for _ in range(size)]):
                break
    print(run.table())
    return 1 if run.wrong else 0


class _Run:
    def __init__(self, deadline: float) -> None:
        self._deadline, self._shown = deadline, time.monotonic()
        self._tallies: dict[tuple[str, str], Tally] = {}
        self.wrong = 0

    def check(self, cases: Sequence[Case]) -> bool:
        """Fit and judge some features; False when the time is over."""
        if time.monotonic() > self._deadline:
            return False
        federated = cases[0].fit == "federated"
        outcomes = fit_federated(cases) if federated else map(fit_pooled, cases)
        for case, outcome in zip(cases, outcomes, strict=True):
            tally = self._tallies.setdefault((case.fit, case.family), Tally())
            verdict = judge(case, outcome, tally)
            if outcome.converged and not verdict.right:
                self._tell(case, outcome, verdict)
        done = sum(tally.features for tally in self._tallies.values())
        if time.monotonic() - self._shown > 10:
            self._shown = time.monotonic()
            print(f"{done} features, {self.wrong} wrong", file=sys.stderr, flush=True)
        return True

    def _tell(self, case: Case, outcome: Outcome, verdict: Verdict) -> None:
        self.wrong += 1
        if self.wrong > 25:
            return

        def still(x: Array) -> bool:
            return not fits(Case(case.family, case.fit, x, case.bounds, case.max_steps)).right

        print(
            f"WRONG ({case.fit}, {case.family}): lambda {outcome.lmbda!r} is off by "
            f"{verdict.lmbda_error:.2g}, z by {verdict.z_error:.2g}\n{reproduction(case, still)}",
            flush=True,
        )

    def table(self) -> str:
        head = (
            f"{'fit':<10} {'family':<26} {'features':>8} {'flagged':>8} {'in vain':>8} "
            f"{'edge':>6} {'wrong':>6} {'lambda':>8} {'z':>8} {'mean(Z)':>8} {'var(Z)':>8} "
            f"{'passes':>6}"
        )
        rows = [
            f"{fit:<10} {family:<26} {t.features:>8} {t.flagged:>8} {t.flagged_in_vain:>8} "
            f"{t.at_bound:>6} {t.wrong:>6} {t.worst_lambda:>8.1e} {t.worst_z:>8.1e} "
            f"{t.worst_mean:>8.1e} {t.worst_var:>8.1e} {t.most_passes:>6}"
            for (fit, family), t in sorted(self._tallies.items())
        ]
        return "\n".join([head, *rows])


if __name__ == "__main__":
    sys.exit(main())

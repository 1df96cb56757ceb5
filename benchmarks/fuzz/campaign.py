"""Tasks of the fuzzer, what comes of them, and the report of all."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from benchmarks.fuzz.cases import FITS, Case, Outcome, make, outcomes
from benchmarks.fuzz.verdict import Tally, Verdict, judge, told

_AT_ONCE = 60  # features in a federated fit
# Wrong features of one family that are printed.
_SHOWN = 3


class Task(NamedTuple):
    """Some features, which one process looks at."""

    fit: str
    families: Sequence[str]
    seed: int
    numbers: range
    deadline: float
    method: str


class Finding(NamedTuple):
    """A feature that is wrong, and not flagged."""

    case: Case
    outcome: Outcome
    verdict: Verdict


Place = tuple[str, str]
"""A fit and a family."""


def check(task: Task) -> tuple[dict[Place, Tally], list[Finding]]:
    """Fit and judge the features of a task; none if the time is over."""
    tallies: dict[Place, Tally] = {}
    found = []
    if time.time() < task.deadline:
        names = task.families
        cases = [
            make(task.fit, names[k % len(names)], task.seed, k, task.method) for k in task.numbers
        ]
        for case, outcome in zip(cases, outcomes(cases), strict=True):
            verdict = judge(case, outcome)
            tallies.setdefault((case.fit, case.family), Tally()).count(outcome, verdict)
            if outcome.converged and not verdict.right:
                found.append(Finding(case, outcome, verdict))
    return tallies, found


def tasks(options: argparse.Namespace) -> list[Task]:
    """All that is to be done, the kinds of fits mixed, so that they end together."""
    deadline = time.time() + 60 * options.minutes
    todo: list[tuple[float, Task]] = []
    for fit, known in FITS.items():
        names = [name for name in known if name in (options.family or known)]
        if not names or (options.fit and (fit == "federated") != (options.fit == "federated")):
            continue
        features, size = (options.large, 1) if fit == "large" else (options.features, _AT_ONCE)
        for first in range(0, features, size):
            numbers = range(first, min(first + size, features))
            task = Task(fit, names, options.seed, numbers, deadline, options.method)
            todo.append((first / features, task))
    return [task for _, task in sorted(todo, key=lambda pair: pair[0])]


class Report:
    """What is printed, on the way and at the end."""

    def __init__(self) -> None:
        self._tallies: dict[Place, Tally] = {}
        self._told: Counter[Place] = Counter()
        self._shown = time.monotonic()

    @property
    def wrong(self) -> int:
        return sum(tally.wrong for tally in self._tallies.values())

    def take(self, results: Iterable[tuple[dict[Place, Tally], list[Finding]]]) -> None:
        for tallies, found in results:
            for place, tally in tallies.items():
                self._tallies.setdefault(place, Tally()).add(tally)
            for one in found:
                place = one.case.fit, one.case.family
                self._told[place] += 1
                if self._told[place] <= _SHOWN:
                    print(told(*one), flush=True)
            if time.monotonic() - self._shown > 10:
                self._shown = time.monotonic()
                done = sum(tally.features for tally in self._tallies.values())
                print(f"{done:,} features, {self.wrong:,} wrong", file=sys.stderr, flush=True)

    def table(self) -> str:
        head = (
            f"{'fit':<10} {'family':<32} {'features':>8} {'flagged':>8} {'in vain':>8} "
            f"{'edge':>6} {'wrong':>6} {'lambda':>8} {'Z':>8} {'mean(Z)':>8} {'var(Z)':>8} "
            f"{'passes':>6}"
        )
        rows = [
            f"{fit:<10} {family:<32} {t.features:>8} {t.flagged:>8} {t.flagged_in_vain:>8} "
            f"{t.at_bound:>6} {t.wrong:>6} {t.lmbda:>8.1e} {t.z:>8.1e} {t.mean:>8.1e} "
            f"{t.var:>8.1e} {t.passes:>6}"
            for (fit, family), t in sorted(self._tallies.items())
        ]
        return "\n".join([head, *rows])

    def summary(self) -> str:
        """A line for the pooled fits and one for the federated ones."""
        lines = []
        for kind in ("pooled", "federated"):
            families, total = set(), Tally()
            for (fit, family), tally in self._tallies.items():
                if (fit == "federated") == (kind == "federated"):
                    families.add(family)
                    total.add(tally)
            if families:
                lines.append(
                    f"{kind}: {total.features:,} features of {len(families)} families, "
                    f"{total.wrong:,} wrong and unflagged, {total.flagged:,} flagged; worst error "
                    f"of lambda {total.lmbda:.1e}, Z {total.z:.1e}, mean(Z) {total.mean:.1e}, "
                    f"var(Z) {total.var:.1e}"
                )
        return "\n".join(lines)

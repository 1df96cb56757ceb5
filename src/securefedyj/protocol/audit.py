"""The audit: is what was revealed what the result tells, and no more?

The result is computed from what was revealed; the audit goes the other way. It recomputes every
sign of the search from the result (the paper's proposition 4.1), so the signs told nothing that
the result does not. docs/protocol.md, section 7.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from securefedyj.engines.registry import facts_of
from securefedyj.numerics.search import recover_path
from securefedyj.numerics.yeojohnson import Standardization
from securefedyj.printable import printable
from securefedyj.protocol.result import Result, compute_result
from securefedyj.protocol.reveals import (
    MAGNITUDE_STEP,
    Counts,
    Magnitudes,
    Moments,
    Reveal,
    Revealed,
    Step,
    Variation,
    lowest_opened,
)

# What every party learns about each feature.
OPENED = (
    "the number of its values over all silos together, and whether they vary;",
    "the signs of the search, which follow from lambda;",
    "lambda, mean and variance of the transformed feature: the result.",
)

# More findings than these would hide the first ones.
MOST_LISTED = 20


def audit(revealed: Revealed, result: Result | None) -> Audit:
    """Recompute from the result what was revealed on the way to it."""
    return Audit(revealed, result, list(_findings(revealed, result)))


@dataclass(frozen=True)
class Audit:
    """The outcome of an audit: what does not follow from the result, if anything."""

    revealed: Revealed = field(repr=False)
    result: Result | None = field(repr=False)
    findings: list[str]

    @property
    def passed(self) -> bool:
        return not self.findings

    def statement(self) -> str:
        """What was revealed to whom, for a reader who must answer for the data."""
        lines = [
            "What this run revealed",
            "",
            *self.who_computed(),
            "",
            "Opened to every party, and to nobody else, for each feature:",
            *(f"  - {what}" for what in OPENED),
            "",
            f"Audit: {'passed' if self.passed else 'FAILED'}.",
            *(f"  - {finding}" for finding in self.findings[:MOST_LISTED]),
        ]
        if len(self.findings) > MOST_LISTED:
            lines.append(f"  - and {len(self.findings) - MOST_LISTED} more findings")
        return "\n".join([*lines, *self._table()])

    def who_computed(self) -> list[str]:
        """The parties, the engine, and what that kept secret."""
        agreement = self.revealed.agreement
        return [
            f"Parties: {', '.join(map(printable, agreement.parties))}.",
            f"Engine: {agreement.engine}, computed by "
            f"{', '.join(map(printable, agreement.committee))}.",
            *facts_of(agreement.engine).statement,
        ]

    def _table(self) -> list[str]:
        if self.result is None:
            return []
        lines = ["", f"{'feature':<32} {'values':>9} {'signs':>6} {'lambda':>14}"]
        features, signs = self.revealed.agreement.features, self.revealed.signs_opened()
        for name, n, count, lmbda in zip(
            features, self.result.n, signs, self.result.lmbda, strict=True
        ):
            lines.append(f"{printable(name, 32):<32} {n:>9} {count:>6} {lmbda:>14.8g}")
        return lines


def _findings(revealed: Revealed, result: Result | None) -> Iterator[str]:
    if result is None:
        yield "the transcript ends without a result"
        return
    yield from _result_findings(revealed, result)
    yield from _sign_findings(revealed, result)
    yield from _number_findings(revealed, result)
    for reveal in revealed.all(Moments):
        yield from _moment_findings(reveal, revealed)


def _result_findings(revealed: Revealed, result: Result) -> Iterator[str]:
    """Does the result follow from what was revealed?"""
    names = revealed.agreement.features
    try:
        recomputed = compute_result(revealed)
    except (ArithmeticError, ValueError):
        yield "no result follows from what was revealed"
        return
    ours, theirs = ((*fit[:-1], *fit.standardization) for fit in (recomputed, result))
    fields = (*Result._fields[:-1], *Standardization._fields)
    for name, recomputed_values, told in zip(fields, ours, theirs, strict=True):
        for j in np.flatnonzero(np.asarray(recomputed_values) != np.asarray(told)):
            yield f"feature {names[j]!r}: {name} does not follow from what was revealed"


def _sign_findings(revealed: Revealed, result: Result) -> Iterator[str]:
    """Does every sign follow from the result (function F), and is every sign there once?"""
    agreement = revealed.agreement
    names, max_steps = agreement.features, agreement.max_steps
    path = recover_path(result.lmbda, max_steps, agreement.domain.limits(), result.at_bound)
    path.signs[:, result.constant] = 0  # a search that is over before it begins
    seen = np.zeros(path.signs.shape, dtype=bool)
    for reveal in revealed.all(Step):
        step = reveal.step
        for j, lmbda, delta in zip(*(part.tolist() for part in reveal[1:]), strict=True):
            where = f"feature {names[j]!r}, step {step + 1}"
            if not 0 <= step < max_steps or path.signs[step, j] == 0:
                yield f"{where}: a sign was revealed that the search does not need"
            elif seen[step, j]:
                yield f"{where}: more than one sign was revealed"
            elif path.points[step, j] != lmbda or path.signs[step, j] != delta:
                yield f"{where}: the sign {delta:+d} at {lmbda!r} does not follow from lambda"
            else:
                seen[step, j] = True
    for step, j in zip(*np.nonzero((path.signs != 0) & ~seen), strict=True):
        yield f"feature {names[j]!r}, step {step + 1}: a sign of the search is missing"


def _number_findings(revealed: Revealed, result: Result) -> Iterator[str]:
    """Was everything else revealed as often as the protocol does?"""
    p, names = revealed.n_features, revealed.agreement.features
    expected: list[tuple[str, type[Reveal], Any]] = [
        ("its count", Counts, np.ones(p)),
        ("its variation", Variation, result.n > 1),
        ("its magnitude", Magnitudes, result.n > 0),
        ("its moments", Moments, result.n > 0),
    ]
    for what, kind, wanted in expected:
        times = np.zeros(p, dtype=int)
        for reveal in revealed.all(kind):
            np.add.at(times, reveal.features, 1)
        for j in np.flatnonzero(times != wanted):
            yield f"feature {names[j]!r}: {what} revealed {times[j]} times, not {int(wanted[j])}"


def _moment_findings(reveal: Moments, revealed: Revealed) -> Iterator[str]:
    names, magnitudes = revealed.agreement.features, revealed.magnitudes()[reveal.features]
    low, _ = lowest_opened(magnitudes, revealed.agreement.result_bits)
    for j, magnitude, V, shift in zip(
        reveal.features.tolist(), magnitudes.tolist(), reveal.V, low.tolist(), strict=True
    ):
        if magnitude < 0:
            continue  # it was not revealed, which is a finding of its own
        smallest = 0 if magnitude == 0 else 1 << (MAGNITUDE_STEP * magnitude)
        if not smallest <= V << shift < 1 << (MAGNITUDE_STEP * (magnitude + 1)):
            yield f"feature {names[j]!r}: the variance is not of the magnitude that was revealed"

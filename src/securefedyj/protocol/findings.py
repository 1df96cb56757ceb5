"""What an audit finds: is what was revealed what the result tells, and no more?

docs/protocol.md, section 7.2. The result is computed from what was revealed; the audit goes the
other way. It recomputes every sign of the search from the result (the paper's proposition 4.1), so
the signs told nothing that the result does not; and it looks whether any values within the agreed
bounds can have such a mean and variance.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from securefedyj.numerics.search import recover_path
from securefedyj.numerics.yeojohnson import Standardization
from securefedyj.protocol.course import MOST_VALUES, Course
from securefedyj.protocol.reach import Interval, Reach, reach_of
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
    Verdict,
    lowest_opened,
)
from securefedyj.strict import Malformed

# No encoding has a V with as many bits as this has steps; the course knows the limit of each.
_MOST_MAGNITUDE = 1 << 10


def findings(revealed: Revealed, result: Result | None) -> Iterator[str]:
    if result is None:
        yield "the transcript ends without a result"
        return
    try:
        revealed.agreement.check()
    except ValueError as error:
        yield f"no run has such an agreement: {error}"
        return
    yield from _absurd(revealed) or _detailed(revealed, result)
    yield from _course_findings(revealed)


def _detailed(revealed: Revealed, result: Result) -> Iterator[str]:
    yield from _result_findings(revealed, result)
    yield from _sign_findings(revealed, result)
    yield from _number_findings(revealed, result)
    for reveal in revealed.all(Moments):
        yield from _moment_findings(reveal, revealed)


def _absurd(revealed: Revealed) -> list[str]:
    """Numbers that nothing should be computed with: the memory might not suffice."""
    n, names = revealed.counts(), revealed.agreement.features
    found = [
        f"feature {names[j]!r}: {n[j]} values"
        for j in np.flatnonzero((n < 0) | (n > MOST_VALUES)).tolist()
    ]
    if found:
        return found
    return [
        f"feature {names[j]!r}: no values have a variance of such a magnitude"
        for j in np.flatnonzero(revealed.magnitudes() > _MOST_MAGNITUDE).tolist()
    ]


def _course_findings(revealed: Revealed) -> Iterator[str]:
    """Was every reveal due, and is the run at its end?"""
    try:
        course = Course.of(revealed)
    except Malformed as error:
        yield f"what was revealed is not the course of a run: {error}"
        return
    if not course.complete:
        yield "what was revealed is not a whole run"


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
        ("whether it was verified", Verdict, np.full(p, revealed.agreement.verified)),
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
    """Can values within the bounds have these moments, and were they opened as agreed?"""
    agreement, chosen = revealed.agreement, reveal.features
    n, constant = revealed.counts()[chosen], revealed.constant()[chosen]
    magnitude = revealed.magnitudes()[chosen]
    lmbda = np.where(constant, 1.0, revealed.search_state().value[chosen])
    lows = lowest_opened(magnitude, agreement.result_bits)
    reach = reach_of(agreement.domain.take(chosen), n, lmbda)
    for j, k, V, V_low, S_y, y_low, same, can in zip(
        *(part.tolist() for part in (chosen, magnitude)),
        *(reveal.V, lows[0].tolist(), reveal.S_y, lows[1].tolist()),
        *(constant.tolist(), reach),
        strict=True,
    ):
        if k < 0 or can.n < 1:
            continue  # not to be revealed, or not yet: findings of their own
        where = f"feature {agreement.features[j]!r}"
        for finding in _of_one(k, Interval.of(V, V_low), Interval.of(S_y, y_low), same, can):
            yield f"{where}: {finding}"


def _of_one(
    magnitude: int, V: Interval, S_y: Interval, constant: bool, can: Reach
) -> Iterator[str]:
    """What cannot be of one feature."""
    smallest = 0 if magnitude == 0 else 1 << (MAGNITUDE_STEP * magnitude)
    if not smallest <= V.low < 1 << (MAGNITUDE_STEP * (magnitude + 1)):
        yield "the variance is not of the magnitude that was revealed"
    if not can.admits_S_y(S_y):
        yield "no values within the bounds have such a mean"
    if V.low > can.largest_V(S_y):
        yield "no values within the bounds have such a variance"
    if constant and V.low > can.largest_constant_V():
        yield "it was found not to vary, and yet has a variance"
    if not S_y.exact:
        return
    if not can.integers_exist(V, S_y.low):
        yield "no values on its grid have such a variance, with that mean"
    elif V == (0, 0) and not can.is_a_value(S_y.low // can.n):
        yield "it has no variance, and yet no value has that mean"

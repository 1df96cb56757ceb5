"""What an audit finds: does everything that was revealed follow from the result?

docs/protocol.md, section 7.2. The result is computed from what was revealed; the audit goes the
other way. It recomputes every sign of the search from the result (the paper's proposition 4.1), so
the signs say nothing that the result does not. And it checks that values within the agreed bounds
can have such a mean and variance. No rows that a silo admits can break these rules (`Reach`).
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from securefedyj.numerics.arrays import Array, Bools, Integers
from securefedyj.numerics.encoding import DIGIT, Domain, choose_encoding, is_decaying
from securefedyj.numerics.search import recover_path
from securefedyj.protocol.result import Result, y_of
from securefedyj.protocol.reveals import (
    MAGNITUDE_STEP,
    MOST_MAGNITUDE,
    Counts,
    Magnitudes,
    Moments,
    Reveal,
    Step,
    Variation,
    Verdict,
    lowest_opened,
    to_object,
)
from securefedyj.protocol.schedule import MOST_VALUES, Schedule
from securefedyj.strict import Malformed

if TYPE_CHECKING:
    from securefedyj.protocol.transcript import Transcript

# float64 keeps the order of y up to its last digits: bounds are taken with 2^-40 to spare.
_SURE_BITS = 40
# Values with the same y at lambda = 0 differ by fewer units than these at lambda = 1.
_SAME = 16
_FLOAT64_BITS = 53


def findings(transcript: Transcript) -> Iterator[str]:
    """Everything that is wrong, in a sentence each."""
    result = transcript.result
    if result is None:
        yield "the transcript ends without a result"
        return
    try:
        transcript.agreement.check()
    except ValueError as error:
        yield f"no run has such an agreement: {error}"
        return
    if absurd := _absurd(transcript):
        yield from absurd
    else:
        yield from _result_findings(transcript, result)
        yield from _sign_findings(transcript, result)
        yield from _number_findings(transcript, result)
        for reveal in transcript.all(Moments):
            yield from _moment_findings(reveal, transcript)
    yield from _schedule_findings(transcript)


def _absurd(transcript: Transcript) -> list[str]:
    """Numbers that are too large to compute with."""
    n, magnitude = transcript.counts(), transcript.magnitudes()
    found = [(j, f"{n[j]} values") for j in np.flatnonzero((n < 0) | (n > MOST_VALUES))]
    for j in np.flatnonzero(magnitude > MOST_MAGNITUDE):
        found.append((j, "no values have a variance of such a magnitude"))
    return [f"{transcript.agreement.questions[j]}: {what}" for j, what in found]


def _schedule_findings(transcript: Transcript) -> Iterator[str]:
    """Was every reveal due, and is the run at its end?"""
    try:
        schedule = Schedule.of(transcript)
    except Malformed as error:
        yield f"what was revealed does not follow the schedule of a run: {error}"
        return
    if not schedule.complete:
        yield "what was revealed is not a complete run"


def _result_findings(transcript: Transcript, result: Result) -> Iterator[str]:
    """Does the result follow from what was revealed?"""
    try:
        recomputed, points = transcript.compute_result(), transcript.compute_points()
    except (ArithmeticError, ValueError):
        yield "no result follows from what was revealed"
        return
    names, fitted = transcript.agreement.questions, transcript.agreement.asked.fitted
    theirs = to_object(result)
    for name, values in to_object(recomputed).items():
        for i in np.flatnonzero(np.array(values) != np.array(theirs[name])):
            yield f"{names[fitted[i]]}: {name} does not follow from what was revealed"
    theirs = to_object(transcript.points) if transcript.points else {}
    for name, values in (to_object(points) if points else {}).items():
        if values != theirs.get(name):
            yield f"{name} of the quantiles does not follow from what was revealed"


def _sign_findings(transcript: Transcript, result: Result) -> Iterator[str]:
    """Does every sign follow from the result (function F), and is every sign there once?"""
    agreement, asked = transcript.agreement, transcript.agreement.asked
    names, limits = agreement.questions, asked.domain.limits()
    end, beyond, searched = np.zeros(len(asked)), asked.searched, asked.searched
    end[asked.fitted], beyond[asked.fitted] = result.lmbda, result.at_bound
    searched[asked.fitted] &= ~result.constant
    if (points := transcript.points) is not None:
        if not np.array_equal(points.features, np.flatnonzero(transcript.admitted())):
            return  # another finding
        end[points.features], searched[points.features] = points.number, True
    most = max(agreement.max_steps, asked.most_steps())
    path = recover_path(end, most, limits, beyond)
    path.signs[:, ~searched] = 0  # a search that is over before it begins
    path.signs[agreement.max_steps :, asked.searched] = 0
    seen = np.zeros(path.signs.shape, dtype=bool)
    for reveal in transcript.all(Step):
        step = reveal.step
        for j, lmbda, delta in zip(*(part.tolist() for part in reveal[1:]), strict=True):
            what = f"{names[j]}, step {step + 1}"
            if not 0 <= step < most or path.signs[step, j] == 0:
                yield f"{what}: a sign was revealed that the search does not need"
            elif seen[step, j]:
                yield f"{what}: more than one sign was revealed"
            elif path.points[step, j] != lmbda or path.signs[step, j] != delta:
                yield f"{what}: the sign {delta:+d} at {lmbda!r} does not follow from the result"
            else:
                seen[step, j] = True
    for step, j in zip(*np.nonzero((path.signs != 0) & ~seen), strict=True):
        yield f"{names[j]}, step {step + 1}: a sign of the search is missing"


def _number_findings(transcript: Transcript, result: Result) -> Iterator[str]:
    """Was everything else revealed as often as the protocol reveals it?"""
    p, asked = transcript.n_features, transcript.agreement.asked
    measured = transcript.measured()
    measured[asked.fitted] = result.n > 0
    several = asked.searched
    several[asked.fitted] &= result.n > 1
    expected: list[tuple[str, type[Reveal], Any]] = [
        ("its count", Counts, np.ones(p)),
        ("its variation", Variation, several),
        ("whether it was verified", Verdict, np.full(p, transcript.agreement.verified)),
        ("its magnitude", Magnitudes, measured),
        ("its moments", Moments, measured),
    ]
    for what, kind, wanted in expected:
        times = np.zeros(p, dtype=int)
        for reveal in transcript.all(kind):
            np.add.at(times, reveal.features, 1)
        for j in np.flatnonzero(times != wanted):
            name = transcript.agreement.questions[j]
            yield f"{name}: {what} revealed {times[j]} times, not {int(wanted[j])}"


def _moment_findings(reveal: Moments, transcript: Transcript) -> Iterator[str]:
    """Can values within the bounds have these moments, and were they opened as agreed?"""
    agreement, chosen = transcript.agreement, reveal.features
    n, constant = transcript.counts()[chosen], transcript.constant()[chosen]
    domain = agreement.asked.domain.take(chosen)
    constant &= agreement.asked.searched[chosen]
    magnitude = transcript.magnitudes()[chosen]
    lows = lowest_opened(magnitude, agreement.result_bits)
    reach = reach_of(domain, n, transcript.optimum()[chosen])
    for j, k, V, V_low, S_y, y_low, same, can in zip(
        *(part.tolist() for part in (chosen, magnitude)),
        *(reveal.V, lows[0].tolist(), reveal.S_y, lows[1].tolist()),
        *(constant.tolist(), reach),
        strict=True,
    ):
        if k < 0 or can.n < 1:
            continue  # not to be revealed, or not yet: other findings
        for finding in _of_one(k, Interval.of(V, V_low), Interval.of(S_y, y_low), same, can):
            yield f"{agreement.questions[j]}: {finding}"


def _of_one(
    magnitude: int, V: Interval, S_y: Interval, constant: bool, can: Reach
) -> Iterator[str]:
    """What is impossible for one feature."""
    smallest = 0 if magnitude == 0 else 1 << (MAGNITUDE_STEP * magnitude)
    if not smallest <= V.low < 1 << (MAGNITUDE_STEP * (magnitude + 1)):
        yield "the variance is not of the magnitude that was revealed"
    if not can.admits_S_y(S_y):
        yield "no values within the bounds have such a mean"
    if V.low > can.largest_V(S_y):
        yield "no values within the bounds have such a variance"
    if constant and V.low > can.largest_constant_V():
        yield "it does not vary, but has a variance"
    if S_y.low < S_y.high:
        return  # only exact sums say more
    if not can.integers_exist(V, S_y.low):
        yield "no values on its grid have such a variance, with that mean"
    elif V == (0, 0) and not can.is_a_value(S_y.low // can.n):
        yield "it has no variance, but no value has that mean"


class Interval(NamedTuple):
    """All integers from ``low`` to ``high``, such as one that was opened without its last bits."""

    low: int
    high: int

    @classmethod
    def of(cls, opened: int, shift: int) -> Interval:
        """The integers that are ``opened`` without their last bits."""
        return cls(opened << shift, (opened + 1 << shift) - 1)


class Reach(NamedTuple):
    """One feature at its lambda*: what y of a value can be, on the grid of the encoding.

    y of the bounds is as a silo computes it; what follows for n such integers is exact, or rounded
    outward.
    """

    n: int
    lowest: int
    """y of the lower bound."""
    highest: int
    slack: int
    """By how much y of another value may be beyond these, by rounding."""
    steps: tuple[int, int]
    """Residuals are multiples of this, on the positive and on the negative side."""
    constants: tuple[int, int]
    """What is added to residuals of a decaying side, else 0."""

    def largest_V(self, S_y: Interval) -> int:
        """At most this, given S_y: n values have it that are all at one bound or the other."""
        a, b = self.n * (self.lowest - self.slack), self.n * (self.highest + self.slack)
        S = min(max((a + b) // 2, S_y.low), S_y.high)
        half, width = self.n // 2, self.highest - self.lowest + 2 * self.slack
        return min((b - S) * (S - a), half * (self.n - half) * width * width)

    def admits_S_y(self, S_y: Interval) -> bool:
        a, b = self.lowest - self.slack, self.highest + self.slack
        return S_y.low <= self.n * b and self.n * a <= S_y.high

    def integers_exist(self, V: Interval, S_y: int) -> bool:
        """Whether n integers with this sum can have such a V: n divides V + S_y^2.

        V is the least where the integers differ by one at most: r (n - r) with r = S_y mod n.
        """
        r = S_y % self.n
        least = max(V.low, r * (self.n - r))
        return least + (-S_y * S_y - least) % self.n <= V.high

    def is_a_value(self, y: int) -> bool:
        """Whether y can be that of a single value: a residual has the bits of a float64."""
        side = 0 if y >= 0 else 1
        step = self.steps[side]
        residuals = (abs(y), abs(y) - self.constants[side])
        return any(
            not r % step and _significant_bits(r // step) <= _FLOAT64_BITS for r in residuals
        )

    def largest_constant_V(self) -> int:
        """At most this if all values have the same y at lambda = 0."""
        half = self.n // 2
        return half * (self.n - half) * _SAME * _SAME


def _significant_bits(integer: int) -> int:
    return (integer // (integer & -integer)).bit_length() if integer else 0


def reach_of(domain: Domain, n: Integers, lmbda: Array) -> list[Reach]:
    """What each feature can reach at its lambda*."""
    encoding = choose_encoding(domain, n, lmbda)
    sides = (encoding.positive, encoding.negative)
    constants = [
        _constants(u, is_decaying(L, u), encoding.grid)
        for L, u in ((domain.L_positive, lmbda), (domain.L_negative, 2 - lmbda))
    ]
    steps = [[1 << DIGIT * (spare // DIGIT) for spare in side.spare.tolist()] for side in sides]
    slack = [
        [2 * step + (1 << max(bits - _SURE_BITS, 0)) for step, bits in zip(*both, strict=True)]
        for both in zip(steps, (side.y_bits.tolist() for side in sides), strict=True)
    ]
    ends = (y_of(x, domain, n, lmbda) for x in (domain.lower, domain.upper))
    columns = (n.tolist(), *ends, map(max, *slack))
    pairs = (zip(*steps, strict=True), zip(*constants, strict=True))
    return [Reach(*row) for row in zip(*columns, *pairs, strict=True)]


def _constants(u: Array, decaying: Bools, grid: Integers) -> list[int]:
    """1/|u| on the grid where a side is decaying."""
    return [
        round(Fraction(1 / abs(a)) * (1 << f)) if decays else 0
        for a, decays, f in zip(u.tolist(), decaying.tolist(), grid.tolist(), strict=True)
    ]

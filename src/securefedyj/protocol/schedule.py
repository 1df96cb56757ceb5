"""The schedule of a run: what may be opened next, given what was revealed before.

docs/protocol.md, sections 6 and 7.2. It follows from the agreement and the reveals so far; only the
answers are new. The program itself follows it, and a reader can check that every reveal was due.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from securefedyj.errors import InputError, Unverified
from securefedyj.numerics.arrays import Array, Bools, Index, Integers
from securefedyj.numerics.encoding import Encoding, choose_encoding
from securefedyj.numerics.search import Bracket, exp_update, finished
from securefedyj.protocol.agreement import Agreement
from securefedyj.protocol.revealed import Revealed
from securefedyj.protocol.reveals import (
    MAGNITUDE_STEP,
    Counts,
    Final,
    Headers,
    Magnitudes,
    Moments,
    Possible,
    Reveal,
    Step,
    Variation,
    Verdict,
    lowest_opened,
)
from securefedyj.strict import Malformed

# Pairs of a feature and a lambda in one exchange; further features wait for the next batch.
PAIRS_AT_ONCE = 1 << 18
# Points whose totals are claimed in one exchange, at least one feature's.
POINTS_AT_ONCE = 1 << 17
# No feature has more values.
MOST_VALUES = 1 << 40
# In this version of the protocol verdict, magnitudes and moments were three openings.
VERDICT_APART = 3

REFUTED = (
    "What was revealed on the way does not hold for the sums of all silos: some party did not "
    "follow the protocol, or a machine computes wrongly. There is no result, and this run cannot "
    "continue. Find out why before you agree on another one."
)


IMPOSSIBLE = (
    "Some total of the submitted counts is negative: a silo has submitted what no rows have. Only "
    "the numbers of values were revealed. There is no result, and this run cannot continue. Find "
    "out which silo it was before you agree on another run."
)


class TooFewValues(InputError):
    """A feature has fewer values over all silos than the minimum that the parties agreed on."""


def features_at_once(agreement: Agreement) -> int:
    """How many features share their exchanges: a batch (docs/protocol.md, section 6.1)."""
    return max(1, PAIRS_AT_ONCE // ((1 << agreement.levels_per_exchange) - 1))


def exchanges_done(revealed: Revealed) -> int:
    """How many exchanges have opened these reveals; the counts are the first."""
    agreement = revealed.agreement
    size, levels = features_at_once(agreement), agreement.levels_per_exchange

    def batch(reveal: Step | Moments | Final) -> int:
        return int(reveal.features[0]) // size if len(reveal.features) else 0

    first = sum(isinstance(one, Headers | Counts | Possible) for one in revealed.reveals)
    searches = {(batch(reveal), reveal.step // levels) for reveal in revealed.all(Step)}
    ends = {batch(reveal) for reveal in revealed.reveals if isinstance(reveal, Moments | Final)}
    return first + len(searches) + len(ends)


def most_exchanges(agreement: Agreement) -> int:
    """How many exchanges a run can have."""
    asked = agreement.asked
    batches = -(-len(asked) // features_at_once(agreement))
    steps = max(agreement.max_steps * bool(asked.searched.any()), asked.most_steps())
    return exchanges_before(agreement) + batches * (-(-steps // agreement.levels_per_exchange) + 1)


def exchanges_before(agreement: Agreement) -> int:
    """How many there are before those of batches: for headers, counts, and claims about totals."""
    return 2 + len(claimed(agreement)) if agreement.submitted else 1


def claimed(agreement: Agreement) -> list[Index]:
    """The features whose totals are claimed in each exchange, by their first questions."""
    exchanges, room = list[list[int]](), 0
    if not agreement.submitted:
        return []
    for column, first in zip(*np.unique(agreement.asked.column, return_index=True), strict=True):
        points = len(agreement.points[column])
        if 0 < points <= agreement.claimed_points:
            if points > room:
                exchanges.append([])
                room = POINTS_AT_ONCE
            exchanges[-1].append(int(first))
            room -= points
    return [np.array(some, dtype=np.intp) for some in exchanges]


class NextOpening(NamedTuple):
    """The opening that comes next."""

    kind: type[Reveal]
    features: Index
    step: int
    """The number of earlier steps of the search, for these features."""
    lmbda: Array
    """Where the features are evaluated: at first at 0, for magnitudes and moments at lambda*."""


class Schedule:
    """The state of a run, reveal by reveal: the only authority on what may be opened next."""

    def __init__(self, agreement: Agreement) -> None:
        try:
            agreement.check()
        except ValueError as error:
            raise Malformed(str(error)) from None
        asked, size, self.agreement = agreement.asked, len(agreement.asked), agreement
        self.n: Integers = np.zeros(size, dtype=np.int64)
        self.rank: Integers = np.zeros(size, dtype=np.int64)
        """Of the quantiles that are asked for, once n is known."""
        self.admitted = np.zeros(size, dtype=bool)
        """Which quantiles are asked for, of too few values none."""
        self._limits = asked.domain.limits()
        self.bracket = Bracket.start(size, self._limits)
        """Where the signs so far have led each search."""
        self.magnitude: Integers = np.full(size, -1, dtype=np.int64)
        """The magnitude of V where it was revealed; -1 elsewhere."""
        self.varies = np.zeros(size, dtype=bool)
        """Which features were found to vary, so far."""
        self.refuted = False
        """Whether a verdict says that what was revealed or submitted does not hold."""
        self._claimed = claimed(agreement)
        self._size = features_at_once(agreement)
        self._first, self._step = 0, 0
        self._stage: type[Reveal] = Variation
        given = np.flatnonzero(agreement.questions_given)
        first = (Headers, given) if agreement.submitted else (Counts, np.arange(size))
        self.due: NextOpening | None = _at_zero(*first)
        """What may be revealed next; None at the end, and where a run ends without a result."""

    @classmethod
    def of(cls, transcript: Revealed) -> Schedule:
        """Replay a transcript; raises Malformed at the first reveal that was not due."""
        schedule = cls(transcript.agreement)
        for number, reveal in enumerate(transcript.reveals, start=1):
            try:
                schedule.take(reveal)
            except Malformed as error:
                raise Malformed(f"reveal {number}: {error}") from None
        return schedule

    @property
    def complete(self) -> bool:
        """Whether all was revealed that the result needs."""
        return self.due is None and not len(self.too_few()) and not self.refuted

    @property
    def batch(self) -> Index:
        """The questions that share the present exchange."""
        return np.arange(self._first, min(self._first + self._size, len(self.n)))

    @property
    def several(self) -> Index:
        """Those of the batch that are asked whether they vary, before a search for lambda."""
        batch = self.batch
        return batch[(self.n[batch] > 1) & self.agreement.asked.searched[batch]]

    @property
    def searching(self) -> Index:
        """Those of the batch whose search may take another step."""
        batch, unknown = self.batch, self._stage is Variation
        scored = np.isin(batch, self.several) if unknown else self.varies[batch]
        scored &= self._step < self.agreement.max_steps
        over = finished(self.bracket.take(batch))
        return batch[(scored | self.admitted[batch]) & ~over]

    def optimum(self, features: Index) -> Array:
        """lambda* of some features, as far as the search has come, or `Domain.at_constants`."""
        nearest = self.agreement.asked.domain.take(features).at_constants()
        return np.where(self.varies[features], self.bracket.value[features], nearest)

    @property
    def measured(self) -> Bools:
        """Of which questions magnitudes and moments are opened."""
        return (self.n > 0) & ~self.agreement.asked.ranked

    def too_few(self) -> Index:
        """The features with fewer values than agreed on: after the counts nothing else is due."""
        return np.flatnonzero(self.n < self.agreement.minimum_values)

    def check(self) -> None:
        """Raise TooFewValues or Unverified where the run has ended without a result."""
        if self.due is None and len(few := self.too_few()):
            columns = self.agreement.asked.column[few].tolist()
            counts = dict(zip(columns, self.n[few].tolist(), strict=True))
            named = (f"{self.agreement.features[j]!r} ({n})" for j, n in [*counts.items()][:5])
            raise TooFewValues(
                "SFY-RUN-001",
                f"{len(counts)} feature(s) have fewer than {self.agreement.minimum_values} values "
                f"over all silos: {', '.join(named)}. Only the numbers of values of all features "
                "were revealed. Leave the features out, or agree on another minimum.",
            )
        if self.refuted and self._claimed:
            raise Unverified("SFY-RUN-014", IMPOSSIBLE)
        if self.refuted:
            raise Unverified("SFY-RUN-002", REFUTED)

    def most_openings(self) -> int:
        """How many openings an exchange that begins here makes at most."""
        if self.due is None:
            return 0
        if self.due.kind in (Variation, Step):
            levels = min(self.agreement.levels_per_exchange, self._steps_left())
            return levels + (self.due.kind is Variation)
        return 2 if self.due.kind is Magnitudes else 1

    def _steps_left(self) -> int:
        """The most steps that a search of the batch may still take."""
        some = self.searching
        ranked = some[self.admitted[some]]
        _, lower, upper = self.bracket.take(ranked)
        points = int((upper - lower).max(initial=1))
        left = self.agreement.max_steps - self._step if len(ranked) < len(some) else 0
        return max(left, (points - 1).bit_length())

    def take(self, reveal: Reveal) -> None:
        """Take the next reveal; raises Malformed, and stays where it is, if it is not due."""
        due, kind = self.due, _word(type(reveal))
        if due is None:
            raise Malformed(f"{kind}, but nothing more may be revealed")
        if type(reveal) is not due.kind:
            raise Malformed(f"{kind} instead of {_word(due.kind)}")
        if not np.array_equal(reveal.features, due.features):
            raise Malformed(f"{kind} of other features than are due")
        lists = [part for part in reveal[1:] if isinstance(part, list | np.ndarray)]
        if any(len(part) != len(due.features) for part in lists):
            raise Malformed(f"{kind} with lists of different lengths")
        match reveal:
            case Counts():
                if np.any((reveal.n < 0) | (reveal.n > MOST_VALUES)):
                    raise Malformed("a number of values below 0 or above 2^40")
                self._take_counts(reveal.n)
            case Possible():
                self.refuted = not reveal.holds
                del self._claimed[: reveal.holds]
            case Variation():
                self.varies[reveal.features] = reveal.varies
                self._stage = Step
            case Step():
                self._take_step(reveal, due)
            case Verdict():
                self.refuted = not reveal.holds
                self._stage = Magnitudes
            case Magnitudes():
                self._take_magnitudes(reveal)
            case Moments():
                self._take_moments(reveal)
            case Final():
                self._take_final(reveal)
        self.due = self._next()

    def _take_counts(self, n: Integers) -> None:
        asked = self.agreement.asked
        _, first = np.unique(asked.column, return_index=True)
        if np.any(n != n[first[asked.column]]):
            raise Malformed("different numbers of values of one feature")
        self.n[:], self.rank[:] = n, asked.ranks(n)
        self.admitted[:] = asked.ranked
        self.admitted[list(asked.refused(n, self.agreement.minimum_values))] = False

    def _take_step(self, reveal: Step, due: NextOpening) -> None:
        if reveal.step != due.step:
            raise Malformed(f"step {reveal.step} instead of {due.step}")
        if reveal.lmbda.tobytes() != due.lmbda.tobytes():
            raise Malformed(f"step {reveal.step} at another lambda than the search has led to")
        if np.any(np.abs(reveal.delta) != 1):
            raise Malformed(f"step {reveal.step} with a sign that is neither 1 nor -1")
        here, limits = self.bracket.take(due.features), self._limits.take(due.features)
        self.bracket.put(due.features, exp_update(here, reveal.delta, limits))
        self._step += 1

    def _take_magnitudes(self, reveal: Magnitudes) -> None:
        most = (self._encoding(reveal.features).v_bits - 1) // MAGNITUDE_STEP
        if np.any((reveal.magnitude < 0) | (reveal.magnitude > most)):
            raise Malformed("a magnitude that no values within the bounds have")
        self.magnitude[reveal.features] = reveal.magnitude
        self._stage = Moments

    def _take_moments(self, reveal: Moments) -> None:
        encoding = self._encoding(reveal.features)
        n, magnitude = self.n[reveal.features], self.magnitude[reveal.features]
        y_bits = np.maximum(encoding.positive.y_bits, encoding.negative.y_bits)
        V_low, y_low = lowest_opened(magnitude, self.agreement.result_bits)
        top = MAGNITUDE_STEP * (magnitude + 1) - V_low
        for V, bits, k in zip(reveal.V, top.tolist(), magnitude.tolist(), strict=True):
            smallest = 1 << (bits - MAGNITUDE_STEP) if k else 0
            if not smallest <= V < 1 << bits:
                raise Malformed("a V that is not of its magnitude and precision")
        for S_y, count, bits, low in zip(
            reveal.S_y, n.tolist(), y_bits.tolist(), y_low.tolist(), strict=True
        ):
            largest = count << bits
            if not -largest >> low <= S_y <= largest >> low:
                raise Malformed("an S_y that no values within the bounds have")
        self._end_batch()

    def _take_final(self, reveal: Final) -> None:
        with_values = reveal.holds * self.measured[reveal.features]
        for values in (reveal.magnitude, reveal.V, reveal.S_y):
            if any(value and not some for value, some in zip(values, with_values, strict=True)):
                raise Malformed("moments of a feature that has none")
        self.refuted = not reveal.holds
        for part in reveal.parts(self.measured):
            if isinstance(part, Magnitudes):
                self._take_magnitudes(part)
            elif isinstance(part, Moments):
                self._take_moments(part)
                return
        self._end_batch()

    def _end_batch(self) -> None:
        """Go to the next batch."""
        self._first, self._step, self._stage = self._first + self._size, 0, Variation

    def _encoding(self, features: Index) -> Encoding:
        """Of y at lambda*."""
        domain = self.agreement.asked.domain.take(features)
        return choose_encoding(domain, self.n[features], self.optimum(features))

    def _next(self) -> NextOpening | None:
        """The opening that comes next; skips those for which no feature is left."""
        if self.due is not None and self.due.kind is Headers:
            return _at_zero(Counts, np.arange(len(self.n)))
        if len(self.too_few()) or self.refuted:
            return None
        if self._claimed:
            return _at_zero(Possible, self._claimed[0])
        while self._first < len(self.n):
            batch = self.batch
            if self._stage is Variation:
                if len(several := self.several):
                    return NextOpening(Variation, several, 0, self.bracket.value[several])
                self._stage = Step
            if self._stage is Step:
                if len(some := self.searching):
                    return NextOpening(Step, some, self._step, self.bracket.value[some])
                self._stage = _last_stage(self.agreement)
            if self._stage in (Final, Verdict):
                return NextOpening(self._stage, batch, self._step, self.optimum(batch))
            if len(some := batch[self.measured[batch]]):
                return NextOpening(self._stage, some, self._step, self.optimum(some))
            self._end_batch()
        return None


def _last_stage(agreement: Agreement) -> type[Reveal]:
    """What comes after the search."""
    if not agreement.verified:
        return Magnitudes
    return Verdict if agreement.version == VERDICT_APART else Final


def _at_zero(kind: type[Reveal], features: Index) -> NextOpening:
    """An opening before the search."""
    return NextOpening(kind, features, 0, np.zeros(len(features)))


def _word(kind: type[Reveal]) -> str:
    return kind.__name__.lower()

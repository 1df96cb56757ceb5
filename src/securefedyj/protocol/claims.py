"""What was revealed, as claims about the sums of all silos (docs/protocol.md, section 6.5).

The search is not verified step by step: its result can be checked by itself. Of a batch,

- n of each feature is the sum of all counts;
- V and S_y at lambda* are such as rows within the bounds can have (`within`);
- V at lambda = 0 is positive for the features that were found to vary, and not for the others;
- the score is not negative at the last point from where the search went up, and negative at the
  last one from where it went down. The likelihood is concave: its maximum lies between them.

A search that never turned has one such point. That is its start, the edge of the range, or as far
as the steps have led.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any

import numpy as np

from securefedyj.engines import Shared, SharedBits
from securefedyj.engines.interface import Verifying
from securefedyj.numerics import wide
from securefedyj.party.rounds import in_lockstep
from securefedyj.protocol.batch import Batch, Group, Input, moment_groups, score_groups


class Claims:
    """The claims of a batch, to be made in one verified exchange."""

    def __init__(self, batch: Batch, engine: Verifying) -> None:
        self._batch, self._engine = batch, engine
        course, features = batch.run.course, batch.features
        several = np.flatnonzero(batch.n > 1)
        self._varies = course.varies[features]
        self._variation = moment_groups(batch, several, np.zeros(len(several)))
        varying = np.flatnonzero(self._varies)
        _, lower, upper = course.bracket.take(features[varying])
        # The same point twice where there is one.
        ends = [
            np.where(np.isfinite(lower), lower, upper),
            np.where(np.isfinite(upper), upper, lower),
        ]
        self._scores = score_groups(batch, varying, np.array(ends)) if len(varying) else []
        self._negative = np.array([~np.isfinite(lower), np.isfinite(upper)])

    @property
    def groups(self) -> list[Group]:
        """Whose sums are wanted: moments at lambda = 0, and scores at both ends."""
        return [*self._variation, *self._scores]

    def counts(self) -> Input:
        """How many values this silo has; the input that comes after the moments at lambda*."""
        features, silo = self._batch.features, self._batch.run.silo
        own = None if silo is None else wide.from_digits(silo.count[None, features], 62, 1)
        return own, len(features), 1

    async def make(self, shared: Sequence[Shared]) -> None:
        """Make one claim of all but `within`, by the inputs of all parties."""
        sums = iter(shared)
        branches: list[Coroutine[Any, Any, None]] = [
            self._counted(next(sums)),
            *(self._varied(group, next(sums)) for group in self._variation),
            *(self._bracketed(group, next(sums)) for group in self._scores),
        ]
        del shared, sums  # large; what the branches hold is freed as they go on
        await in_lockstep(*branches)
        await self._engine.settle()

    async def within(self, group: Group, bits: SharedBits) -> None:
        """0 <= V < 2^v_bits and -n 2^y_bits <= S_y < n 2^y_bits, by all bits of V, then of S_y.

        A silo that makes V negative would have S_y opened to its last bit.
        """
        q, encoding, n = len(group.chosen), group.encoding, self._batch.n[group.chosen].tolist()
        y_bits = np.maximum(encoding.positive.y_bits, encoding.negative.y_bits).tolist()
        most_V = [1 << width for width in encoding.v_bits.tolist()]
        most_y = [count << width for count, width in zip(n, y_bits, strict=True)]
        await in_lockstep(
            self._engine.claim_below(bits[:, :q], most_V),
            self._engine.claim_below(bits[:, q:], most_y, signed=True),
        )
        await self._engine.settle()

    async def _counted(self, counts: Shared) -> None:
        await self._engine.claim_zero(counts - wide.from_digits(self._batch.n[None], 62, 1))

    async def _varied(self, group: Group, sums: Shared) -> None:
        V, _ = await self._batch.moments(self._engine, sums)
        del sums
        signs = await self._engine.negative(-V)
        self._engine.claim(signs, self._varies[group.chosen].astype(np.uint8))

    async def _bracketed(self, group: Group, sums: Shared) -> None:
        score = await self._batch.score(self._engine, sums, len(group.points), first=False)
        del sums
        signs = await self._engine.negative(score)
        expected = self._negative[:, group.places]
        self._engine.claim(signs, expected.ravel().astype(np.uint8))

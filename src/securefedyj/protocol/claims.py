"""What was revealed, as claims about the sums of all silos (docs/protocol.md, section 6.5).

The search is not verified step by step: its result can be checked by itself. Of a batch,

- n of each feature is the sum of all counts;
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

from securefedyj.engines.interface import Shared, Verifying
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
        """Of which sums are wanted: moments at 0, and scores at both ends."""
        return [*self._variation, *self._scores]

    def counts(self) -> Input:
        """How many values this silo has; the input that comes before those of the groups."""
        features, silo = self._batch.features, self._batch.run.silo
        own = None if silo is None else wide.from_digits(silo.count[None, features], 62, 1)
        return own, len(features), 1

    async def make(self, shared: Sequence[Shared]) -> None:
        """Make one claim of all, by the inputs of all parties."""
        counts, *others = shared
        of_moments, of_scores = (
            others[: len(self._variation)],
            others[len(self._variation) :],
        )
        branches: list[Coroutine[Any, Any, None]] = [self._counted(counts)]
        for group, sums in zip(self._variation, of_moments, strict=True):
            branches.append(self._varied(group, sums))
        for group, sums in zip(self._scores, of_scores, strict=True):
            branches.append(self._bracketed(group, sums))
        await in_lockstep(*branches)
        await self._engine.settle()

    async def _counted(self, counts: Shared) -> None:
        await self._engine.claim_zero(counts - wide.from_digits(self._batch.n[None], 62, 1))

    async def _varied(self, group: Group, sums: Shared) -> None:
        V, _ = await self._batch.moments(self._engine, sums)
        signs = await self._engine.negative(-V)
        self._engine.claim(signs, self._varies[group.chosen].astype(np.uint8))

    async def _bracketed(self, group: Group, sums: Shared) -> None:
        score = await self._batch.score(self._engine, sums, len(group.points), first=False)
        signs = await self._engine.negative(score)
        expected = self._negative[:, group.places]
        self._engine.claim(signs, expected.ravel().astype(np.uint8))

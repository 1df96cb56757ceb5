"""One party's run as far as it has come, and the log of its openings (section 6)."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from securefedyj.engines import Engine, Shared, SharedBits
from securefedyj.errors import ProtocolError, code_of
from securefedyj.numerics import wide
from securefedyj.numerics.arrays import Index
from securefedyj.numerics.sums import Silo
from securefedyj.numerics.wide import Limbs
from securefedyj.party.rounds import in_lockstep
from securefedyj.protocol.agreement import Agreement
from securefedyj.protocol.reveals import Counts, Reveal
from securefedyj.protocol.schedule import NextOpening, Schedule
from securefedyj.protocol.transcript import Transcript
from securefedyj.strict import Malformed

Opened = NDArray[np.uint8]
Input = tuple[Limbs | None, int, int]  # a party's vector, its size and its limbs


class OpeningLog:
    """What a run calls at each opening, with the transcript so far; this one keeps nothing.

    A party that keeps a journal, so that nothing is opened twice, extends it. All of it is
    public, except our part in `accepted`.
    """

    def exchange(self, transcript: Transcript) -> None:
        """An exchange begins: inputs are about to be shared."""

    def opening(self, transcript: Transcript) -> None:
        """We are about to send our part of the opening that follows the last reveal."""

    def accepted(self, transcript: Transcript, part: bytes) -> None:
        """Our checks have passed, and this is our part of the opening that follows.

        From now on it is not computed again: after an interruption the same part is sent.
        """

    def revealed(self, transcript: Transcript) -> None:
        """The last reveal has just been opened; nothing was sent since."""


SILENT = OpeningLog()


class RunState(NamedTuple):
    """One party's run: what it computes with, and how far it has come."""

    engine: Engine
    silo: Silo | None
    transcript: Transcript
    schedule: Schedule
    log: OpeningLog
    accepted: tuple[int, bytes] | None = None
    """The number of an opening whose parts all members accepted in an earlier session, and ours."""

    @property
    def agreement(self) -> Agreement:
        return self.transcript.agreement

    def part(self) -> bytes | None:
        """Our part of the next opening, if it is not to be computed again."""
        if self.accepted is None or self.accepted[0] != len(self.transcript.reveals):
            return None
        return self.accepted[1]

    async def share(self, engine: Engine, own: Sequence[Input]) -> list[Shared]:
        """Begin an exchange: share vectors, each with its size and limbs, in one round.

        In the same round all parties send the digest of what they have revealed so far: a party
        with another transcript is detected before anything is computed with the inputs.
        """
        branches: list[Coroutine[Any, Any, Any]] = [engine.agree(self.transcript.digest())]
        for vector, size, limbs in own:
            branches.append(engine.share(vector, size=size, limbs=limbs))
        _, *shared = await in_lockstep(*branches)
        return shared

    async def open_bits(self, engine: Engine, bits: Sequence[SharedBits]) -> Sequence[Opened]:
        """Open vectors of bits in a round, once all parties are known to have one transcript."""
        await engine.compared()
        self.log.opening(self.transcript)
        return await in_lockstep(*(engine.open_bits(some) for some in bits))

    def own_counts(self, features: Index) -> Input:
        """How many values of each feature this silo has."""
        silo, size = self.silo, len(features)
        return (
            None if silo is None else wide.from_digits(silo.count[None, features], 62, 1),
            size,
            1,
        )

    async def open_counts(self, due: NextOpening) -> None:
        """n of each feature: how many values all silos have together (section 6.1)."""
        (shared,) = await self.share(self.engine, [self.own_counts(due.features)])
        self.log.opening(self.transcript)
        counts = await self.engine.open(shared)
        self.reveal(Counts(due.features, counts[0].astype(np.int64)))

    def reveal(self, reveal: Reveal) -> None:
        """Keep what was opened, if it is possible."""
        try:
            self.schedule.take(reveal)
        except Malformed as error:
            raise ProtocolError(
                code_of(error, "SFY-RUN-003"), f"What was opened is not possible: {error}."
            ) from None
        self.transcript.reveals.append(reveal)
        self.log.revealed(self.transcript)

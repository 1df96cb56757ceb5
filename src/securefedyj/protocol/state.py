"""One party's run as far as it has come, and the log of its openings (section 6)."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from securefedyj.engines import Engine, Shared, SharedBits
from securefedyj.engines.interface import Verifying
from securefedyj.errors import ProtocolError, code_of
from securefedyj.numerics import wide
from securefedyj.numerics.arrays import Index
from securefedyj.numerics.sums import Silo
from securefedyj.numerics.weighed import LIMBS, WeighedPoints
from securefedyj.numerics.wide import Limbs
from securefedyj.party.rounds import in_lockstep
from securefedyj.protocol.agreement import Agreement
from securefedyj.protocol.reveals import Counts, Headers, Reveal
from securefedyj.protocol.schedule import MOST_VALUES, NextOpening, Schedule
from securefedyj.protocol.transcript import Transcript
from securefedyj.strict import Malformed

Opened = NDArray[np.uint8]


class Input(NamedTuple):
    """A vector of integers that a party brings into an exchange."""

    values: Limbs | None
    """Its own; of submitted features the components that a member holds, (2, limbs, size)."""
    size: int
    limbs: int
    given: bool = False
    """Whether they are submitted."""


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
    held: WeighedPoints | None
    """A member's components of what was submitted."""
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

    def exchange(self) -> Engine:
        """The engine of an exchange: in a submitted run nobody can cheat in any of them."""
        return self.engine.verified() if self.agreement.submitted else self.engine

    async def share(self, engine: Engine, own: Sequence[Input]) -> list[Shared]:
        """Begin an exchange: share vectors in one round; those that are given take none.

        In the same round all parties send the digest of what they have revealed so far: a party
        with another transcript is detected before anything is computed with the inputs.
        """
        branches: list[Coroutine[Any, Any, Any]] = [engine.agree(self.transcript.digest())]
        branches += [
            engine.share(one.values, size=one.size, limbs=one.limbs) for one in own if not one.given
        ]
        _, *shared = await in_lockstep(*branches)
        live: Iterator[Shared] = iter(shared)

        def vector(one: Input) -> Shared:
            if not one.given:
                return next(live)
            assert isinstance(engine, Verifying)
            return engine.given(one.values, size=one.size, limbs=one.limbs)

        return list(map(vector, own))

    async def open_bits(self, engine: Engine, bits: Sequence[SharedBits]) -> Sequence[Opened]:
        """Open vectors of bits in a round, once all parties are known to have one transcript."""
        await engine.compared()
        self.log.opening(self.transcript)
        return await in_lockstep(*(engine.open_bits(some) for some in bits))

    def parted(self, questions: Index) -> list[Index]:
        """The live questions and the submitted ones, where there are some."""
        given = self.agreement.questions_given[questions]
        return [part for part in (questions[~given], questions[given]) if len(part)]

    def own_counts(self, features: Index) -> Input:
        """How many values each feature has here; of submitted ones in limbs that hold anything."""
        if self.agreement.questions_given[features[0]]:
            held = self.held
            own = None if held is None else held.apart(held.count(features))
            return Input(own, len(features), LIMBS, given=True)
        silo = self.silo
        counts = None if silo is None else wide.from_digits(silo.count[None, features], 62, 1)
        return Input(counts, len(features), 1)

    async def open_headers(self, due: NextOpening, own: bytes | None) -> None:
        """What all members compute with; every party notes it."""
        self.log.opening(self.transcript)
        digest = await self.engine.verified().announced(own)
        self.reveal(Headers(due.features, digest.hex()))

    async def open_counts(self, due: NextOpening) -> None:
        """n of each feature: how many values all silos have together (section 6.1)."""
        parts, engine = self.parted(due.features), self.exchange()
        shared = await self.share(engine, list(map(self.own_counts, parts)))
        if isinstance(engine, Verifying):
            await engine.check()
        self.log.opening(self.transcript)
        opened = await in_lockstep(*map(engine.open, shared))
        n = np.zeros(len(due.features), dtype=np.int64)
        for part, counts in zip(parts, opened, strict=True):
            n[part] = [min(max(count, -1), MOST_VALUES + 1) for count in wide.to_ints(counts)]
        self.reveal(Counts(due.features, n))

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

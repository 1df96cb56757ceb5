"""One result for all: what the parties end with, compared before anybody writes it."""

from __future__ import annotations

import hashlib
from collections.abc import Collection

from securefedyj.network.errors import EndOfRun, NotVerified
from securefedyj.network.session.events import Outcome
from securefedyj.network.session.memory import NEW_RUN, Memory
from securefedyj.network.session.peers import Peer
from securefedyj.party.messages import Message
from securefedyj.protocol.program import TooFewValues


def digest_of(memory: Memory, outcome: Outcome) -> str:
    """What the parties compare: of the transcript with its result, if there is one."""
    known = memory.transcript if isinstance(outcome, TooFewValues) else outcome
    return hashlib.sha256(known.to_text().encode()).hexdigest()


class Conclusion:
    """Our outcome, as soon as it is known, and what the peers say of theirs.

    Parameters
    ----------
    memory
        What was revealed.
    peers
        All peers.
    """

    def __init__(self, memory: Memory, peers: Collection[Peer]) -> None:
        self._memory, self._peers = memory, peers
        self.outcome: Outcome | None = None
        self.digest = ""
        self._error: EndOfRun | None = None
        if memory.finished:
            self.reach()

    def reach(self) -> list[Message]:
        """Compute the outcome from what was revealed; `check` raises what went wrong.

        It is a step of the computation, which has no messages for the peers.
        """
        try:
            self.outcome = self._memory.outcome()
            self.digest = digest_of(self._memory, self.outcome)
        except EndOfRun as error:
            self._error = error
        return []

    def check(self) -> None:
        """Refuse an outcome that does not pass the audit, or that differs from a peer's.

        What all have confirmed stays, whatever a peer says later.
        """
        if self._error is not None:
            raise self._error
        if self._memory.confirmed:
            return
        for peer in self._peers:
            if self.digest and peer.done and peer.done != self.digest:
                raise EndOfRun(
                    "SFY-JOIN-036",
                    f"Party {peer.name} has another result than we: some party does not follow "
                    f"the protocol. No result is written. {NEW_RUN}",
                )

    def hear_end(self, peer: str, *, unverified: bool) -> None:
        """End the run as a peer has; who has all of the result still waits for the others."""
        if self.outcome is not None:
            return
        if unverified:
            raise NotVerified
        raise EndOfRun(
            "SFY-JOIN-035",
            f"Party {peer} has ended this run for good; it is told there why. {NEW_RUN}",
        )

    @property
    def all_done(self) -> bool:
        """Whether all have the same result, and ours is still to be written."""
        self.check()
        known = self.outcome is not None and not self._memory.confirmed
        return known and all(peer.done for peer in self._peers)

    @property
    def all_kept(self) -> bool:
        """Whether all have written it."""
        return bool(self._memory.confirmed) and all(peer.kept for peer in self._peers)

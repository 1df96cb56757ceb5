"""How a run ends: with one result for all, compared before anybody writes it, or for good."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection

from securefedyj.errors import ProtocolError, Unverified, code_of
from securefedyj.network.errors import EndOfRun, JoinError, NotVerified, OwnTrouble
from securefedyj.network.session.events import Outcome
from securefedyj.network.session.memory import NEW_RUN, Drained, Memory
from securefedyj.network.session.peers import Peer
from securefedyj.numerics.passes import ChangedData
from securefedyj.party.messages import Message
from securefedyj.protocol.schedule import TooFewValues


def digest_of(memory: Memory, outcome: Outcome) -> str:
    """What the parties compare: of the transcript with its result, if there is one."""
    known = memory.transcript if isinstance(outcome, TooFewValues) else outcome
    return hashlib.sha256(known.to_text().encode()).hexdigest()


class Conclusion:
    """Our outcome, as soon as it is known, compared with those of the peers."""

    def __init__(self, memory: Memory, peers: Collection[Peer]) -> None:
        self._memory, self._peers = memory, peers
        self.outcome: Outcome | None = None
        self.digest = ""
        self._error: EndOfRun | None = None
        if memory.finished:
            self.reach()

    def reach(self) -> list[Message]:
        """Compute the outcome from what was revealed, a step without messages for the peers."""
        try:
            self.outcome = self._memory.outcome()
            self.digest = digest_of(self._memory, self.outcome)
        except EndOfRun as error:
            self._error = error
        return []

    def check(self) -> None:
        """Refuse an outcome that does not pass the audit, or that differs from a peer's."""
        if self._error is not None:
            raise self._error
        if self._memory.confirmed:  # the result stays, whatever a peer says later
            return
        for peer in self._peers:
            if self.digest and peer.done and peer.done != self.digest:
                raise EndOfRun(
                    "SFY-JOIN-036",
                    f"Party {peer.name} has a different result: some party does not follow "
                    f"the protocol. No result is written. {NEW_RUN}",
                )

    def hear_end(self, peer: str, *, unverified: bool) -> None:
        """End the run as a peer has; a party with all of the result still waits for the others."""
        if self.outcome is not None:
            return
        if unverified:
            raise NotVerified
        raise EndOfRun(
            "SFY-JOIN-035",
            f"Party {peer} has ended this run for good; the reason is shown there. {NEW_RUN}",
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


def check_end(error: Exception | None) -> None:
    """Raise what has ended a program early, as an error for the user."""
    if error is None or isinstance(error, TooFewValues | Drained):
        return
    if isinstance(error, EndOfRun | OwnTrouble):
        raise error
    if isinstance(error, Unverified):
        raise NotVerified from error
    if isinstance(error, OSError | ChangedData):
        raise OwnTrouble(code_of(error, "SFY-JOIN-047"), str(error)) from error
    if isinstance(error, ProtocolError | JoinError):
        raise JoinError(code_of(error, "SFY-JOIN-048"), str(error)) from error
    # The text of an error of another library may contain values: only its name is safe.
    raise JoinError(
        "SFY-JOIN-046", f"The computation failed here ({type(error).__name__})."
    ) from error


def count_interruptions(memory: Memory, most: int, earlier: int) -> str:
    """How often a run was interrupted, and by whom (docs/security.md, section 6).

    Each of the `earlier` runs over the same columns that did not finish counts as one. Raises
    EndOfRun after more than `most`.
    """
    by = Counter(one.by for one in memory.interruptions)
    if earlier:
        by["earlier runs that did not finish"] += earlier
    count = by.total()
    whose = ", ".join(f"{times} by {who}" for who, times in by.most_common())
    if len(by) == 1:
        whose = {1: "by ", 2: "both by "}.get(count, "all by ") + next(iter(by))
    some = "interruption" if most == 1 else "interruptions"
    summary = f"{count} of at most {most} {some}, {whose}."
    if count > most:
        raise EndOfRun(
            "SFY-JOIN-017",
            f"This run was interrupted too often: {summary} It ends here, because a party that "
            f"does not follow the protocol may interrupt to ask again. Find out why. {NEW_RUN}",
        )
    return summary

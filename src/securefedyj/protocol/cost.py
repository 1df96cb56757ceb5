"""What a run took: rounds, bytes and seconds (docs/protocol.md, section 9, has the formulas)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Cost:
    """What a run took: at all parties if they share a process, else at one of them."""

    rounds: int | None
    """Rounds of messages; None with engine mpyc on one machine, which does not count them."""
    bytes_sent: Mapping[str, Mapping[str, int]]
    """By each party to each of its peers, headers included."""
    seconds_local: float
    """For preparing the rows and for the exact sums: of all silos in one process, or with engine
    mpyc in the process that took longest."""
    seconds_secure: float
    """For everything else that was computed; with engine mpyc also for waiting."""
    seconds_waiting: float = 0.0
    """For waiting for messages of others."""
    bytes_received: Mapping[str, int] = field(default_factory=dict)
    """By each party, headers included, as far as it is counted."""

    @classmethod
    def of_all(
        cls,
        rounds: int | None,
        bytes_sent: Mapping[str, Mapping[str, int]],
        seconds_local: float,
        seconds_secure: float,
    ) -> Cost:
        """The cost at all parties of a run on one machine, where what was sent has arrived."""
        sent = {name: dict(own) for name, own in bytes_sent.items()}
        received = {name: sum(own.get(name, 0) for own in sent.values()) for name in sent}
        return cls(rounds, sent, seconds_local, seconds_secure, bytes_received=received)

    def sent_by(self, party: str) -> int:
        """Bytes that a party sent to all its peers."""
        return sum(self.bytes_sent[party].values())

    def to_json(self, party: str) -> dict[str, Any]:
        """The content of cost.json (docs/parameters.md): what the run took at one party."""
        return {
            "party": party,
            "rounds": self.rounds,
            "bytes_sent": self.sent_by(party),
            "bytes_received": self.bytes_received[party],
            "seconds_local": self.seconds_local,
            "seconds_secure": self.seconds_secure,
            "seconds_waiting": self.seconds_waiting,
        }

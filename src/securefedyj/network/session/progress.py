"""How far a run is, by what was revealed, and what its sessions took. All of it is public."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from securefedyj.party.machine import Party
from securefedyj.protocol.cost import Cost
from securefedyj.protocol.reveals import Counts, Moments, Step
from securefedyj.protocol.schedule import features_at_once
from securefedyj.protocol.transcript import Transcript


class Progress(NamedTuple):
    """How far a run is."""

    exchange: int
    exchanges_at_most: int
    features_unfinished: int
    rounds: int
    bytes_sent: int
    seconds: float
    """Since the session began."""
    seconds_left: float
    """At most, by the exchanges so far."""


def exchanges_done(transcript: Transcript) -> int:
    """How many exchanges have opened these reveals; the counts are the first."""
    agreement = transcript.agreement
    size, levels = features_at_once(agreement), agreement.levels_per_exchange

    def batch(reveal: Step | Moments) -> int:
        return int(reveal.features[0]) // size if len(reveal.features) else 0

    counts = any(True for _ in transcript.all(Counts))
    searches = {(batch(reveal), reveal.step // levels) for reveal in transcript.all(Step)}
    ends = {batch(reveal) for reveal in transcript.all(Moments)}
    return counts + len(searches) + len(ends)


def prefix(transcript: Transcript, length: int) -> Transcript:
    """A copy of the first reveals, to continue from."""
    return Transcript(transcript.agreement, transcript.reveals[:length])


def progress_of(
    transcript: Transcript, before: int, party: Party[Transcript], seconds: float
) -> Progress:
    """How far a session is that began after `before` exchanges, these seconds ago."""
    agreement = transcript.agreement
    batches = -(-len(agreement.features) // features_at_once(agreement))
    most = 1 + batches * (-(-agreement.max_steps // agreement.levels_per_exchange) + 1)
    without_result = transcript.counts() > 0
    for reveal in transcript.all(Moments):
        without_result[reveal.features] = False
    done, unfinished = exchanges_done(transcript), int(np.count_nonzero(without_result))
    left = seconds / max(done - before, 1) * (most - done) if unfinished else 0.0
    sent = sum(party.bytes_sent.values())
    return Progress(done, most, unfinished, party.rounds, sent, seconds, left)


@dataclass
class SessionCosts:
    """What all sessions of a run took at one party, interrupted ones included."""

    rounds: int = 0
    bytes_sent: dict[str, int] = field(default_factory=dict)
    bytes_received: int = 0
    seconds_computing: float = 0.0
    seconds_waiting: float = 0.0

    def add(
        self, party: Party[Transcript], received: int, computing: float, seconds: float
    ) -> None:
        """Count a session that has ended after this time."""
        self.rounds += party.rounds
        for peer, sent in party.bytes_sent.items():
            self.bytes_sent[peer] = self.bytes_sent.get(peer, 0) + sent
        self.bytes_received += received
        self.seconds_computing += computing
        self.seconds_waiting += seconds - computing

    def cost(self, name: str, sums: float, prepared: float = 0.0) -> Cost:
        """The cost of a party whose silo took these seconds for its sums and to prepare its rows.

        The sums are part of what it computed; the preparation came before any session.
        """
        return Cost(
            self.rounds,
            {name: dict(self.bytes_sent)},
            prepared + sums,
            # A silo may have computed outside of any session, whose result was then handed over.
            max(0.0, self.seconds_computing - sums),
            self.seconds_waiting,
            {name: self.bytes_received},
        )

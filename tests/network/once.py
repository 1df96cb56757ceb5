"""Watches the parties of this process: was anything opened twice?

An opening has a number: how many were made before it in the whole run. Logs are told of it.
What counts is what honest parties have really sent; the same number in two sessions is a repeat.
The final opening of a verified run may be sent again, but only the same bytes.

`benchmarks/once.py` looks for the same in the states that processes leave.
"""

from __future__ import annotations

import threading
from collections import defaultdict

from securefedyj.party.messages import Message


class Openings:
    """Every opening that an honest party has sent a part of, by its number and session."""

    def __init__(self) -> None:
        self.final: int | None = None
        """The number of the final opening of a verified run."""
        self._sessions: dict[int, dict[bytes, set[str]]] = defaultdict(lambda: defaultdict(set))
        self._parts: dict[tuple[int, str, str], set[bytes]] = defaultdict(set)
        self._lock = threading.Lock()

    def note(self, number: int, message: Message, party: str) -> None:
        """A party has sent its part of an opening."""
        with self._lock:
            self._sessions[number][message.session].add(party)
            self._parts[number, party, message.recipient].add(message.payload)

    def times(self) -> dict[int, int]:
        """How often each was made, in order."""
        with self._lock:
            return {number: len(self._sessions[number]) for number in sorted(self._sessions)}

    def repeated(self) -> dict[int, int]:
        """Those that were made more than once, and how often."""
        return {number: times for number, times in self.times().items() if times > 1}

    def violations(self) -> list[str]:
        """What may not be: one opening of a run may be repeated, once, if it was lost."""
        repeated = {n: times for n, times in self.repeated().items() if n != self.final}
        wrong = [
            f"opening {n} was made {times} times" for n, times in repeated.items() if times > 2
        ]
        if len(repeated) > 1:
            wrong.append(f"openings {', '.join(map(str, repeated))} were all made again")
        with self._lock:
            wrong += [
                f"{party} sent {recipient} {len(parts)} different parts of the final opening"
                for (number, party, recipient), parts in self._parts.items()
                if number == self.final and len(parts) > 1
            ]
        return wrong

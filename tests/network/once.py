"""Watches the parties of this process: was anything opened twice?

An opening has a number: how many were made before it in the whole run. Logs are told of it.
What counts is what honest parties have really sent; the same number in two sessions is a repeat.

`benchmarks/once.py` looks for the same in the states that processes leave.
"""

from __future__ import annotations

import threading
from collections import defaultdict


class Openings:
    """Every opening that an honest party has sent a part of, by its number and session."""

    def __init__(self) -> None:
        self.verdicts: set[int] = set()
        """Those that are made again with every verified exchange: once in a run, too."""
        self._sessions: dict[int, dict[bytes, set[str]]] = defaultdict(lambda: defaultdict(set))
        self._lock = threading.Lock()

    def note(self, number: int, session: bytes, party: str) -> None:
        """A party has sent its part of an opening."""
        with self._lock:
            self._sessions[number][session].add(party)

    def times(self) -> dict[int, int]:
        """How often each was made, in order."""
        with self._lock:
            return {number: len(self._sessions[number]) for number in sorted(self._sessions)}

    def repeated(self) -> dict[int, int]:
        """Those that were made more than once, and how often."""
        return {number: times for number, times in self.times().items() if times > 1}

    def violations(self) -> list[str]:
        """What may not be: one opening of a run may be repeated, once, if it was lost."""
        repeated = self.repeated()
        wrong = [
            f"opening {n} was made {times} times" for n, times in repeated.items() if times > 2
        ]
        if len(repeated.keys() - self.verdicts) > 1:
            wrong.append(f"openings {', '.join(map(str, repeated))} were all made again")
        return wrong

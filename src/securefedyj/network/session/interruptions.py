"""Who has interrupted a run, how often, and when it is too often (docs/security.md, section 6)."""

from __future__ import annotations

from collections import Counter

from securefedyj.network.errors import EndOfRun
from securefedyj.network.session.memory import NEW_RUN, Memory


class Interruptions:
    """Counts the sessions that were ended before their time.

    Parameters
    ----------
    memory
        Where they are kept.
    most
        So many are agreed upon.
    earlier
        Earlier runs over the same columns that did not finish: each counts as one.
    """

    def __init__(self, memory: Memory, most: int, earlier: int) -> None:
        self._memory, self._most, self._earlier = memory, most, earlier
        self._check()

    def count(self, by: str, exchange: int) -> str:
        """Keep that a session has ended on account of somebody; return what to tell the user."""
        self._memory.interrupt(by, exchange)
        self._check()
        return self.tale()

    def _check(self) -> None:
        if len(self._memory.interruptions) + self._earlier > self._most:
            raise EndOfRun(
                "SFY-JOIN-017",
                f"This run was interrupted too often: {self.tale()} It ends here, for a party that "
                f"does not follow the protocol may interrupt to ask again. Find out why. {NEW_RUN}",
            )

    def tale(self) -> str:
        """How often the run was interrupted, and by whom."""
        by = Counter(one.by for one in self._memory.interruptions)
        if self._earlier:
            by["earlier runs that did not finish"] += self._earlier
        count = by.total()
        if len(by) == 1:
            all_of_them = {1: "by", 2: "both by"}.get(count, "all by")
            whose = f"{all_of_them} {next(iter(by))}"
        else:
            whose = ", ".join(f"{times} by {who}" for who, times in by.most_common())
        some = "interruption" if self._most == 1 else "interruptions"
        return f"{count} of at most {self._most} {some}, {whose}."

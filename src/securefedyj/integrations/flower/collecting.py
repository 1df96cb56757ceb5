"""What Flower's server does with the parties' answers: it learns the result and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from securefedyj.errors import CodedError
from securefedyj.integrations.flower.taking_part import PARAMETERS, PARTY, REASON
from securefedyj.integrations.job import LONGEST_REASON, compared
from securefedyj.printable import printable, shown


class NoResult(CodedError):
    """The run has no result; the sentence says why."""


class Answers:
    """One answer of each party: all with the same parameters, or there is no result."""

    def __init__(self, parties: Sequence[str]) -> None:
        self._parties = parties
        self._results: dict[str, bytes] = {}

    def take(self, answer: Mapping[str, object]) -> None:
        """Keep a party's result; NoResult if it has none, or is not who it should be."""
        party, parameters = answer.get(PARTY), answer.get(PARAMETERS)
        if REASON in answer or not isinstance(parameters, bytes):
            said = answer.get(REASON, f"{shown(party)} has no result.")
            raise NoResult("SFY-FLOWER-001", printable(str(said), LONGEST_REASON))
        if party not in self._parties:
            raise NoResult(
                "SFY-FLOWER-002",
                f"A site says that it is {shown(party)}, which is no party of this run.",
            )
        if party in self._results:
            raise NoResult(
                "SFY-FLOWER-003",
                f"Two sites say that they are {party}: each party takes part once, with its own "
                "key and securefedyj.toml.",
            )
        self._results[str(party)] = parameters

    def result(self) -> bytes:
        """The bytes of parameters.json that all parties have returned."""
        if reason := compared(self._parties, self._results):
            raise NoResult("SFY-FLOWER-004", reason)
        return self._results[self._parties[0]]

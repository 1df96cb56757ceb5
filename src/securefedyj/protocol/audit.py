"""The audit: is what was revealed what the result tells, and no more?

The findings are those of `findings.py`; this is what is said of them, for a reader who must answer
for the data. docs/protocol.md, section 7.2.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from securefedyj.engines.registry import facts_of
from securefedyj.printable import printable
from securefedyj.protocol.agreement import Agreement
from securefedyj.protocol.findings import findings
from securefedyj.protocol.result import Result
from securefedyj.protocol.reveals import Revealed, Verdict
from securefedyj.protocol.secrecy import secrecy_of

# What every party learns about each feature.
OPENED = (
    "the number of its values over all silos together, and whether they vary;",
    "the signs of the search, which follow from lambda;",
    "lambda, mean and variance of the transformed feature: the result.",
)

# More findings than these would hide the first ones.
MOST_LISTED = 20


def audit(revealed: Revealed, result: Result | None) -> Audit:
    """Recompute from the result what was revealed on the way to it."""
    return Audit(revealed, result, list(findings(revealed, result)))


@dataclass(frozen=True)
class Audit:
    """The outcome of an audit: what does not follow from the result, if anything."""

    revealed: Revealed = field(repr=False)
    result: Result | None = field(repr=False)
    findings: list[str]

    @property
    def passed(self) -> bool:
        """Whether all that was revealed follows from the result."""
        return not self.findings

    def statement(self) -> str:
        """What was revealed to whom, for a reader who must answer for the data."""
        lines = [
            "What this run revealed",
            "",
            *self.who_computed(),
            "",
            "Opened to every party, for each feature:",
            *(f"  - {what}" for what in OPENED),
            *self.how_precisely(),
            *self.how_certainly(),
            "",
            f"Audit: {'passed' if self.passed else 'FAILED'}.",
            *(f"  - {finding}" for finding in self.findings[:MOST_LISTED]),
        ]
        if len(self.findings) > MOST_LISTED:
            lines.append(f"  - and {len(self.findings) - MOST_LISTED} more findings")
        return "\n".join([*lines, *self._table()])

    def who_computed(self) -> list[str]:
        """The parties, the engine, and what that kept secret."""
        agreement = self.revealed.agreement
        without = f"; without data: {_names(agreement.helpers)}" if agreement.helpers else ""
        facts = facts_of(agreement.engine)
        but = _on_few_silos(agreement.silos) if facts.secure else ""
        return [
            f"Parties: {_names(agreement.parties)}{without}.",
            f"Engine: {agreement.engine}, computed by {_names(agreement.committee)}.",
            *secrecy_of(agreement.engine).statement,
            *textwrap.wrap(but, 79, break_on_hyphens=False),
        ]

    def how_precisely(self) -> list[str]:
        """What was agreed on, so that no more is revealed than is needed."""
        agreement = self.revealed.agreement
        return [
            f"Agreed precision: at most {agreement.max_steps} signs for lambda; for mean and "
            "variance at least",
            f"{agreement.result_bits} bits below the standard deviation, up to 4 and 8 more.",
        ]

    @property
    def verdict(self) -> bool | None:
        """Whether it is told that the result was verified; None if that was not agreed on.

        It is what the transcript tells, and so no proof: who took part goes by its own checks.
        """
        if not self.revealed.agreement.verified:
            return None
        told = np.zeros(self.revealed.n_features, dtype=bool)
        for verdict in self.revealed.all(Verdict):
            if not verdict.holds:
                return False
            told[verdict.features] = True
        return bool(told.all())

    def how_certainly(self) -> list[str]:
        """Whether one party could have falsified the result."""
        match self.verdict:
            case None:
                words = f"Not verified: {one_could_cheat(self.revealed.agreement)}"
            case False:
                words = (
                    "The parties had agreed to verify the result, but this transcript does not "
                    "tell that they did."
                )
            case True:
                words = (
                    "The parties had agreed to verify the result, and the verdict was opened as 1. "
                    "Whoever took part has checked that the result is right for the sums that the "
                    "silos gave, even if one member of the committee cheated. Who has only this "
                    "transcript cannot check that."
                )
        return textwrap.wrap(words, 79)

    def _table(self) -> list[str]:
        if self.result is None:
            return []
        lines = [
            "",
            "Bits are those that were revealed of the values of a feature, signs included.",
            "",
            f"{'feature':<32} {'values':>9} {'signs':>6} {'bits':>5} {'lambda':>14}",
        ]
        revealed, result = self.revealed, self.result
        columns = (result.n, revealed.signs_opened(), revealed.bits_opened(), result.lmbda)
        for name, n, signs, bits, lmbda in zip(revealed.agreement.features, *columns, strict=True):
            lines.append(f"{printable(name, 32):<32} {n:>9} {signs:>6} {bits:>5} {lmbda:>14.8g}")
        return lines


def one_could_cheat(agreement: Agreement) -> str:
    """What follows where the result was not verified."""
    if facts_of(agreement.engine).verifies:
        who = "one member of the committee that cheated"
    else:
        who = f"engine {agreement.engine} cannot do that. One party that cheated"
    return f"{who} could have falsified the result, and nobody would have noticed."


def _names(names: Sequence[str]) -> str:
    return ", ".join(map(printable, names))


def _on_few_silos(silos: Sequence[str]) -> str:
    """What the result itself tells where one or two parties have data; nothing otherwise."""
    known = "how many values of each feature there are, and their mean and variance"
    match [printable(name) for name in silos]:
        case [only]:
            return f"But only {only} has data: all parties know of {only} {known}."
        case [one, other]:
            return (
                f"But only {one} and {other} have data: each can subtract its own part from the "
                f"result, and then knows of the other {known}."
            )
    return ""

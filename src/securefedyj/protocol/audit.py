"""The audit of a run, for a reader who must answer for the data: what was revealed to whom.

`findings.py` recomputes what was revealed; here it is put into words.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from securefedyj.engines.registry import facts_of
from securefedyj.printable import printable
from securefedyj.protocol.agreement import Agreement
from securefedyj.protocol.result import Result
from securefedyj.protocol.reveals import Verdict
from securefedyj.protocol.schedule import claimed
from securefedyj.protocol.secrecy import secrecy_of

if TYPE_CHECKING:
    from securefedyj.protocol.transcript import Transcript

# Revealed to every party about each feature.
OPENED = (
    "the number of its values over all silos together, and whether they vary;",
    "the signs of the search, which follow from lambda;",
    "lambda, mean and variance of the transformed feature: the result.",
)
# The same where other methods were agreed on.
_SEARCHED = (
    "whether its values vary, the signs of the search, which follow from lambda, and lambda, mean "
    "and variance of the transformed feature;"
)
_RANKED = (
    "the quantiles that were agreed on, and the signs of their searches, which follow from them;"
)
_OPENED = {
    "yeo-johnson": _SEARCHED,
    "box-cox": _SEARCHED,
    "standard": "its mean and variance;",
    "robust": _RANKED,
    "quantiles": _RANKED,
}
_TOTALS = "that no total of its submitted counts is negative, if it was submitted;"

OF_ONE_ROW = (
    "A quantile, though, is the value of one row, rounded up to the agreed grid. The protocol does "
    "not reveal of which row, nor of which silo."
)

# More findings than these would hide the first ones.
MOST_LISTED = 20


def opened(agreement: Agreement) -> Sequence[str]:
    """What a run opens about each feature, in a sentence each."""
    used = [name for name in _OPENED if any(name in own for own in agreement.methods)]
    totals = [_TOTALS] * bool(claimed(agreement))
    if not used or used == ["yeo-johnson"]:
        return (*totals, *OPENED)
    answers = [f"{name}: {_OPENED[name]}" for name in used]
    return ("the number of its values over all silos together;", *totals, *answers)


@dataclass(frozen=True)
class Audit:
    """The outcome of an audit: what does not follow from the result, if anything."""

    revealed: Transcript = field(repr=False)
    findings: list[str]

    @property
    def result(self) -> Result | None:
        return self.revealed.result

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
            *(line for what in opened(self.revealed.agreement) for line in _item(what)),
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
        few = _on_few_silos(agreement.silos) if facts.secure else ""
        return [
            f"Parties: {_names(agreement.parties)}{without}.",
            f"Engine: {agreement.engine}, computed by {_names(agreement.committee)}.",
            *secrecy_of(agreement).statement,
            *textwrap.wrap(few, 79, break_on_hyphens=False),
            *(textwrap.wrap(OF_ONE_ROW, 79) if agreement.asked.ranked.any() else ()),
        ]

    def how_precisely(self) -> list[str]:
        """What was agreed on, so that no more is revealed than is needed."""
        agreement, asked = self.revealed.agreement, self.revealed.agreement.asked
        if not len(asked.fitted):
            return [f"Agreed precision: at most {asked.most_steps()} signs for a quantile."]
        return [
            f"Agreed precision: at most {agreement.max_steps} signs for lambda; for mean and "
            "variance at least",
            f"{agreement.result_bits} bits below the standard deviation, up to 4 and 8 more.",
        ]

    @property
    def verdict(self) -> bool | None:
        """Whether the transcript says that the result was verified; None if that was not agreed.

        It is no proof: a party that took part relies on its own checks.
        """
        if not self.revealed.agreement.verified:
            return None
        verified = np.zeros(self.revealed.n_features, dtype=bool)
        for verdict in self.revealed.all(Verdict):
            if not verdict.holds:
                return False
            verified[verdict.features] = True
        return bool(verified.all())

    def how_certainly(self) -> list[str]:
        """Whether one party could have falsified the result."""
        match self.verdict:
            case None:
                words = f"Verified: no. {one_could_cheat(self.revealed.agreement)}"
            case False:
                words = (
                    "Verified: no. The parties agreed to verify the result, but this transcript "
                    "does not say that they did."
                )
            case True:
                words = (
                    "Verified: yes. The parties agreed to verify the result, and each that took "
                    "part has checked that it is right for the sums that the silos gave, even if "
                    "one member of the committee cheated. A reader of this transcript alone cannot "
                    "check that."
                )
        return textwrap.wrap(words, 79)

    def _table(self) -> list[str]:
        revealed, result = self.revealed, self.result
        if result is None:
            return []
        names, signs = self._names(), revealed.signs_opened()
        lines = [
            "",
            "Bits were revealed about the values of a feature; they include the signs.",
            "",
            f"{'feature':<32} {'values':>9} {'signs':>6} {'bits':>5} {'lambda':>14}",
        ]
        bits, fitted = revealed.bits_opened(), revealed.agreement.asked.fitted.tolist()
        for i, n, lmbda in zip(fitted, result.n, result.lmbda, strict=True):
            lines.append(f"{names[i]:<32} {n:>9} {signs[i]:>6} {bits[i]:>5} {lmbda:>14.8g}")
        if (points := revealed.points) is None:
            return lines if fitted else []
        lines += ["", f"{'quantile of':<32} {'values':>9} {'signs':>6} {'rank':>9} {'value':>14}"]
        for i, n, rank, _, value in zip(*(part.tolist() for part in points), strict=True):
            lines.append(f"{names[i]:<32} {n:>9} {signs[i]:>6} {rank:>9} {value:>14.8g}")
        for i, reason in revealed.refused().items():
            lines.append(f"{names[i]:<32} was not asked for: {reason}")
        return lines

    def _names(self) -> list[str]:
        """Of the questions, in the table."""
        agreement = self.revealed.agreement
        return [
            printable(agreement.features[q.column], 32 - len(q.what)) + q.what
            for q in agreement.asked.all
        ]


def _item(text: str) -> list[str]:
    return textwrap.wrap(text, 98, initial_indent="  - ", subsequent_indent="    ")


def one_could_cheat(agreement: Agreement) -> str:
    """What follows where the result was not verified."""
    if facts_of(agreement.engine).verifies:
        return "One member of the committee could have falsified the result without being detected."
    return (
        f"Engine {agreement.engine} cannot verify results. One party could have falsified this one "
        "without being detected."
    )


def _names(names: Sequence[str]) -> str:
    return ", ".join(map(printable, names))


def _on_few_silos(silos: Sequence[str]) -> str:
    """What the result itself reveals where one or two parties have data; else nothing."""
    known = "the number of values of each feature, and their mean and variance"
    match [printable(name) for name in silos]:
        case [only]:
            return f"Only {only} has data, so all parties know about {only} {known}."
        case [one, other]:
            return (
                f"Only {one} and {other} have data. Each can subtract its own part from the "
                f"result, and then knows about the other {known}."
            )
    return ""

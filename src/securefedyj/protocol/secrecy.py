"""What each engine keeps secret, in the words of the audit's statement and of the report.

One entry per engine (docs/security.md has the reasons). Sentences are plain text, without markup.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from securefedyj.engines.registry import facts_of


@dataclass(frozen=True)
class Secrecy:
    """The sentences about one engine."""

    statement: tuple[str, ...]
    """What was kept secret, in lines of the audit's statement."""
    what_left: str
    """What left the silos."""
    what_stayed: str
    """What nobody learned from the protocol."""
    collusion: Callable[[Sequence[str], int], str]
    """Who must not collude, by the names of the committee and the number of silos."""


def _two_members(committee: Sequence[str], silos: int) -> str:
    first, second, third = committee
    words = f"Any two of {first}, {second} and {third}. Two of them together could have seen "
    if silos <= 3:
        return words + (
            "the exact sums of one silo by itself, at every step: treat that as having seen its "
            "rows."
        )
    return words + (
        "exact sums over all silos but their own, taken together, at every step, and of no silo by "
        "itself."
    )


def _half_of_all(committee: Sequence[str], silos: int) -> str:
    return f"{(len(committee) - 1) // 2 + 1} or more of the {len(committee)} parties."


def _nobody(committee: Sequence[str], silos: int) -> str:
    return "There was nothing to protect by keeping parties apart."


_SHARES_LEFT = (
    "No row and no value. Each silo computed sums over its own rows and sent them split into "
    "shares: numbers that look random to anybody with only one of them."
)
_SUMS_STAYED = (
    "Any value or row of another silo; any sum, mean or count of a single silo; which silo "
    "contributed how much."
)

SECRECY: Mapping[str, Secrecy] = {
    "replicated": Secrecy(
        statement=(
            "The protocol reveals no value, no sum and no count of a single silo: they were",
            "shared among the three members of the committee, and no single member can put",
            "them together.",
        ),
        what_left=_SHARES_LEFT,
        what_stayed=_SUMS_STAYED,
        collusion=_two_members,
    ),
    "mpyc": Secrecy(
        statement=(
            "The protocol reveals no value, no sum and no count of a single silo: they were",
            "shared among all parties, and no minority of them can put them together.",
        ),
        what_left=_SHARES_LEFT,
        what_stayed=_SUMS_STAYED,
        collusion=_half_of_all,
    ),
    "clear": Secrecy(
        statement=("This engine keeps NOTHING secret: every party saw the sums of every silo.",),
        what_left=(
            "Sums over each silo's rows, readable by every party: this engine is for tests "
            "and does not protect them."
        ),
        what_stayed="The rows themselves. The sums and counts of each silo were open to all.",
        collusion=_nobody,
    ),
}


def secrecy_of(engine: str) -> Secrecy:
    """The entry of an engine; an unknown one is refused."""
    return SECRECY[facts_of(engine).name]

"""What each engine keeps secret, in the words of the audit's statement and of the report.

One entry per engine, and what differs if silos submit (docs/security.md has the reasons).
Sentences are plain text, without markup.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from securefedyj.engines.registry import facts_of
from securefedyj.protocol.agreement import Agreement


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
    seen = (
        "the exact sums of one silo by itself, at every step: treat that as having seen its rows."
        if silos <= 3
        else "exact sums over all silos but their own, taken together, at every step, and of no "
        "silo by itself."
    )
    return f"Any two of {first}, {second} and {third}. Two of them together could have seen {seen}"


def _two_with_submissions(committee: Sequence[str], silos: int) -> str:
    first, second, third = committee
    seen = (
        "at one silo by itself: treat that as having seen its rows."
        if silos <= 3
        else "at all silos but their own, taken together."
    )
    return (
        f"Any two of {first}, {second} and {third}, also after the run. Two of them together could "
        f"see how often each value of a submitted feature occurs {seen}"
    )


def _half_of_all(committee: Sequence[str], silos: int) -> str:
    return f"{(len(committee) - 1) // 2 + 1} or more of the {len(committee)} parties."


_SHARES_LEFT = (
    "No row and no value. Each silo computed sums over its own rows and sent them split into "
    "shares: numbers that look random to anybody with only one of them."
)
_COUNTS_LEFT = (
    "No row. Each silo counted how often each agreed value of a feature occurs in its rows, and "
    "sent the counts once, split into shares that are sealed for the three members: numbers that "
    "look random to anybody with only one of them."
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
        collusion=lambda _, __: "There was nothing to protect by keeping parties apart.",
    ),
}


def secrecy_of(agreement: Agreement) -> Secrecy:
    """The sentences about a run; an unknown engine is refused."""
    facts = facts_of(agreement.engine)
    of_engine = SECRECY[facts.name]
    if not (agreement.submitted and facts.secure):
        return of_engine
    live = "" if agreement.given.all() else " Of the other features: "

    def collusion(committee: Sequence[str], silos: int) -> str:
        return _two_with_submissions(committee, silos) + (
            live and live + of_engine.collusion(committee, silos)
        )

    what_left = _COUNTS_LEFT + (live and live + of_engine.what_left)
    return replace(of_engine, what_left=what_left, collusion=collusion)

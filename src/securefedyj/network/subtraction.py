"""What a party learns about others by subtracting its own part from the result.

No secure computation prevents it: the result itself reveals it, the more the fewer silos there are.
"""

from __future__ import annotations

from collections.abc import Sequence

from securefedyj.network.consortium import Consortium
from securefedyj.printable import in_words, printable


def note_on_silos(consortium: Consortium) -> str:
    """A note for one or two parties with data; otherwise empty."""
    silos = [printable(party.name) for party in consortium.silos]
    if len(silos) == 1:
        return (
            f"Note: only {silos[0]} has data. All parties learn of each feature how many values "
            f"{silos[0]} has, and their mean and variance: the result is about nobody else."
        )
    if len(silos) == 2:
        return (
            f"Note: only {silos[0]} and {silos[1]} have data. Each can subtract its own part from "
            "the result, and then knows of each feature how many values the other has, and their "
            "mean and variance. With a third silo, nobody could."
        )
    return ""


def note_on_missing(consortium: Consortium, features: Sequence[str]) -> str:
    """A note for a silo without values of these features; empty if many others may have some."""
    others = len(consortium.silos) - 1
    if not features or others > 2:
        return ""
    names = in_words(features, 5)
    if others < 2:
        return (
            f"Note: this table has no values of {names}, so at most one silo has any. All parties "
            "learn how many that has, and their mean and variance."
        )
    return (
        f"Note: this table has no values of {names}, so at most two silos have any. Each of them "
        "can subtract its own part from the result, and then knows how many values the other has, "
        "and their mean and variance. Agree on a file without the feature, or on more silos."
    )

"""What the next run and earlier ones tell together, in words for those who have to decide.

A silo knows its own side: which columns it brings, whether they are as they were, and who takes
part. What others bring is theirs to watch over, by a ledger of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from securefedyj.network.ledger import Ledger, RunEntry
from securefedyj.printable import in_words, printable, shown

_MOST_RUNS = 3
_MOST_NAMES = 5
_ASK = "Ask your data protection officer before you go on"


def warnings(ledger: Ledger, run: RunEntry) -> list[str]:
    """What to tell a silo before a run; nothing if no earlier run differs from it.

    Of a run without a party, any earlier one under a feature's name is compared with; unless a
    party of it on this machine has had these very columns before: then the table is that party's.
    """
    if not run.party:
        run = replace(run, party=_whose(ledger, run))
    alike: dict[_Comparison, list[RunEntry]] = {}  # the latest first
    for other in ledger.earlier(run):
        alike.setdefault(_compared(run, other), []).append(other)
    found = [words for one, others in alike.items() for words in _differences(run, one, others)]
    if (more := len(found) - _MOST_RUNS) > 0:
        found = found[:_MOST_RUNS]
        are = "warning is" if more == 1 else "warnings are"
        found.append(f"{more} more {are} about runs before these: see {ledger.path}.")
    return found


def note_on_unfinished(ledger: Ledger, run: RunEntry, most: int) -> str:
    """What to say of earlier runs that did not finish; nothing if there are none."""
    unfinished = ledger.unfinished(run)
    if not unfinished:
        return ""
    last = unfinished[0]
    several = len(unfinished) > 1
    count = f"{len(unfinished)} earlier runs" if several else "1 earlier run"
    they = "They count as interruptions" if several else "It counts as an interruption"
    enough = (
        ""
        if len(unfinished) <= most
        else " So no run can begin; when you know why they ended, agree on more of them in a file."
    )
    return (
        f"{count} over the same values did not finish; the last was {_run(last)}, in "
        f"{printable(last.folder)}. {they}; the file allows {most}."
        f"{enough}"
    )


def _whose(ledger: Ledger, run: RunEntry) -> str:
    """The silo that has last taken part with one of these columns, or nobody."""
    own = set(run.columns.values())
    for other in ledger.earlier(run):
        if other.party in run.silos and not own.isdisjoint(other.columns.values()):
            return other.party
    return ""


def _differences(run: RunEntry, compared: _Comparison, others: Sequence[RunEntry]) -> Iterator[str]:
    same, changed, silos = compared
    more = len(others) - 1
    runs = _run(others[0]) + (f" and {more} earlier one{'s' * (more > 1)}" if more else "")
    if changed:
        yield (
            f"In {runs}, with {in_words(silos)}, {_columns(changed)} had other values "
            "here. Two results over nearly the same rows can tell the rows that differ, such as "
            f"those of a patient who came or left. {_ASK}, or use the rows of that run."
        )
    if same and set(run.silos) != set(silos):
        came, gone = (
            [name for name in some if name not in others]
            for some, others in ((run.silos, silos), (silos, run.silos))
        )
        who = [f"has {in_words(came)} besides"] * bool(came)
        who += [f"lacks {in_words(gone)}"] * bool(gone)
        yield (
            f"In {runs}, with {in_words(silos)}, {_columns(same)} had the same values "
            f"here as now. This run {' and '.join(who)}. The difference of the two results can "
            "tell the number, mean and variance of the values that came or left with them. "
            f"{_ASK}, or leave the column{'s' * (len(same) > 1)} out."
        )


class _Comparison(NamedTuple):
    """Of this run with another, where the same is to be said of several."""

    same: tuple[str, ...]
    """Columns that were in the other run as they are now."""
    changed: tuple[str, ...]
    """Those that were there otherwise."""
    silos: tuple[str, ...]
    """Of the other run."""


def _compared(run: RunEntry, other: RunEntry) -> _Comparison:
    known = set(other.columns.values())
    same = tuple(name for name in run.features if run.columns.get(name) in known)
    if run.party and run.party != other.party:  # a table of somebody else on this machine
        return _Comparison(same, (), other.silos)
    changed = tuple(
        name
        for name in run.features
        if name in other.features
        and name not in same
        and run.columns.get(name) != other.columns.get(name)
    )
    return _Comparison(same, changed, other.silos)


def _run(run: RunEntry) -> str:
    return f"run {shown(run.consortium)} of {printable(run.date[:10])}"


def _columns(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    named = in_words(names) if more <= 0 else f"{_list(names[:_MOST_NAMES])} and {more} more"
    return f"column{'s' * (len(names) > 1)} {named}"


def _list(names: Sequence[str]) -> str:
    return ", ".join(map(printable, names))

"""What the next run and earlier ones tell together, in words for those who have to decide.

A silo knows its own side: which columns it brings, whether they are as they were, and who takes
part. What others bring is theirs to watch over, by a ledger of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from securefedyj.network.ledger import Ledger, Run
from securefedyj.printable import printable, shown

_MOST_RUNS = 3
_MOST_NAMES = 5
_ASK = "Ask your data protection officer before you go on"


def warnings(ledger: Ledger, run: Run) -> list[str]:
    """What to tell a silo before a run; nothing if no earlier run differs from it.

    Of a run without a party, any earlier one under a feature's name is compared with.
    """
    found = [words for other in ledger.earlier(run) for words in _differences(run, other)]
    if (more := len(found) - _MOST_RUNS) > 0:
        found = found[:_MOST_RUNS]
        found.append(f"{more} more warnings are about runs before these: see {ledger.path}.")
    return found


def note_on_unfinished(ledger: Ledger, run: Run, most: int) -> str:
    """What to say of earlier runs that did not finish; nothing if there are none."""
    unfinished = ledger.unfinished(run)
    if not unfinished:
        return ""
    last = unfinished[0]
    count = f"{len(unfinished)} earlier runs" if len(unfinished) > 1 else "1 earlier run"
    enough = (
        ""
        if len(unfinished) <= most
        else " So no run can begin; when you know why they ended, agree on more of them in a file."
    )
    return (
        f"{count} over the same values did not finish; the last was {_run(last)}, in "
        f"{printable(last.folder)}. They count as interruptions, of which {most} are agreed."
        f"{enough}"
    )


def _differences(run: Run, other: Run) -> Iterator[str]:
    same, changed = _compared(run, other)
    if changed:
        yield (
            f"In {_run(other)}, with {_and(other.silos)}, {_columns(changed)} had other values "
            "here. Two results over nearly the same rows can tell the rows that differ, such as "
            f"those of a patient who came or left. {_ASK}, or use the rows of that run."
        )
    if same and set(run.silos) != set(other.silos):
        came, gone = (
            [name for name in some if name not in others]
            for some, others in ((run.silos, other.silos), (other.silos, run.silos))
        )
        who = [f"has {_and(came)} besides"] * bool(came) + [f"lacks {_and(gone)}"] * bool(gone)
        yield (
            f"In {_run(other)}, with {_and(other.silos)}, {_columns(same)} had the same values "
            f"here as now. This run {' and '.join(who)}. The difference of the two results can "
            "tell the number, mean and variance of the values that came or left with them. "
            f"{_ASK}, or leave the column{'s' * (len(same) > 1)} out."
        )


def _compared(run: Run, other: Run) -> tuple[list[str], list[str]]:
    """Columns that were in the other run as they are now, and those that were there otherwise."""
    known = set(other.columns.values())
    same = [name for name in run.features if run.columns.get(name) in known]
    if run.party and run.party != other.party:  # a table of somebody else on this machine
        return same, []
    was_there = [name for name in run.features if name in other.features and name not in same]
    return same, [name for name in was_there if run.columns.get(name) != other.columns.get(name)]


def _run(run: Run) -> str:
    return f"run {shown(run.consortium)} of {printable(run.date[:10])}"


def _columns(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    named = _and(names) if more <= 0 else f"{_list(names[:_MOST_NAMES])} and {more} more"
    return f"column{'s' * (len(names) > 1)} {named}"


def _and(names: Sequence[str]) -> str:
    *most, last = names or ("nobody",)
    return f"{_list(most)} and {printable(last)}" if most else printable(last)


def _list(names: Sequence[str]) -> str:
    return ", ".join(map(printable, names))

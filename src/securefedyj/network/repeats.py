"""What the next run and earlier ones tell together, in words for those who have to decide.

A silo knows its own side: which columns it brings, whether they are as they were, and who takes
part. What others bring is theirs to watch over, by a ledger of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from securefedyj.network.ledger import Ledger, RunEntry, Terms
from securefedyj.printable import in_words, printable, shown

_MOST_RUNS = 3
_MOST_NAMES = 5
_ASK = "Ask your data protection officer before you go on"


def warnings(ledger: Ledger, run: RunEntry) -> list[str]:
    """What to tell a silo before a run over columns that were in an earlier one.

    Of a run without a party, any earlier one under a feature's name is compared with; unless a
    party of it on this machine has had these very columns before: then the table is that party's.
    """
    if not run.party:
        run = replace(run, party=_whose(ledger, run))
    compared = [_compared(run, other) for other in ledger.earlier(run)]
    alike: dict[_Finding, list[RunEntry]] = {}  # the latest first
    for other in compared:
        for one in _findings(run, other, finished=ledger.has_finished(other.run)):
            alike.setdefault(one, []).append(other.run)
    found = [one.words(run, one, others) for one, others in alike.items()]
    if (more := len(found) - _MOST_RUNS) > 0:
        found = found[:_MOST_RUNS]
        are = "warning is" if more == 1 else "warnings are"
        found.append(f"{more} more {are} about runs before these: see {ledger.path}.")
    return [*_alarms(run, [one for one in compared if ledger.has_finished(one.run)]), *found]


def note_on_result(ledger: Ledger, run: RunEntry, result: str) -> str:
    """What to say of a result that an earlier run contradicts; nothing if none does."""
    other = ledger.other_result(run, result)
    if other is None:
        return ""
    return (
        f"The result is NOT THE SAME as that of {_run(other)}, in {printable(other.folder)}. The "
        "agreed file and your own rows are the same, so another silo's rows have changed, or "
        "somebody lied. Ask the other silos whether their rows have changed, before anybody uses "
        "this result."
    )


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


class _Compared(NamedTuple):
    """An earlier run, with the features whose columns it had."""

    run: RunEntry
    same: tuple[str, ...]
    """Columns that were in the other run as they are now."""
    changed: tuple[str, ...]
    """Those that were there otherwise."""


class _Finding(NamedTuple):
    """What is to be said of one earlier run, or of several alike."""

    words: Callable[[RunEntry, _Finding, Sequence[RunEntry]], str]
    columns: tuple[str, ...]
    silos: tuple[str, ...]
    """Of the earlier runs."""


def _compared(run: RunEntry, other: RunEntry) -> _Compared:
    known, names = set(other.columns.values()), set(other.features)
    same = tuple(name for name in run.features if run.columns.get(name) in known)
    if run.party and run.party != other.party:  # a table of somebody else on this machine
        return _Compared(other, same, ())
    names -= set(same)
    changed = tuple(
        name
        for name in run.features
        if name in names and run.columns.get(name) != other.columns.get(name)
    )
    return _Compared(other, same, changed)


def _findings(run: RunEntry, compared: _Compared, *, finished: bool) -> Iterator[_Finding]:
    other, same, changed = compared
    if changed:
        yield _Finding(_other_values, changed, other.silos)
    if same and set(run.silos) != set(other.silos):
        yield _Finding(_other_silos, same, other.silos)
    elif same and finished:
        known = run.terms is not None and run.features == other.features
        if run.digest != other.digest and not (known and run.terms == other.terms):
            yield _Finding(_other_terms, same, run.silos)
        elif not changed:
            yield _Finding(_repeated, same, run.silos)


def _other_values(run: RunEntry, found: _Finding, others: Sequence[RunEntry]) -> str:
    return (
        f"In {_runs(others)}, with {in_words(found.silos)}, {_columns(found.columns)} had other "
        "values here. Two results over nearly the same rows can tell the rows that differ, such as "
        f"those of a patient who came or left. {_ASK}, or use the rows of that run."
    )


def _other_silos(run: RunEntry, found: _Finding, others: Sequence[RunEntry]) -> str:
    came, gone = (
        [name for name in some if name not in rest]
        for some, rest in ((run.silos, found.silos), (found.silos, run.silos))
    )
    who = [f"has {in_words(came)} besides"] * bool(came)
    who += [f"lacks {in_words(gone)}"] * bool(gone)
    return (
        f"In {_runs(others)}, with {in_words(found.silos)}, {_columns(found.columns)} had the "
        f"same values here as now. This run {' and '.join(who)}. The difference of the two results "
        "can tell the number, mean and variance of the values that came or left with them. "
        f"{_ASK}, or leave the column{'s' * (len(found.columns) > 1)} out."
    )


def _other_terms(run: RunEntry, found: _Finding, others: Sequence[RunEntry]) -> str:
    return (
        f"In {_runs(others)}, {_columns(found.columns)} had the same values here as now. This run "
        "asks for other numbers about the same rows. Together the results can tell single values "
        "where there are few rows, and how often each value occurs where few are distinct. "
        f"{_ASK}, or use the result that you have."
    )


def _repeated(run: RunEntry, found: _Finding, others: Sequence[RunEntry]) -> str:
    return (
        f"This run repeats {_runs(others)}, with the same values of {_columns(found.columns)} "
        "here. If the other silos' rows are the same too, the result is the same. But a party that "
        "lies can learn something new in each run. Repeat it only if you must."
    )


def _alarms(run: RunEntry, finished: Sequence[_Compared]) -> Iterator[str]:
    """What a run asks for more precisely, or less safely, than finished runs over its columns."""
    finished = [one for one in finished if one.same or one.changed]
    if run.terms is None or not finished:
        return
    had: dict[str, list[_Asked]] = {}
    for other in finished:
        for name, asked in _asked_before(run, other):
            had.setdefault(name, []).append(asked)
    more: dict[str, list[str]] = {}
    for name, bounds in zip(run.features, run.terms.bounds, strict=True):
        for words in _more_precise(_Asked(run.terms, bounds), had.get(name, [])):
            more.setdefault(words, []).append(name)
    if more:
        what = "; ".join(f"{words} for {_columns(names)}" for words, names in more.items())
        yield f"MORE PRECISION than in any finished run over the same columns: {what}."
    if not run.terms.verified:
        was = [one.run for one in finished if one.run.terms is not None and one.run.terms.verified]
        unlike = f", unlike {_runs(was)} over the same columns" if was else ""
        yield (
            f"NOT VERIFIED{unlike}: one member of the committee that cheats can falsify the result."
        )


class _Asked(NamedTuple):
    """What a run asks, or has asked, of a feature."""

    terms: Terms
    bounds: tuple[float, float]


def _asked_before(run: RunEntry, compared: _Compared) -> Iterator[tuple[str, _Asked]]:
    """What a run has asked of this run's features, under whatever names."""
    other, same, changed = compared
    if other.terms is None:
        return
    renamed: dict[str, list[str]] = {}
    for name in same:
        renamed.setdefault(run.columns[name], []).append(name)
    under_name = set(changed)
    for feature, bounds in zip(other.features, other.terms.bounds, strict=True):
        names = renamed.get(other.columns.get(feature, ""), [])
        for name in [*names, feature] if feature in under_name else names:
            yield name, _Asked(other.terms, bounds)


def _more_precise(now: _Asked, before: Sequence[_Asked]) -> Iterator[str]:
    """In what a run goes beyond all that were before.

    Other bounds count, narrower or wider: they move the grid, and so the last digits of mean and
    variance that are opened, and the range of lambda.
    """
    if not before:
        return
    for name in ("result_bits", "max_steps"):
        most = max(getattr(asked.terms, name) for asked in before)
        if getattr(now.terms, name) > most:
            yield f"{name} = {getattr(now.terms, name)} (at most {most} before)"
    if all(asked.bounds != now.bounds for asked in before):
        yield "other bounds, which can open further digits,"


def _whose(ledger: Ledger, run: RunEntry) -> str:
    """The silo that has last taken part with one of these columns, or nobody."""
    own = set(run.columns.values())
    for other in ledger.earlier(run):
        if other.party in run.silos and not own.isdisjoint(other.columns.values()):
            return other.party
    return ""


def _runs(runs: Sequence[RunEntry]) -> str:
    more = len(runs) - 1
    return _run(runs[0]) + (f" and {more} earlier one{'s' * (more > 1)}" if more else "")


def _run(run: RunEntry) -> str:
    return f"run {shown(run.consortium)} of {printable(run.date[:10])}"


def _columns(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    named = in_words(names) if more <= 0 else f"{_list(names[:_MOST_NAMES])} and {more} more"
    return f"column{'s' * (len(names) > 1)} {named}"


def _list(names: Sequence[str]) -> str:
    return ", ".join(map(printable, names))

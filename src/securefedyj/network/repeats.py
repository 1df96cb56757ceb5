"""What results reveal: warnings for the silo that decides, before a run and after it.

By subtracting its own part from a result, a party learns about the others. No secure computation
prevents it, and it learns the more, the fewer silos there are. Two results tell more than each of
them. A silo knows its own side of that: which columns it brings, whether they have changed, and who
takes part. The other silos watch over their columns with ledgers of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec import UNSET
from msgspec.structs import replace

from securefedyj.network.consortium import Consortium
from securefedyj.network.ledger import (
    BEGAN,
    FAILED,
    FINISHED,
    Ledger,
    LedgerError,
    RunEntry,
    RunTerms,
    default_path,
)
from securefedyj.network.session.journal import FILE as STATE
from securefedyj.numerics.passes import Source
from securefedyj.printable import in_words, printable, shown
from securefedyj.protocol.methods import DEFAULT, rank_of
from securefedyj.protocol.transcript import Transcript
from securefedyj.tables.digest import column_digests

_MOST_RUNS = 3
_MOST_NAMES = 5
_ASK = "Ask your data protection officer before you continue"


class LedgerRun:
    """A silo's run in its ledger; without a party and an output folder, one that is only planned.

    A ledger is made for a run that has a folder, and for no other. Without a table, it is the run
    that the silo has submitted for, as the ledger knows it.
    """

    def __init__(
        self,
        consortium: Consortium,
        table: Source | None,
        path: Path | None,
        party: str = "",
        output: Path | None = None,
    ) -> None:
        self._ledger = ledger = Ledger(path or default_path())
        self._most = consortium.max_interruptions
        digest, identity, folder = consortium.digest(), "", ""
        if output is not None:
            ledger.prepare()
            folder = str(output.resolve())
            # Without a state there is nothing to resume, and this is another run.
            resumed = (output / STATE).exists()
            identity = ledger.id_of(digest, folder if resumed else "", party)
        features = consortium.feature_names
        digests = (
            column_digests(table, features, ledger.key) if ledger.key and table is not None else {}
        )
        methods = tuple(dict(feature.methods) for feature in consortium.features)
        self._run = RunEntry(
            id=identity,
            digest=digest,
            consortium=consortium.name,
            date="",
            party=party,
            parties=tuple(one.name for one in consortium.parties),
            silos=tuple(one.name for one in consortium.silos),
            features=features,
            folder=folder,
            columns=tuple(digests.get(name, "") for name in features),
            terms=RunTerms(
                consortium.max_steps,
                consortium.result_bits,
                consortium.verified,
                tuple(float(feature.lower) for feature in consortium.features),
                tuple(float(feature.upper) for feature in consortium.features),
                methods if any(own != DEFAULT for own in methods) else UNSET,
            ),
        )
        if table is None:
            self._run = ledger.submitted_run(digest, party) or self._run
        self._minimum = consortium.minimum_values

    def warnings(self) -> list[str]:
        """What earlier runs and this one reveal together."""
        note = note_on_unfinished(self._ledger, self._run, self._most)
        return warnings(self._ledger, self._run) + [note] * bool(note)

    def refused(self) -> list[str]:
        """Why this silo cannot take part: quantiles too close to those of earlier runs."""
        return list(quantiles_too_close(self._ledger, self._run, self._minimum))

    @property
    def unfinished(self) -> int:
        """How many earlier runs over the same values did not finish."""
        return len(self._ledger.unfinished(self._run))

    def began(self) -> None:
        self._ledger.note(BEGAN, self._run)

    def submitted(self, path: Path, sha256: str) -> None:
        """Note that this silo's submission is made; raises LedgerError if it has one already."""
        self._ledger.submit(self._run, path, sha256)

    def finished(self, transcript: Transcript, say: Callable[[str], None]) -> str:
        """Note the result's digest; return what to say if an earlier run contradicts it."""
        result = transcript.digest().hex()
        n = transcript.values_of_features() if transcript.agreement.asked.ranked.any() else ()
        self._end(FINISHED, say, result, n)
        return note_on_result(self._ledger, self._run, result)

    def failed(self, say: Callable[[str], None]) -> None:
        self._end(FAILED, say)

    def _end(
        self, event: str, say: Callable[[str], None], result: str = "", n: tuple[int, ...] = ()
    ) -> None:
        """Note the end of a run that has begun; if the file cannot be written, only say so."""
        try:
            if self._ledger.is_open(self._run):
                self._ledger.note(event, self._run, result=result, n=n)
        except LedgerError as error:
            say(str(error))


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


def warnings(ledger: Ledger, run: RunEntry) -> list[str]:
    """Warnings for a silo before a run over columns that were in an earlier one.

    A run without a party is compared with any earlier one under a feature's name, unless a party
    on this machine has had these very columns before: then the table is that party's.
    """
    if not run.party:
        parties = (other.party for other in ledger.over_same_values(run))
        run = replace(run, party=next((name for name in parties if name in run.silos), ""))
    compared = [_compared(run, other) for other in ledger.earlier(run)]
    finished = [one for one in compared if ledger.has_finished(one.other)]
    alike: dict[tuple[str, str], list[RunEntry]] = {}  # the latest first
    for one in compared:
        for words in _findings(run, one, finished=one in finished):
            alike.setdefault(words, []).append(one.other)
    found = [f"{start}{_runs(others)}{end}" for (start, end), others in alike.items()]
    if (more := len(found) - _MOST_RUNS) > 0:
        are = "warning is" if more == 1 else "warnings are"
        found[_MOST_RUNS:] = [f"{more} more {are} about earlier runs: see {ledger.path}."]
    return [*_alarms(run, finished), *found]


def quantiles_too_close(ledger: Ledger, run: RunEntry, minimum: int) -> Iterator[str]:
    """Quantiles whose ranks are less than the minimum from others of the same values.

    Between two close ranks there are few rows, and each quantile is the value of one. What an
    unfinished run has opened is not known: only its own quantiles may be asked for again.
    """
    for other in ledger.earlier(run):
        one, counts = _compared(run, other), ledger.counts_of(other)
        for name, before in _asked_before(run, one):
            n = counts.get(before.name, 0)
            for quantile in _asked(run)[name].quantiles:
                ranks = {rank_of(earlier, n) for earlier in before.quantiles}
                distance = min((abs(rank_of(quantile, n) - rank) for rank in ranks), default=0)
                if not n and before.quantiles and quantile not in before.quantiles:
                    why = "which did not finish, so that its ranks are not known"
                elif 0 < distance < minimum:
                    why = f"where its rank is {distance} from that of another quantile"
                else:
                    continue
                yield (
                    f"quantile {quantile} of column {shown(name)} may not be asked for after "
                    f"{_runs([other])}, {why}; the least distance is {minimum}. Agree on a file "
                    "without it, or with the quantiles of that run."
                )


def note_on_result(ledger: Ledger, run: RunEntry, result: str) -> str:
    """A warning if an earlier run contradicts the result; otherwise empty."""
    other = ledger.other_result(run, result)
    if other is None:
        return ""
    return (
        f"The result is NOT THE SAME as that of {_runs([other])}, in {printable(other.folder)}. "
        "The agreed file and your own rows are the same, so another silo's rows have changed, or "
        "a party has cheated. Ask the other silos whether their rows have changed, before anybody "
        "uses this result."
    )


def note_on_unfinished(ledger: Ledger, run: RunEntry, most: int) -> str:
    """A note on earlier runs that did not finish; empty if there are none."""
    unfinished = ledger.unfinished(run)
    if not unfinished:
        return ""
    several = len(unfinished) > 1
    note = (
        f"{len(unfinished)} earlier run{'s' * several} over the same values did not finish; the "
        f"last was {_runs(unfinished[:1])}, in {printable(unfinished[0].folder)}. "
        f"{'They count as interruptions' if several else 'It counts as an interruption'}; the file "
        f"allows {most}."
    )
    if len(unfinished) <= most:
        return note
    return f"{note} So no run can start. Find out why they ended, then agree on a higher limit."


class _Compared(NamedTuple):
    """An earlier run, compared with this one."""

    other: RunEntry
    same: tuple[str, ...]
    """The columns that were in it as they are now."""
    changed: tuple[str, ...]
    """The columns that were in it with other values."""


def _compared(run: RunEntry, other: RunEntry) -> _Compared:
    own, before = run.digests(), other.digests()
    known = set(before.values())
    same = tuple(name for name in run.features if own.get(name) in known)
    if run.party and run.party != other.party:  # somebody else's table on this machine
        return _Compared(other, same, ())
    names = set(other.features).difference(same)
    differ = (name for name in run.features if own.get(name) != before.get(name))
    return _Compared(other, same, tuple(name for name in differ if name in names))


def _findings(run: RunEntry, one: _Compared, *, finished: bool) -> Iterator[tuple[str, str]]:
    """The warnings about an earlier run: what stands before its name, and what after it."""
    other, silos = one.other, in_words(one.other.silos)
    same = f", {_columns(one.same)} had the same values here as now. This run "
    if one.changed:
        yield (
            "In ",
            f", with {silos}, {_columns(one.changed)} had other values here. Two results over "
            "nearly the same rows can reveal the rows that differ, such as those of a patient who "
            f"came or left. {_ASK}, or use the rows of that run.",
        )
    if one.same and set(run.silos) != set(other.silos):
        came = [name for name in run.silos if name not in other.silos]
        gone = [name for name in other.silos if name not in run.silos]
        changes = [f"adds {in_words(came)}"] * bool(came) + [f"lacks {in_words(gone)}"] * bool(gone)
        yield (
            "In ",
            f", with {silos}{same}{' and '.join(changes)}. The difference of the two results can "
            "reveal the number, mean and variance of the values that came or left with them. "
            f"{_ASK}, or leave the column{'s' * (len(one.same) > 1)} out (--without).",
        )
    elif one.same and finished:
        known = bool(run.terms) and run.features == other.features
        if run.digest != other.digest and not (known and run.terms == other.terms):
            yield (
                "In ",
                f"{same}asks for other numbers about the same rows. Together the results can "
                "reveal single values where there are few rows, and how often each value occurs "
                f"where few are distinct. {_ASK}, or use the result that you have.",
            )
        elif not one.changed:
            yield (
                "This run repeats ",
                f", with the same values of {_columns(one.same)} here. If the other silos' rows "
                "are the same too, the result is the same. But a party that cheats can learn "
                "something new in each run. Repeat it only if you must.",
            )


def _alarms(run: RunEntry, finished: Sequence[_Compared]) -> Iterator[str]:
    """What a run asks for more precisely, or less safely, than finished runs over its columns."""
    finished = [one for one in finished if one.same or one.changed]
    if not run.terms or not finished:
        return
    had: dict[str, list[_Asked]] = {}
    for one in finished:
        for name, asked in _asked_before(run, one):
            had.setdefault(name, []).append(asked)
    more: dict[str, list[str]] = {}
    for name, now in _asked(run).items():
        for words in _more_precise(now, had.get(name, [])):
            more.setdefault(words, []).append(name)
    if more:
        what = "; ".join(f"{words} for {_columns(names)}" for words, names in more.items())
        yield f"MORE PRECISION than in any finished run over the same columns: {what}."
    if not run.terms.verified:
        was = [one.other for one in finished if one.other.terms and one.other.terms.verified]
        unlike = f", unlike {_runs(was)} over the same columns" if was else ""
        yield f"NOT VERIFIED{unlike}: one cheating member of the committee can falsify the result."


class _Asked(NamedTuple):
    """What a run asks of a feature."""

    name: str
    result_bits: int
    max_steps: int
    bounds: tuple[float, float]
    quantiles: tuple[str, ...]


def _asked(run: RunEntry) -> dict[str, _Asked]:
    """What a run asks of each feature; empty where that is not known."""
    if not (terms := run.terms):
        return {}
    methods = terms.methods or (dict[str, tuple[str, ...]](),) * len(run.features)
    of_each = zip(run.features, terms.lower, terms.upper, methods, strict=True)
    return {
        name: _Asked(
            name, terms.result_bits, terms.max_steps, (lower, upper), sum(own.values(), ())
        )
        for name, lower, upper, own in of_each
    }


def _asked_before(run: RunEntry, one: _Compared) -> Iterator[tuple[str, _Asked]]:
    """What an earlier run has asked of this run's features, whatever their names were then."""
    own, names, before = run.digests(), dict[str, list[str]](), _asked(one.other)
    for name, digest in one.other.digests().items():
        names.setdefault(digest, []).append(name)
    if before:
        for name in one.same:
            for then in names[own[name]]:
                yield name, before[then]
        for name in one.changed:
            yield name, before[name]


def _more_precise(now: _Asked, before: Sequence[_Asked]) -> Iterator[str]:
    """In what a run exceeds all earlier ones.

    Other bounds count, narrower or wider: they move the grid, and so the last digits of mean and
    variance that are opened, and the range of lambda.
    """
    if not before:
        return
    for name in ("result_bits", "max_steps"):
        most = max(getattr(asked, name) for asked in before)
        if getattr(now, name) > most:
            yield f"{name} = {getattr(now, name)} (at most {most} before)"
    if all(asked.bounds != now.bounds for asked in before):
        yield "other bounds, which can open further digits,"


def _runs(runs: Sequence[RunEntry]) -> str:
    more = len(runs) - 1
    latest = f"run {shown(runs[0].consortium)} of {printable(runs[0].date[:10])}"
    return latest + (f" and {more} earlier one{'s' * (more > 1)}" if more else "")


def _columns(names: Sequence[str]) -> str:
    return f"column{'s' * (len(names) > 1)} {in_words(names, _MOST_NAMES)}"

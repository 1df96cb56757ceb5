"""What a silo should know about its own table before a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from securefedyj.tables.cells import TableError, first_few

if TYPE_CHECKING:
    from securefedyj.tables.silo_table import Summary

FEW_DISTINCT = 20
"""With fewer distinct values, exact results over few rows can reveal how often each occurs."""

_OTHERS_NAMED = 12

REMEDIES = {
    "missing column": "Add it; it may be empty if this silo does not have the values. If it has "
    'another name here, give --rename "name in the table=agreed name".',
    "duplicate column": "Remove all but one, or rename the others.",
    "no number": "",
    "out of bounds": "Often the unit differs, or -999 means a missing value (then give "
    "--missing=-999). If the values are right, agree on wider bounds with all silos: "
    "securefedyj new NEXT.toml --from FILE --bounds NAME:LOWER:UPPER.",
    "no rows": "This is allowed: this silo has no values of any feature.",
    "few distinct values": "An exact mean and variance can then reveal how many patients of all "
    "silos have each value. Leave the column out, agree on fewer result_bits, or on more silos.",
    "constant": "",
    "all missing": "This is allowed.",
    "missing values": "",
}
"""The kinds of findings, and what to do about each; bad cells come with their own advice."""


@dataclass(frozen=True)
class TableFinding:
    """A fact about a silo's own table, for the silo alone: it may quote values."""

    kind: str
    """One of `REMEDIES`."""
    feature: str | None
    text: str
    stops: bool
    """Whether a run with this table would be refused."""
    count: int = 0
    share: float = 0.0

    @property
    def remedy(self) -> str:
        return REMEDIES[self.kind]


def column_findings(features: Sequence[str], header: Sequence[str]) -> Iterator[TableFinding]:
    """Columns that are missing or appear more than once."""
    others = [repr(name) for name in dict.fromkeys(header) if name not in features]
    for name in dict.fromkeys(features):
        if name not in header:
            text = f"there is no such column{suggestion(name, header)}"
            if others and "perhaps" not in text:
                text += f"; not agreed on, but here: {first_few(others, most=_OTHERS_NAMED)}"
                others = []  # listed only once
            if len(header) == 1:
                text += "; the table has only one column: does it need --delimiter?"
            yield TableFinding("missing column", name, text, stops=True)
        elif (times := header.count(name)) > 1:
            text = f"{times} columns have this name"
            yield TableFinding("duplicate column", name, text, stops=True, count=times)


def value_findings(
    name: str, found: Summary, lower: float, upper: float, line: int | None = None
) -> Iterator[TableFinding]:
    """Problems and notes about the values of a column.

    `line` is the line of the first value outside the bounds, if the table has lines.
    """
    if outside := found.below + found.above:
        first = f"row {found.first_outside}" if line is None else f"line {line}"
        text = (
            f"{found.below} below and {found.above} above the agreed bounds {lower:g} to "
            f"{upper:g}, first in {first}; the values range from {found.least:g} to "
            f"{found.greatest:g}"
        )
        yield TableFinding("out of bounds", name, text, True, outside, outside / found.rows)
    if found.rows and not found.present:
        yield TableFinding("all missing", name, "it has no values here", False, found.missing, 1.0)
    elif found.missing:
        share = found.missing / found.rows
        text = f"{found.missing} of {found.rows} values are missing ({share:.1%})"
        yield TableFinding("missing values", name, text, False, found.missing, share)
    if found.distinct == 1:
        many = f"all {found.present} values are {found.least:g}"
        text = f"it is constant here: {many if found.present > 1 else 'one value'}"
        yield TableFinding("constant", name, text, False, found.present)
    elif 0 < found.distinct < FEW_DISTINCT:
        text = f"it has only {found.distinct} distinct values here"
        yield TableFinding("few distinct values", name, text, False, found.distinct)


def check_columns(path: Path | str, names: Sequence[str], header: Sequence[str]) -> None:
    """Refuse columns that cannot be used, all of them in one message."""
    if len(set(names)) < len(names):
        twice = [repr(name) for name in dict.fromkeys(names) if list(names).count(name) > 1]
        raise TableError(
            "SFY-TAB-026",
            f"{path}: column {', '.join(twice)} is chosen more than once",
        )
    wrong = [f"{f.feature!r}: {f.text}" for f in column_findings(names, header)]
    if wrong:
        raise TableError("SFY-TAB-027", f"{path}: {first_few(wrong, '; ')}")


def suggestion(name: str, header: Sequence[str]) -> str:
    """Similar names, for a message; case and spaces may differ."""
    plain = {column.strip().casefold(): column for column in header}
    close = get_close_matches(name.strip().casefold(), plain, n=3)
    return f" (perhaps {' or '.join(repr(plain[c]) for c in close)}?)" if close else ""

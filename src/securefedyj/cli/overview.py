"""A silo's table compared with the agreed features, in lines for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from itertools import groupby

from securefedyj.cli.common import COLUMNS, wrapped
from securefedyj.network.consortium import Feature
from securefedyj.printable import printable
from securefedyj.tables.files import REMEDIES, Checked, TableFinding
from securefedyj.tables.silo_table import MOST_DISTINCT, Summary

_HEADER = ("missing", "distinct", "min", "median", "max", "agreed", "verdict")
_VERDICTS = {
    "missing column": "no column",
    "duplicate column": "twice",
    "no number": "text",
    "out of bounds": "outside",
    "all missing": "empty",
    "constant": "constant",
    "few distinct values": "few values",
}
_LONGEST_NUMBER = 8  # characters
_FINDINGS_OF_A_KIND = 10


def table_lines(checked: Checked, features: Sequence[Feature]) -> Iterator[str]:
    """One line for each feature; a long name has a line of its own."""
    verdicts: dict[str | None, str] = {}
    for finding in checked.findings:
        if finding.kind in _VERDICTS:
            verdicts.setdefault(finding.feature, _VERDICTS[finding.kind])
    rows = [
        (
            *_cells(checked.columns.get(feature.name)),
            f"{short(feature.lower)} to {short(feature.upper)}",
            verdicts.get(feature.name, "fits"),
        )
        for feature in features
    ]
    widths = [max(map(len, column)) for column in zip(_HEADER, *rows, strict=True)]
    room = COLUMNS - sum(widths) - len(widths)
    names = ["feature", *(printable(feature.name) for feature in features)]
    room = max(min(room, max(map(len, names))), 0)
    for name, row in zip(names, (_HEADER, *rows), strict=True):
        if len(name) > room:
            yield wrapped(name)
            name = ""
        numbers = " ".join(cell.rjust(width) for cell, width in zip(row[:5], widths, strict=False))
        yield f"{name:<{room}} {numbers} {row[5]:<{widths[5]}} {row[6]}"
    if any(not column.exact for column in checked.columns.values()):
        yield "~ marks the median of a sample of the rows."


def finding_lines(findings: Sequence[TableFinding]) -> Iterator[str]:
    """What to do about each kind of finding; missing values are in the table already."""
    order = list(REMEDIES)
    more = [finding for finding in findings if finding.kind != "missing values"]
    more.sort(key=lambda finding: order.index(finding.kind))
    for kind, group in groupby(more, key=lambda finding: finding.kind):
        same = list(group)
        weight = "stops a run" if same[0].stops else "note"
        for finding in same[:_FINDINGS_OF_A_KIND]:
            about = "" if finding.feature is None else f"{printable(finding.feature)}: "
            yield wrapped(f"{weight}: {about}{finding.text}")
        if (left := len(same) - _FINDINGS_OF_A_KIND) > 0:
            yield f"{weight}: and {left} more columns: {_VERDICTS[kind]}"
        if remedy := REMEDIES[kind]:
            yield textwrap.indent(wrapped(remedy, COLUMNS - 2), "  ")


def _cells(column: Summary | None) -> tuple[str, str, str, str, str]:
    if column is None:
        return "-", "-", "-", "-", "-"
    share = column.missing / column.rows if column.rows else 0.0
    about = "" if column.exact else "~"
    return (
        "0" if not share else "all" if share == 1 else "<0.1%" if share < 0.001 else f"{share:.1%}",
        f"{MOST_DISTINCT}+" if column.distinct == MOST_DISTINCT else str(column.distinct),
        short(column.least, 3),
        "-" if column.median != column.median else about + short(column.median, 3),
        short(column.greatest, 3),
    )


def short(value: float, most: int = 4) -> str:
    """A number in few characters and, unless it is whole, few digits; a dash for NaN."""
    if value != value:
        return "-"
    if value == round(value) and abs(value) < 10 ** (_LONGEST_NUMBER - 1):
        return f"{value + 0.0:.0f}"
    for digits in range(most, 1, -1):
        mantissa, e, power = f"{value:.{digits}g}".partition("e")
        text = f"{mantissa}e{int(power)}" if e else mantissa
        if 0 < int(power or 0) < _LONGEST_NUMBER - 2:  # 1390 rather than 1.39e3
            return f"{value:.0f}"
        if len(text) <= _LONGEST_NUMBER:
            return text
    return f"{value:.0e}"

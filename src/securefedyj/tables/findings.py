"""What a silo should know about its own table before a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

import numpy as np

from securefedyj.numerics.arrays import Array
from securefedyj.tables.cells import TableError, Unusable

FEW_DISTINCT = 20
"""With fewer distinct values, exact results over few rows can tell how often each occurs."""

_COLUMNS_NAMED = 5


@dataclass(frozen=True)
class Finding:
    """Something about a silo's own table. It is for the silo's eyes only: it may quote values."""

    kind: str
    """missing column, duplicate column, no number, out of bounds, all missing, constant, few
    distinct values, missing values, or no rows."""
    feature: str | None
    text: str
    stops: bool
    """Whether a run with this table would be refused."""
    count: int = 0
    share: float = 0.0


def column_findings(features: Sequence[str], header: Sequence[str]) -> Iterator[Finding]:
    """Columns that are missing or there more than once."""
    for name in dict.fromkeys(features):
        if name not in header:
            text = f"there is no such column{_suggestion(name, header)}"
            yield Finding("missing column", name, text, stops=True)
        elif (times := header.count(name)) > 1:
            text = f"{times} columns have this name"
            yield Finding("duplicate column", name, text, stops=True, count=times)


def value_findings(
    name: str, values: Array, unusable: Unusable, lower: float, upper: float
) -> Iterator[Finding]:
    """What is wrong or remarkable about the values of a column."""
    rows = len(values)
    if count := unusable.count:
        cells = "1 cell is not a number" if count == 1 else f"{count} cells are not numbers"
        text = f"{cells}, the first: {unusable.first}"
        yield Finding("no number", name, text, True, count, count / rows)
    present = values[~np.isnan(values)]
    below, above = int(np.sum(present < lower)), int(np.sum(present > upper))
    if below + above:
        text = (
            f"{below} below and {above} above the agreed bounds {lower:g} to {upper:g}; "
            f"the values go from {present.min():g} to {present.max():g}"
        )
        yield Finding("out of bounds", name, text, True, below + above, (below + above) / rows)
    absent = rows - len(present) - count
    if rows and absent == rows:
        yield Finding("all missing", name, "it has no values here", False, absent, 1.0)
    elif absent:
        text = f"{absent} of {rows} values are missing ({absent / rows:.1%})"
        yield Finding("missing values", name, text, False, absent, absent / rows)
    if len(present) and np.all(present == present[0]):
        text = f"all {len(present)} values are {present[0]:g}" if len(present) > 1 else "one value"
        yield Finding("constant", name, f"it is constant here: {text}", False, len(present))
    elif 0 < (distinct := len(np.unique(present))) < FEW_DISTINCT:
        text = (
            f"it has only {distinct} distinct values here. From an exact mean and variance one can "
            "then compute how many patients of all silos have each value. Leave the column out, "
            "agree on fewer result_bits, or on more silos"
        )
        yield Finding("few distinct values", name, text, False, distinct)


def check_columns(path: Path | str, names: Sequence[str], header: Sequence[str]) -> None:
    """Refuse columns that cannot be used, and say what is wrong with all of them at once."""
    if len(set(names)) < len(names):
        twice = [repr(name) for name in dict.fromkeys(names) if list(names).count(name) > 1]
        raise TableError(
            f"{path}: column {', '.join(twice)} appears or is asked for more than once"
        )
    wrong = [f"{f.feature!r}: {f.text}" for f in column_findings(names, header)]
    if wrong:
        more = f"; and {len(wrong) - _COLUMNS_NAMED} more" if len(wrong) > _COLUMNS_NAMED else ""
        raise TableError(f"{path}: {'; '.join(wrong[:_COLUMNS_NAMED])}{more}")


def _suggestion(name: str, header: Sequence[str]) -> str:
    """Similar names, even where only case and spaces differ."""
    plain = {column.strip().casefold(): column for column in header}
    close = get_close_matches(name.strip().casefold(), plain, n=3)
    return f" (perhaps {' or '.join(repr(plain[c]) for c in close)}?)" if close else ""

"""The features on the page: those that stand out, and the table of all."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from securefedyj.protocol.result import Result
from securefedyj.protocol.transcript import Transcript
from securefedyj.report import charts
from securefedyj.report.findings import Finding
from securefedyj.report.markup import name_list, number, signed, text
from securefedyj.report.own import OwnRows

_ROWS_BEFORE_SCROLLING = 40
_DRAWN_IN_A_WORD = 1000  # rows; more would not change a picture of 20 bars
_WIDEST = 3.5  # standard deviations of such a picture, the same for all features


def noteworthy(transcript: Transcript, found: Sequence[Finding]) -> str:
    """The features that a reader should look at, and why."""
    items = [
        f"<li><strong>{int(one.chosen.sum()):,} {text(one.what)}:</strong> "
        f"{_named(transcript, one)}. {text(one.words)}</li>"
        for one in found
    ]
    body = f"<ul>{''.join(items)}</ul>" if items else "<p>No feature stands out.</p>"
    return f"<h2>Worth a look</h2>\n{body}"


def _named(transcript: Transcript, finding: Finding) -> str:
    """The names; where there are numbers beside them, the largest first."""
    names, chosen = transcript.agreement.features, np.flatnonzero(finding.chosen)
    if finding.amount is None:
        return name_list([names[j] for j in chosen])
    chosen = chosen[np.argsort(-np.abs(finding.amount[chosen]), kind="stable")]
    amounts = [signed(finding.amount[j]) for j in chosen]
    return name_list([names[j] for j in chosen], amounts)


def table(
    transcript: Transcript,
    result: Result,
    found: Sequence[Finding],
    own: OwnRows | None,
    drawn: Collection[int],
) -> str:
    """All features, with the rounded numbers of their fit, and small pictures of a silo's rows."""
    heads = ["Feature", "n", "λ", "Mean", "Variance"] + ["n here", "Shift"] * (own is not None)
    pictures = ["Before", "After"] * (own is not None)
    cells = zip(
        transcript.agreement.features, result.n, result.lmbda, result.mean, result.var, strict=True
    )
    rows = "\n".join(
        f"<tr><td>{_name(name, j, j in drawn)} {flags(found, j)}</td><td>{int(n)}</td>"
        f"<td>{number(lmbda, 5)}</td><td>{number(mean)}</td><td>{number(var)}</td>"
        f"{'' if own is None else _own_cells(own, j)}</tr>"
        for j, (name, n, lmbda, mean, var) in enumerate(cells)
    )
    tall = " tall" if transcript.n_features > _ROWS_BEFORE_SCROLLING else ""
    about_own = (
        " Shift: how far your mean is from that of all silos, after the transformation, in "
        "standard deviations. Pictures: your values before and after, the latter from "
        f"−{_WIDEST} to {_WIDEST} standard deviations of all silos."
    ) * (own is not None)
    return f"""<h2>All features</h2>
<p class="quiet">Mean and variance are those of the transformed feature over all silos, before it is
standardized. The exact numbers are in parameters.json.{about_own}</p>
<div class="filter" id="filter" hidden>
<input type="search" id="filter-text" placeholder="Filter by name" aria-label="Filter by name">
<label><input type="checkbox" id="filter-flagged"> only with a note</label>
<span class="quiet" id="filter-count" aria-live="polite"></span>
<button type="button" id="filter-all" hidden>Show all</button></div>
<div class="scroll{tall}" role="region" aria-label="All features" tabindex="0">
<table id="features">
<thead><tr>{"".join(f'<th scope="col">{head}</th>' for head in heads)}{
        "".join(f'<th scope="col" data-picture>{picture}</th>' for picture in pictures)
    }</tr></thead>
<tbody class="first">
{rows}
</tbody></table></div>"""


def _name(name: str, j: int, drawn: bool) -> str:
    shown = f"<bdi>{text(name)}</bdi>"
    return f'<a href="#f{j}">{shown}</a>' if drawn else shown


def _own_cells(own: OwnRows, j: int) -> str:
    count, shift = int(own.count[j]), own.shift[j]
    moved = "" if np.isnan(shift) else signed(shift)
    some = own.column(j, _DRAWN_IN_A_WORD)
    before = charts.spark(some.before) if some.varies else ""
    after = charts.spark(some.after, -_WIDEST, _WIDEST) if len(some.after) else ""
    return f"<td>{count}</td><td>{moved}</td><td>{before}</td><td>{after}</td>"


def flags(found: Sequence[Finding], j: int) -> str:
    """What is unusual about a feature, in a word or two each."""
    words = dict.fromkeys(one.flag for one in found if one.chosen[j])
    return " ".join(f'<span class="flag">{text(word)}</span>' for word in words)

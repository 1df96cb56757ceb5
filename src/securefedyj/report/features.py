"""What the run says about the features: those that stand out, and the table of all."""

from __future__ import annotations

import numpy as np

from securefedyj.protocol.result import Result
from securefedyj.protocol.transcript import Transcript
from securefedyj.report.markup import name_list, number, text

# With fewer values, exact means and variances come close to telling the values themselves.
FEW_VALUES = 10
_ROWS_BEFORE_SCROLLING = 40


def noteworthy(transcript: Transcript, result: Result) -> str:
    """The features that a reader should look at, and why."""
    names = np.array(transcript.agreement.features, dtype=object)
    certainty = transcript.certainty()
    few = (result.n < FEW_VALUES) & (result.n > 0)
    findings = [
        (
            "at the edge",
            result.at_bound,
            "The best λ lies beyond the range that the agreed bounds admit, and λ is the edge of "
            "that range. Either the bounds are far wider than the values, and tighter ones would "
            "help; or nearly all values are the same.",
        ),
        (
            "constant",
            result.constant & (result.n > 1),
            "All values at all silos are equal, and the mean tells which value that is.",
        ),
        (
            "unresolved",
            ~certainty.resolved,
            "The values vary too little for their bounds, and λ may be wrong. Agree on bounds "
            "closer to the values, change the unit, or subtract a constant.",
        ),
        (
            "with too few steps",
            certainty.resolved & ~certainty.narrowed,
            f"{transcript.agreement.max_steps} steps were too few to find λ to the promised "
            "precision. Agree on more steps, or change the unit.",
        ),
        (
            f"with fewer than {FEW_VALUES} values",
            few,
            "Exact statistics of so few values can tell the values themselves. Leave such "
            "features out of the next run.",
        ),
        ("without values", result.n == 0, "No silo has any; λ is set to 1."),
    ]
    items = [
        f"<li><strong>{int(chosen.sum()):,} {what}:</strong> {name_list(names[chosen].tolist())}. "
        f"{words}</li>"
        for what, chosen, words in findings
        if chosen.any()
    ]
    body = f"<ul>{''.join(items)}</ul>" if items else "<p>No feature stands out.</p>"
    return f"<h2>Worth a look</h2>\n{body}"


def table(transcript: Transcript, result: Result) -> str:
    """All features, with the rounded numbers of their fit."""
    rows = "\n".join(
        f"<tr><td><bdi>{text(name)}</bdi> {flags(result, j)}</td><td>{int(n)}</td>"
        f"<td>{number(lmbda, 5)}</td><td>{number(mean)}</td><td>{number(var)}</td></tr>"
        for j, (name, n, lmbda, mean, var) in enumerate(
            zip(
                transcript.agreement.features,
                result.n,
                result.lmbda,
                result.mean,
                result.var,
                strict=True,
            )
        )
    )
    tall = " tall" if transcript.n_features > _ROWS_BEFORE_SCROLLING else ""
    return f"""<h2>All features</h2>
<p class="quiet">Mean and variance are those of the transformed feature over all silos, before it is
standardized. The exact numbers are in parameters.json.</p>
<div class="filter" id="filter" hidden>
<input type="search" id="filter-text" placeholder="Filter by name" aria-label="Filter by name">
<label><input type="checkbox" id="filter-flagged"> only with a note</label>
<span class="quiet" id="filter-count" aria-live="polite"></span></div>
<div class="scroll{tall}"><table id="features">
<thead><tr><th>Feature</th><th>n</th><th>λ</th><th>Mean</th><th>Variance</th></tr></thead>
<tbody>
{rows}
</tbody></table></div>"""


def flags(result: Result, j: int) -> str:
    """What is unusual about a feature, in a word or two each."""
    flags = []
    if result.n[j] == 0:
        flags.append("no values")
    elif result.n[j] < FEW_VALUES:
        flags.append("few values")
    if result.at_bound[j]:
        flags.append("at the edge")
    if not result.converged[j]:
        flags.append("not certain")
    if result.constant[j] and result.n[j] > 1:
        flags.append("constant")
    return " ".join(f'<span class="flag">{flag}</span>' for flag in flags)

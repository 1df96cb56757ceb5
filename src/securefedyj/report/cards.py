"""A card for each feature: a chart of its search and, from a silo's own rows, of its values.

With many features only some get a card.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from securefedyj.numerics import yeojohnson
from securefedyj.numerics.arrays import Array, Signs
from securefedyj.protocol.result import Result
from securefedyj.protocol.reveals import Step
from securefedyj.protocol.transcript import Transcript
from securefedyj.report import charts
from securefedyj.report.charts import Curve
from securefedyj.report.features import flags
from securefedyj.report.findings import Finding
from securefedyj.report.markup import number, signed, text
from securefedyj.report.own import Column, OwnRows, skew

_MOST_OF_A_CURVE = 2.5  # standard deviations on either side
_ABOUT_SEARCH = (
    'The search: at each step the parties opened one sign. <span class="key up">▲</span> λ '
    'must grow, <span class="key down">▼</span> λ must shrink; the dashed line is the result. '
    "Every sign can be recomputed from the result, so the signs tell nothing besides it."
)
_ABOUT_ROWS = (
    '<div class="notice warn"><p><strong>Local only.</strong> Drawn from your own rows, on '
    "your machine, after the run.</p></div>"
    "<p>Histograms: your values before and after. The line after is the standard normal curve, "
    "which all silos' rows together come closest to; the line before is the same curve, mapped "
    "back. So both show the whole consortium as the fit sees it: your values may lie beside the "
    "line, or be narrower or wider, where they differ from those of the others. "
    "“12 more →”: so many values lie farther out than is drawn. “60% ↑”: a bar that is cut, and "
    "how many of the values it holds.</p>"
    '<p>Q-Q plot: <span class="key before">●</span> before and <span class="key after">●</span>'
    " after, against the dashed line of a normal distribution; dots beyond 6 standard deviations "
    "lie at the edge.</p>"
)

Figure = tuple[str, str]
"""A caption and its SVG."""


def chosen(result: Result, found: Sequence[Finding], own: OwnRows | None, limit: int) -> list[int]:
    """All features if they are few; else those with a note, and of the rest the most bent ones."""
    if len(result.n) <= limit:
        return list(range(len(result.n)))
    interest = np.abs(result.lmbda - 1 if own is None else own.skewness)
    noted = np.zeros(len(result.n), dtype=bool)
    for one in found:
        noted |= one.chosen
    order = np.lexsort((-np.nan_to_num(interest), ~noted))
    drawable = ~result.constant if own is None else ~(result.constant | own.constant)
    return sorted([int(j) for j in order if drawable[j]][:limit])


def section(
    transcript: Transcript,
    result: Result,
    found: Sequence[Finding],
    own: OwnRows | None,
    drawn: Sequence[int],
) -> str:
    """The cards of the given features; of the search alone where there are no rows."""
    searches = _searches(transcript)
    cards = []
    for j in drawn:
        name = transcript.agreement.features[j]
        facts, figures = "", list[Figure]()
        if own is not None:
            column = own.column(j)
            missing = len(own.values) - int(own.count[j])
            facts = _facts(column, missing, own.shift[j])
            if column.varies:
                figures = _own_figures(name, column, result, j)
        visited, signs = searches[j]
        if len(visited):
            search = charts.search(visited, signs, float(result.lmbda[j]), f"search of {name}")
            figures.append(("search", search))
        else:
            facts += " · no search: no sign was opened"
        cards.append(_card(name, result, j, facts, flags(found, j), figures))
    return "\n".join(
        [
            f"<h2>{'The search' if own is None else 'Your data before and after'}</h2>",
            "" if own is None else _ABOUT_ROWS,
            f"<p>{_ABOUT_SEARCH}</p>",
            _note_on_choice(len(drawn), transcript.n_features, own is not None),
            f'<div class="cards{" small" if own is None else ""}">',
            *cards,
            "</div>",
        ]
    )


def _note_on_choice(shown: int, total: int, with_data: bool) -> str:
    if shown == total:
        return ""
    why = "that were most skewed before" if with_data else "whose λ is farthest from 1"
    return (
        f'<p class="quiet">{shown} of {total:,} features are drawn: those with a note first, then '
        f"those {why}. More with <code>--plots</code>.</p>"
    )


def _card(name: str, result: Result, j: int, facts: str, notes: str, figures: list[Figure]) -> str:
    drawn = "".join(
        f"<figure><figcaption>{caption}</figcaption>{svg}</figure>" for caption, svg in figures
    )
    return (
        f'<article class="card" id="f{j}"><h3><bdi>{text(name)}</bdi></h3>'
        f'<div class="quiet">λ {number(result.lmbda[j], 6)} · n {int(result.n[j]):,}{facts} '
        f'{notes}</div><div class="charts">{drawn}</div></article>'
    )


def _facts(column: Column, missing: int, shift: float) -> str:
    """What can be said of a silo's values of a feature in few words."""
    x, z = column
    facts = f" · here {len(x):,} values" + (f", {missing:,} missing" if missing else "")
    if not np.isnan(shift):
        facts += f" · shift {signed(shift)}"
    if column.varies:
        return facts + f" · skewness here {number(skew(x), 3)} → {number(skew(z), 3)}"
    return facts + (f" · constant here, {number(float(x[0]), 6)}" if len(x) else "")


def _own_figures(name: str, column: Column, result: Result, j: int) -> list[Figure]:
    x, z = column
    normal = Curve(_normal, -_MOST_OF_A_CURVE, _MOST_OF_A_CURVE)
    back = None if result.constant[j] else _mapped_back(result, j)
    return [
        ("before", charts.histogram(x, f"{name} before", "value", back)),
        ("after", charts.histogram(z, f"{name} after", "transformed", normal)),
        ("Q-Q plot", charts.quantiles((x - x.mean()) / x.std(), z, f"Q-Q plot of {name}")),
    ]


def _normal(z: Array) -> Array:
    with np.errstate(over="ignore", under="ignore"):
        density: Array = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
    return density


def _mapped_back(result: Result, j: int) -> Curve:
    """The density of values that the fit makes standard normal: the normal one times the slope."""
    lmbda, at = result.lmbda[j], result.standardization.take(j)

    def log_slope(x: Array) -> Array:
        sloped: Array = (lmbda - 1) * np.sign(x) * np.log1p(np.abs(x))
        return sloped

    def density(x: Array) -> Array:
        # Slopes beside that at the center: their ratio may be ordinary where both overflow.
        with np.errstate(all="ignore"):
            z = yeojohnson.standardize(x, lmbda, at)
            steep = np.exp(log_slope(x) - log_slope(at.center)) / (at.width * (1 + abs(at.center)))
            found: Array = np.nan_to_num(_normal(z) * steep, nan=0.0, posinf=0.0)
        return found

    with np.errstate(all="ignore"):
        ends = np.array([-_MOST_OF_A_CURVE, _MOST_OF_A_CURVE])
        low, high = yeojohnson.unstandardize(ends, lmbda, at)
    # No value is transformed to what lies beyond the bound of a bounded transformation.
    low, high = (end if np.isfinite(end) else at.center for end in (low, high))
    return Curve(density, float(low), float(high))


def _searches(transcript: Transcript) -> list[tuple[Array, Signs]]:
    """The lambdas that each feature visited, and the signs opened there."""
    shape = (transcript.agreement.max_steps, transcript.n_features)
    points, signs = np.zeros(shape), np.zeros(shape, dtype=np.int8)
    for reveal in transcript.all(Step):
        if 0 <= reveal.step < shape[0]:
            points[reveal.step, reveal.features] = reveal.lmbda
            signs[reveal.step, reveal.features] = reveal.delta
    return [(points[s != 0, j], s[s != 0]) for j, s in enumerate(signs.T)]

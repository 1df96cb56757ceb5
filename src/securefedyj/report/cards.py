"""A card for each feature: a chart of its search and, from a silo's own rows, of its values.

With many features only some get a card.
"""

from __future__ import annotations

import numpy as np

from securefedyj.numerics.arrays import Array, Signs
from securefedyj.parameters import Parameters
from securefedyj.protocol.result import Result
from securefedyj.protocol.reveals import Step
from securefedyj.protocol.transcript import Transcript
from securefedyj.report import charts
from securefedyj.report.features import flags
from securefedyj.report.markup import number, text

# Values beyond this cannot be drawn.
_LARGEST_DRAWN = 1e100

Figure = tuple[str, str]
"""A caption and its SVG."""


def section(transcript: Transcript, result: Result, values: Array | None, limit: int) -> str:
    """The cards of at most so many features; of the search alone where there are no values."""
    with_data = values is not None
    searches = _searches(transcript)
    if values is None:
        chosen = _chosen(result, np.abs(result.lmbda - 1), limit)
        cards = [
            _card(transcript, result, j, "", [_search_figure(transcript, result, j, *searches[j])])
            for j in chosen
        ]
    else:
        chosen = _chosen(result, np.abs(_skewness(values)), limit)
        transformed = _transformed(transcript, values)
        cards = []
        for j in chosen:
            facts, figures = _data_figures(
                transcript.agreement.features[j], values[:, j], transformed[:, j]
            )
            figures.append(_search_figure(transcript, result, j, *searches[j]))
            cards.append(_card(transcript, result, j, facts, figures))
    return "\n".join(
        [
            f"<h2>{'Your data before and after' if with_data else 'The search'}</h2>",
            _legend(with_data),
            _note_on_choice(len(chosen), transcript.n_features, with_data),
            f'<div class="cards{"" if with_data else " small"}">',
            *cards,
            "</div>",
        ]
    )


def _chosen(result: Result, interest: Array, limit: int) -> list[int]:
    """All features if they are few; else the first ones, and of the rest the most interesting."""
    p = len(result.n)
    if p <= limit:
        return list(range(p))
    first = max(1, limit // 3) if limit else 0
    order = np.lexsort((-np.nan_to_num(interest), ~result.at_bound))
    rest = [int(j) for j in order if j >= first and not result.constant[j]]
    return sorted([*range(first), *rest[: limit - first]])


def _legend(with_data: bool) -> str:
    about_search = (
        'The search: at each step the parties opened one sign. <span class="key up">▲</span> λ '
        'must grow, <span class="key down">▼</span> λ must shrink; the dashed line is the result. '
        "Every sign can be recomputed from the result, so the signs tell nothing besides it."
    )
    if not with_data:
        return f"<p>{about_search}</p>"
    return (
        '<div class="notice warn"><p><strong>Local only.</strong> Drawn from your own rows, on '
        "your machine, after the run.</p></div>"
        "<p>Histograms: before, with the normal curve of your own mean and variance; after, with "
        "the standard normal curve, which all silos' rows together come closest to. Yours may lie "
        "beside it, or be narrower or wider, where they differ from those of the others.</p>"
        '<p>Q-Q plot: <span class="key before">●</span> before and <span class="key after">●</span>'
        " after, against the dashed line of a normal distribution.</p>"
        f"<p>{about_search}</p>"
    )


def _note_on_choice(shown: int, total: int, with_data: bool) -> str:
    if shown == total:
        return ""
    why = "that were most skewed before" if with_data else "whose λ is farthest from 1"
    return (
        f'<p class="quiet">{shown} of {total:,} features are drawn: the first ones, those at the '
        f"edge, and those {why}. More with <code>--plots</code>.</p>"
    )


def _card(transcript: Transcript, result: Result, j: int, facts: str, figures: list[Figure]) -> str:
    drawn = "".join(
        f"<figure><figcaption>{caption}</figcaption>{svg}</figure>" for caption, svg in figures
    )
    return (
        f'<article class="card"><h3><bdi>{text(transcript.agreement.features[j])}</bdi></h3>'
        f'<div class="quiet">λ {number(result.lmbda[j], 6)} · n {int(result.n[j]):,}{facts} '
        f'{flags(result, j)}</div><div class="charts">{drawn}</div></article>'
    )


def _data_figures(name: str, x: Array, z: Array) -> tuple[str, list[Figure]]:
    """Facts and figures about a silo's values of a feature, x before and z after."""
    missing = int(np.isnan(x).sum())
    # A table of something else may be transformed to numbers that nobody can draw.
    drawable = np.abs(z) < _LARGEST_DRAWN
    x, z = x[drawable], z[drawable]
    facts = f" · here {len(x):,} values" + (f", {missing:,} missing" if missing else "")
    deviation = float(x.std()) if len(x) else 0.0
    if not 0 < deviation < np.inf:
        constant = f" · constant here, {number(float(x[0]), 6)}" if len(x) else ""
        return facts + constant, []
    before, after = (number(_skew(v), 3) if v.std() > 0 else "0" for v in (x, z))
    mean = float(x.mean())
    return f"{facts} · skewness here {before} → {after}", [
        ("before", charts.histogram(x, f"{name} before", "value", (mean, deviation))),
        ("after", charts.histogram(z, f"{name} after", "transformed", (0.0, 1.0))),
        ("Q-Q plot", charts.quantiles((x - mean) / deviation, z, f"Q-Q plot of {name}")),
    ]


def _search_figure(
    transcript: Transcript, result: Result, j: int, lmbda: Array, delta: Signs
) -> Figure:
    title = f"search of {transcript.agreement.features[j]}"
    return "search", charts.search(lmbda, delta, float(result.lmbda[j]), title)


def _searches(transcript: Transcript) -> list[tuple[Array, Signs]]:
    """The lambdas that each feature visited, and the signs opened there."""
    shape = (transcript.agreement.max_steps, transcript.n_features)
    points, signs = np.zeros(shape), np.zeros(shape, dtype=np.int8)
    for reveal in transcript.all(Step):
        if 0 <= reveal.step < shape[0]:
            points[reveal.step, reveal.features] = reveal.lmbda
            signs[reveal.step, reveal.features] = reveal.delta
    return [(points[s != 0, j], s[s != 0]) for j, s in enumerate(signs.T)]


def _transformed(transcript: Transcript, values: Array) -> Array:
    fitted = Parameters.of(transcript).estimator()
    # The columns were chosen by name already; scikit-learn would warn that the array has no names.
    if hasattr(fitted, "feature_names_in_"):
        del fitted.feature_names_in_
    transformed: Array = fitted.transform(values)
    return transformed


def _skewness(values: Array) -> Array:
    """The skewness of each feature; 0 where it is not defined."""
    skewness = np.zeros(values.shape[1])
    for j, x in enumerate(values.T):
        x = x[~np.isnan(x)]
        if len(x) > 2 and 0 < np.ptp(x) < np.inf:
            skewness[j] = _skew(x)
    return skewness


def _skew(x: Array) -> float:
    """By scaled distances, whose powers neither overflow nor vanish; 0 where there are none."""
    distance = x - x.mean()
    largest = np.abs(distance).max()
    if largest == 0:
        return 0.0
    distance /= largest
    return float(np.mean(distance**3) / np.mean(distance**2) ** 1.5)

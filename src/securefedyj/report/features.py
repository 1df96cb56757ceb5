"""What the page shows of single features: a row of the table for each, and a card for some.

A card has a chart of the feature's search and, from a silo's own rows, of its values.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

from securefedyj.numerics import yeojohnson
from securefedyj.numerics.arrays import Array, Signs
from securefedyj.protocol.result import Result
from securefedyj.protocol.reveals import Step
from securefedyj.protocol.transcript import Transcript
from securefedyj.report import charts
from securefedyj.report.charts import Curve, number, signed, skew
from securefedyj.report.notes import FeatureValues, Note, OwnRows

WIDEST = 3.5
"""Standard deviations of a small picture of transformed values, the same for all features."""
_ROWS_OF_A_PICTURE = 1000  # more would not change a picture of 20 bars
_MOST_OF_A_CURVE = 2.5  # standard deviations on either side


def chosen(result: Result, notes: Sequence[Note], own: OwnRows | None, limit: int) -> list[int]:
    """The features that get a card: all, or those with a note first, then the most bent ones."""
    if len(result.n) <= limit:
        return list(range(len(result.n)))
    interest = np.abs(result.lmbda - 1 if own is None else own.skewness)
    noted = np.zeros(len(result.n), dtype=bool)
    for note in notes:
        noted |= note.chosen
    order = np.lexsort((-np.nan_to_num(interest), ~noted))
    drawable = ~result.constant if own is None else ~(result.constant | own.constant)
    return sorted([int(j) for j in order if drawable[j]][:limit])


def worth_a_look(transcript: Transcript, notes: Sequence[Note]) -> list[dict[str, Any]]:
    """Each note with the names of its features; with amounts, the largest first."""
    listed, features = [], transcript.agreement.features
    for note in notes:
        places, amounts = np.flatnonzero(note.chosen), None
        if note.amount is not None:
            places = places[np.argsort(-np.abs(note.amount[places]), kind="stable")]
            amounts = [signed(note.amount[j]) for j in places]
        names = [features[j] for j in places]
        listed.append({"note": note, "names": names, "amounts": amounts})
    return listed


def table(
    transcript: Transcript,
    result: Result,
    notes: Sequence[Note],
    own: OwnRows | None,
    drawn: Collection[int],
) -> list[dict[str, Any]]:
    """A row for each feature, with the rounded numbers of its fit, and small pictures of own rows.

    The cells of `own` are the number of values, the shift, and the values before and after.
    """
    return [
        {
            "place": j,
            "name": name,
            "drawn": j in drawn,
            "flags": _flags(notes, j),
            "n": int(result.n[j]),
            "lmbda": number(result.lmbda[j], 5),
            "mean": number(result.mean[j]),
            "var": number(result.var[j]),
            "own": [] if own is None else _own_cells(own, j),
        }
        for j, name in enumerate(transcript.agreement.features)
    ]


def cards(
    transcript: Transcript,
    result: Result,
    notes: Sequence[Note],
    own: OwnRows | None,
    drawn: Sequence[int],
) -> list[dict[str, Any]]:
    """The cards of these features; without own rows they show the search alone."""
    searches, listed = _searches(transcript), []
    for j in drawn:
        name, (visited, signs) = transcript.agreement.features[j], searches[j]
        facts = [f"λ {number(result.lmbda[j], 6)}", f"n {int(result.n[j]):,}"]
        figures = dict[str, Markup]()
        if own is not None:
            values = own.column(j)
            facts += _own_facts(values, len(own.values) - int(own.count[j]), own.shift[j])
            if values.varies:
                figures = _own_figures(name, values, result, j)
        if len(visited):
            search = charts.search(visited, signs, float(result.lmbda[j]), f"search of {name}")
            figures["search"] = search
        else:
            facts.append("no search: no sign was opened")
        listed.append(
            {"place": j, "name": name, "facts": facts, "flags": _flags(notes, j)}
            | {"figures": figures}
        )
    return listed


def _flags(notes: Sequence[Note], j: int) -> list[str]:
    """What is unusual about a feature, in a word or two each."""
    return list(dict.fromkeys(note.flag for note in notes if note.chosen[j]))


def _own_cells(own: OwnRows, j: int) -> list[str]:
    shift, some = own.shift[j], own.column(j, _ROWS_OF_A_PICTURE)
    return [
        str(int(own.count[j])),
        "" if np.isnan(shift) else signed(shift),
        charts.spark(some.before) if some.varies else "",
        charts.spark(some.after, -WIDEST, WIDEST) if len(some.after) else "",
    ]


def _own_facts(values: FeatureValues, missing: int, shift: float) -> list[str]:
    """Facts about a silo's values of a feature."""
    x, z = values
    facts = [f"here {len(x):,} values" + (f", {missing:,} missing" if missing else "")]
    if not np.isnan(shift):
        facts.append(f"shift {signed(shift)}")
    if values.varies:
        facts.append(f"skewness here {number(skew(x), 3)} → {number(skew(z), 3)}")
    elif len(x):
        facts.append(f"constant here, {number(float(x[0]), 6)}")
    return facts


def _own_figures(name: str, values: FeatureValues, result: Result, j: int) -> dict[str, Markup]:
    """Charts by their captions."""
    x, z = values
    normal = Curve(charts.normal_density, -_MOST_OF_A_CURVE, _MOST_OF_A_CURVE)
    back = None if result.constant[j] else _mapped_back(result, j)
    return {
        "before": charts.histogram(x, f"{name} before", "value", back),
        "after": charts.histogram(z, f"{name} after", "transformed", normal),
        "Q-Q plot": charts.quantiles((x - x.mean()) / x.std(), z, f"Q-Q plot of {name}"),
    }


def _mapped_back(result: Result, j: int) -> Curve:
    """The density of values that the fit makes standard normal: the normal one times the slope."""
    lmbda, at = result.lmbda[j], result.standardization.take(j)

    def log_slope(x: Array) -> Array:
        sloped: Array = (lmbda - 1) * np.sign(x) * np.log1p(np.abs(x))
        return sloped

    def density(x: Array) -> Array:
        # Slopes relative to that at the center: their ratio may be ordinary where both overflow.
        with np.errstate(all="ignore"):
            z = yeojohnson.standardize(x, lmbda, at)
            steep = np.exp(log_slope(x) - log_slope(at.center)) / (at.width * (1 + abs(at.center)))
            found: Array = np.nan_to_num(charts.normal_density(z) * steep, nan=0.0, posinf=0.0)
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

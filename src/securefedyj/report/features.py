"""What the page shows of single features: a row of the table for each, and a card for some.

A card has a chart of the feature's search and, from a silo's own rows, of its values.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from markupsafe import Markup

from securefedyj.numerics import yeojohnson
from securefedyj.numerics.arrays import Array, Signs
from securefedyj.protocol.result import Result
from securefedyj.protocol.reveals import Step
from securefedyj.protocol.transcript import Transcript
from securefedyj.report import charts
from securefedyj.report.charts import Curve, skew
from securefedyj.report.notes import FeatureValues, OwnRows, notes_of

WIDEST = 3.5
"""Standard deviations of a small picture of transformed values, the same for all features."""
_ROWS_OF_A_PICTURE = 1000  # more would not change a picture of 20 bars
_MOST_OF_A_CURVE = 2.5  # standard deviations on either side


class Features:
    """All features of a run, and how many of them to draw at most."""

    def __init__(
        self, transcript: Transcript, result: Result, own: OwnRows | None, plots: int
    ) -> None:
        self._transcript, self._result, self._own = transcript, result, own
        self._names = transcript.agreement.features
        self._notes = notes_of(transcript, result, own)
        self._drawn = self._chosen(plots)
        self.counts = {note.kind: int(note.chosen.sum()) for note in self._notes}

    def _chosen(self, limit: int) -> list[int]:
        """The features that get a card: all, or those with a note first, then the most bent."""
        result, own = self._result, self._own
        if len(self._names) <= limit:
            return list(range(len(self._names)))
        interest = np.abs(result.lmbda - 1 if own is None else own.skewness)
        noted = np.zeros(len(self._names), dtype=bool)
        for note in self._notes:
            noted |= note.chosen
        order = np.lexsort((-np.nan_to_num(interest), ~noted))
        drawable = ~result.constant if own is None else ~(result.constant | own.constant)
        return sorted([int(j) for j in order if drawable[j]][:limit])

    def worth_a_look(self) -> Iterator[dict[str, Any]]:
        """Each note with the names of its features; with amounts, the largest first."""
        for note in self._notes:
            places, amounts = np.flatnonzero(note.chosen), None
            if note.amount is not None:
                places = places[np.argsort(-np.abs(note.amount[places]), kind="stable")]
                amounts = note.amount[places]
            names = [self._names[j] for j in places]
            yield {"kind": note.kind, "names": names, "amounts": amounts}

    def rows(self) -> Iterator[dict[str, Any]]:
        """The table: every feature with its fit, and small pictures of own rows."""
        for j in range(len(self._names)):
            row = self._one(j) | {"drawn": j in self._drawn}
            if self._own is not None:
                x, z = some = self._own.column(j, _ROWS_OF_A_PICTURE)
                row["before"] = charts.spark(x) if some.varies else ""
                row["after"] = charts.spark(z, -WIDEST, WIDEST) if len(z) else ""
            yield row

    def cards(self) -> Iterator[dict[str, Any]]:
        """The features that are drawn; without own rows they show the search alone."""
        searches = _searches(self._transcript)
        for j in self._drawn:
            card, figures = self._one(j), dict[str, Markup]()
            name, result, (visited, signs) = card["name"], self._result, searches[j]
            if self._own is not None:
                x, z = values = self._own.column(j)
                card |= {"values": len(x), "missing": len(self._own.values) - card["here"]}
                if values.varies:
                    card["skewness"] = skew(x), skew(z)
                    figures = _own_figures(name, values, result, j)
                elif len(x):
                    card["constant"] = float(x[0])
            if len(visited):
                lmbda, title = float(result.lmbda[j]), f"search of {name}"
                figures["search"] = charts.search(visited, signs, lmbda, title)
            yield card | {"figures": figures}

    def _one(self, j: int) -> dict[str, Any]:
        """What rows and cards have in common."""
        result, own = self._result, self._own
        numbers = {part: getattr(result, part)[j].item() for part in ("n", "lmbda", "mean", "var")}
        kinds = [note.kind for note in self._notes if note.chosen[j]]
        found = {"place": j, "name": self._names[j], "kinds": kinds, **numbers}
        if own is None:
            return found
        shift = None if np.isnan(own.shift[j]) else own.shift[j]
        return found | {"here": int(own.count[j]), "shift": shift}


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
    log_at = np.sign(at.center) * np.log1p(np.abs(at.center))

    def density(x: Array) -> Array:
        # Slopes relative to that at the center: their ratio may be ordinary where both overflow.
        with np.errstate(all="ignore"):
            z = yeojohnson.standardize(x, lmbda, at)
            rise = (lmbda - 1) * (np.sign(x) * np.log1p(np.abs(x)) - log_at)
            steep = np.exp(rise) / (at.width * (1 + abs(at.center)))
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

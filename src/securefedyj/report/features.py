"""What the page shows of single features: what stands out about them, a table, and cards.

Some notes follow from the result, and are the same for everybody. Others, and the charts of values,
come from a silo's own rows, and appear only on that silo's own page.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup

from securefedyj.network.consortium import Consortium
from securefedyj.numerics import boxcox, yeojohnson
from securefedyj.numerics.arrays import Array, Bools, Integers, Signs
from securefedyj.numerics.encoding import LINEAR, LOGARITHM, RATIO
from securefedyj.protocol.methods import METHODS
from securefedyj.protocol.result import Result
from securefedyj.protocol.reveals import Step
from securefedyj.protocol.transcript import Transcript
from securefedyj.report import charts
from securefedyj.report.charts import Curve, distinguishable, skew

STEEP = 10
_LARGEST_DRAWN = 1e100
_LEAST_SHIFT, _LEAST_ERRORS = 0.5, 4.0
WIDEST = 3.5
"""Standard deviations of a small picture of transformed values, the same for all features."""
_ROWS_OF_A_PICTURE = 1000  # more would not change a picture of 20 bars


class Fits:
    """What a run has fitted: an entry for each method of each feature, but for quantiles."""

    def __init__(self, transcript: Transcript, result: Result) -> None:
        agreement, asked = transcript.agreement, transcript.agreement.asked
        self.result, self.fitted = result, asked.fitted
        self.column = asked.column[asked.fitted]
        self.scale = asked.domain.scale[asked.fitted]
        self.plain = bool(np.all(asked.domain.scale == LOGARITHM))
        of_scale = {scale: f", {method}" * (not self.plain) for method, scale in METHODS.items()}
        each = zip(self.column.tolist(), self.scale.tolist(), strict=True)
        self.names = [agreement.features[j] + of_scale[scale] for j, scale in each]

    def transform(self, j: int, x: Array) -> Array:
        """The values of a feature as the fit transforms them, to mean 0 and variance 1."""
        lmbda, at = self.result.lmbda[j], self.result.standardization.take(j)
        with np.errstate(all="ignore"):
            if self.scale[j] == LINEAR:
                z: Array = ((x - at.center) - at.center_low) / at.width
            else:
                z = self._formulas(j).standardize(x, lmbda, at)
        return z

    def inverse(self, j: int, z: Array) -> Array:
        """The values that are transformed to these."""
        lmbda, at = self.result.lmbda[j], self.result.standardization.take(j)
        with np.errstate(all="ignore"):
            if self.scale[j] == LINEAR:
                x: Array = at.center + z * at.width
            else:
                x = self._formulas(j).unstandardize(z, lmbda, at)
        return x

    def _formulas(self, j: int) -> Any:
        return boxcox if self.scale[j] == RATIO else yeojohnson

    def for_scikit_learn(self) -> Bools:
        """The entries whose mean and variance, as float64, contain the same."""
        result, ratio = self.result, self.scale == RATIO
        with np.errstate(all="ignore"):  # of entries that are not for Box-Cox
            moments = boxcox.moments(result.lmbda, result.standardization)
        own = zip(moments, (result.mean, result.var), strict=True)
        mean, var = (np.where(ratio, one, other) for one, other in own)
        var = np.where(result.constant, 0.0, var)
        known = result.standardization.follows_from(mean, var, np.where(ratio, 0.0, 1.0))
        known |= result.constant & (self.scale == LINEAR)
        return known


class FeatureValues(NamedTuple):
    """The values of one feature that are not missing and can be drawn."""

    before: Array
    after: Array

    @property
    def varies(self) -> bool:
        """Whether there is more to draw than one point."""
        spread = float(self.before.std()) if len(self.before) else 0.0
        return 0 < spread < np.inf and distinguishable(self.before)


class OwnRows:
    """Rows of a silo, with the fit of all silos; a sample if `rows` is the number of all its rows.

    The features are in the order of the agreement; here, there is an entry for each of their fits.
    NaN marks a missing value.
    """

    def __init__(self, values: Array, transcript: Transcript, rows: int | None = None) -> None:
        result = transcript.result or transcript.compute_result()
        self._fits = Fits(transcript, result)
        self.values = values = values[:, self._fits.column]
        self.rows = len(values) if rows is None else rows
        columns = [present(column) for column in values.T]
        self.count: Integers = np.array([len(column) for column in columns], dtype=np.int64)
        self.skewness = np.array([skew(column) for column in columns])
        # Equal up to rounding.
        equal = [len(column) > 0 and not distinguishable(column) for column in columns]
        self.constant: Bools = np.array(equal, dtype=bool)
        # The distance of the own mean from that of all silos, in standard deviations of all: after
        # the transformation these mean the same for every feature.
        means = [
            after.mean() if len(after := self.column(j).after) and not constant else np.nan
            for j, constant in enumerate(result.constant)
        ]
        self.shift = np.array(means, dtype=np.float64)

    @property
    def sampled(self) -> bool:
        return self.rows > len(self.values)

    def column(self, j: int, most: int | None = None) -> FeatureValues:
        """The values of a feature; with `most`, from a sample of about that many rows."""
        step = 1 if most is None else max(1, len(self.values) // most)
        x = present(self.values[::step, j])
        z = self._fits.transform(j, x)
        # Values that are not from the table of the run may become too large to draw.
        drawable = np.abs(z) < _LARGEST_DRAWN
        return FeatureValues(x[drawable], z[drawable])

    @property
    def shifted(self) -> Bools:
        """The features with a large shift, larger than chance explains."""
        chance = _LEAST_ERRORS / np.sqrt(np.maximum(self.count, 1))
        beyond: Bools = np.abs(self.shift) >= np.maximum(_LEAST_SHIFT, chance)
        return beyond


def present(column: Array) -> Array:
    """The values that are not missing."""
    return column[~np.isnan(column)]


class Note(NamedTuple):
    """Something about some features; its words are in templates/notes.html."""

    kind: str
    chosen: Bools
    amount: Array | None = None  # a number next to each name


def notes_of(transcript: Transcript, result: Result, own: OwnRows | None) -> list[Note]:
    """All notes that apply to at least one feature."""
    certainty, fits = transcript.certainty(), Fits(transcript, result)
    notes = [
        Note("at the limit", result.at_bound),
        Note("steep", ~(np.abs(result.lmbda) <= STEEP) & ~result.constant, result.lmbda),
        Note("constant", result.constant & (result.n > 1)),
        Note("unresolved", ~certainty.resolved),
        Note("too few steps", certainty.resolved & ~certainty.narrowed),
        Note("few values", (result.n < Consortium.minimum_values) & (result.n > 0)),
        Note("no values", result.n == 0),
        Note("not for scikit-learn", ~fits.for_scikit_learn()),
    ]
    if own is not None:
        notes = [
            Note("empty here", (own.count == 0) & (result.n > 0)),
            Note("constant here", own.constant & ~result.constant),
            Note("shifted", own.shifted, own.shift),
            *notes,
        ]
    return [note for note in notes if note.chosen.any()]


class Features:
    """All features of a run, and at most a number of `plots`."""

    def __init__(
        self,
        transcript: Transcript,
        result: Result,
        own: OwnRows | None,
        plots: int,
        units: Mapping[str, str],
    ) -> None:
        self._transcript, self._result, self._own = transcript, result, own
        self._fits = Fits(transcript, result)
        self._names = self._fits.names
        names = transcript.agreement.features
        self._units = [units.get(names[j], "") for j in self._fits.column]
        self._notes = notes_of(transcript, result, own)
        self._drawn = self._chosen(plots)
        self.counts = {note.kind: int(note.chosen.sum()) for note in self._notes}

    def _chosen(self, limit: int) -> list[int]:
        """The features that get a card: all, or those with a note first, then the most bent."""
        result, own, every = self._result, self._own, range(len(self._names))
        if len(every) <= limit:
            return list(every)
        interest = np.abs(result.lmbda - 1 if own is None else own.skewness)
        noted = np.any([note.chosen for note in self._notes] or np.zeros((1, len(every))), axis=0)
        order = np.lexsort((-np.nan_to_num(interest), ~noted))
        empty = result.constant if own is None else result.constant | own.constant
        return sorted([j for j in order.tolist() if not empty[j]][:limit])

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
        searches = _searches(self._transcript, self._fits)
        for j in self._drawn:
            card, figures = self._one(j), dict[str, Markup]()
            name, result, (visited, signs) = card["name"], self._result, searches[j]
            if self._own is not None:
                x, z = values = self._own.column(j)
                card |= {"values": len(x), "missing": len(self._own.values) - card["here"]}
                if values.varies:
                    card["skewness"] = skew(x), skew(z)
                    back = None if result.constant[j] else _mapped_back(self._fits, j)
                    own = (x - x.mean()) / x.std()
                    figures = {
                        "before": charts.histogram(
                            x, f"{name} before", card["unit"] or "value", back
                        ),
                        "after": charts.histogram(
                            z, f"{name} after", "transformed", charts.normal_curve()
                        ),
                        "Q-Q plot": charts.quantiles(own, z, f"Q-Q plot of {name}"),
                    }
                elif len(x):
                    card["constant"] = float(x[0])
            if len(visited):
                lmbda, title = float(result.lmbda[j]), f"search of {name}"
                figures["search"] = charts.search(visited, signs, lmbda, title)
            yield card | {"figures": figures}

    def _one(self, j: int) -> dict[str, Any]:
        """What rows and cards have in common."""
        result, own = self._result, self._own
        numbers = {part: getattr(result, part)[j].item() for part in ("n", "lmbda", "center")}
        kinds = [note.kind for note in self._notes if note.chosen[j]]
        found = {"place": j, "name": self._names[j], "unit": self._units[j], "kinds": kinds}
        ends = self._fits.inverse(j, np.array([-1.0, 1.0]))
        spread = not result.constant[j] and np.isfinite(ends).all()
        found |= {**numbers, "ends": ends.tolist() if spread else []}
        found["searched"] = self._fits.scale[j] != LINEAR
        if own is None:
            return found
        shift = None if np.isnan(own.shift[j]) else own.shift[j]
        return found | {"here": int(own.count[j]), "shift": shift}


def _mapped_back(fits: Fits, j: int) -> Curve:
    """The density of values that the fit makes standard normal: the normal one times the slope."""

    def density(x: Array) -> Array:
        step = 1e-4 * np.ptp(x)
        z, low, high = (fits.transform(j, x + away) for away in (0, -step, step))
        with np.errstate(all="ignore"):
            found = charts.normal_density(z) * (high - low) / (2 * step)
        return np.nan_to_num(found, nan=0.0, posinf=0.0)

    low, high = fits.inverse(j, charts.MOST_OF_A_CURVE * np.array([-1, 1]))
    # No value is transformed to what lies beyond the bound of a bounded transformation.
    center = fits.result.center[j]
    low, high = (end if np.isfinite(end) else center for end in (low, high))
    return Curve(density, float(low), float(high))


def _searches(transcript: Transcript, fits: Fits) -> list[tuple[Array, Signs]]:
    """The lambdas that each fit visited, and the signs opened there."""
    shape = (transcript.agreement.max_steps, transcript.n_features)
    points, signs = np.zeros(shape), np.zeros(shape, dtype=np.int8)
    for reveal in transcript.all(Step):
        if 0 <= reveal.step < shape[0]:
            points[reveal.step, reveal.features] = reveal.lmbda
            signs[reveal.step, reveal.features] = reveal.delta
    return [(points[signs[:, i] != 0, i], signs[signs[:, i] != 0, i]) for i in fits.fitted]

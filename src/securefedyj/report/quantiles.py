"""What the page shows of quantiles: a table, and box plots over a silo's own rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import Any

import numpy as np
from markupsafe import Markup

from securefedyj.numerics.arrays import Array
from securefedyj.protocol.methods import rank_of
from securefedyj.protocol.transcript import Quantile, Transcript
from securefedyj.report import charts
from securefedyj.report.features import present


class Quantiles:
    """The quantiles of a run, and at most a number of `plots`."""

    def __init__(
        self, transcript: Transcript, values: Array | None, plots: int, units: Mapping[str, str]
    ) -> None:
        self._units = [units.get(name, "") for name in transcript.agreement.features]
        self._agreement, self._values, self._plots = transcript.agreement, values, plots
        self._found = transcript.quantiles()
        self._counts = transcript.values_of_features()
        self.columns = [j for j, found in enumerate(self._found) if found]
        self.refused = sum(bool(one.refused) for own in self._found for one in own.values())

    def rows(self) -> Iterator[dict[str, Any]]:
        """Each quantile, with the share of own values that are not above it."""
        for j in self.columns:
            own = None if self._values is None else present(self._values[:, j])
            for quantile, one in self._in_order(j):
                known = own is not None and len(own) and not one.refused
                here = float(np.mean(own <= one.value)) if known and own is not None else None
                name, n = self._agreement.features[j], self._counts[j]
                row = {"name": name, "n": n, "quantile": quantile, "here": here}
                row["unit"] = self._units[j]
                yield {**row, "value": one.value, "rank": one.rank, "refused": one.refused}

    def cards(self) -> Iterator[dict[str, Any]]:
        """The features that are drawn."""
        for j in self.columns[: self._plots]:
            known = [(q, one) for q, one in self._in_order(j) if not one.refused]
            points = np.array([one.value for _, one in known])
            name = self._agreement.features[j]
            card: dict[str, Any] = {"name": name, "n": self._counts[j], "figure": ""}
            own = same = None
            if self._values is not None:
                own = present(self._values[:, j])
                own = own[np.isfinite(own)]
                card["here"] = len(own)
                if len(own) and isfinite(float(np.ptp(own))):
                    ranks = [rank_of(q, len(own)) for q, _ in known]
                    same = np.sort(own)[np.array(ranks, dtype=np.intp) - 1]
                else:
                    own = None
            if known:
                robust = self._agreement.methods[j].get("robust", ())
                inside = [i for i, (q, _) in enumerate(known) if q in robust]
                title = f"quantiles of {name}"
                card["figure"] = boxes(points, inside, title, self._units[j], own, same)
            yield card

    def _in_order(self, j: int) -> list[tuple[str, Quantile]]:
        return sorted(self._found[j].items(), key=lambda one: float(one[0]))


def boxes(
    points: Array,
    inside: Sequence[int],
    title: str,
    unit: str = "",
    own: Array | None = None,
    same: Array | None = None,
) -> Markup:
    """Quantiles of all silos, as a box plot of those inside or as marks on a line.

    With own values, above their histogram, and below them the same quantiles of these values.
    """
    ends = points if same is None else np.concatenate([points, same])
    low, high, top = float(ends.min()), float(ends.max()), 1.0
    bins = None if own is None else charts.binned(own)
    if bins is not None:
        low, high = min(low, float(bins.left[0])), max(high, float(bins.right[-1]))
        top = float(bins.density.max())
    margin = 0.04 * (high - low) or 0.5
    chart = charts.Chart((low - margin, high + margin), (0.0, 1.5 * top))
    if bins is not None:
        chart.bars(bins, top)
    chart.box("box", points, (1.36 if bins is not None else 0.75) * top, inside)
    if same is not None:
        chart.box("own box", same, 1.15 * top, inside)
    return chart.svg(title, unit or "value", "" if bins is None else "density", y_ticks=False)

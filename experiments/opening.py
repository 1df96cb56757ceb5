"""Runs at a chosen precision, and what their transcripts open of a column."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from experiments.histogram import Opened, Window
from securefedyj import SecureFedYJ
from securefedyj.numerics.arrays import Array
from securefedyj.protocol.reveals import Moments, lowest_opened
from securefedyj.protocol.transcript import Transcript

SILOS = 3


class Precision(NamedTuple):
    """To how many steps lambda is searched, and to how many bits the moments are opened."""

    max_steps: int
    result_bits: int


FULL, DEFAULT = Precision(40, 44), Precision(30, 24)


def fit(X: Array, bounds: list[tuple[float, float]], precision: Precision) -> SecureFedYJ:
    """A run over a table that is split over silos, without secrecy: it opens the same."""
    model = SecureFedYJ(engine="clear", bounds=bounds, **precision._asdict())
    return model.fit(np.array_split(X, SILOS))


def opened(model: SecureFedYJ, values: list[Array]) -> list[Opened]:
    """What the transcript tells of each column, whose possible values are public."""
    revealed: Transcript = model.transcript_
    agreement, bracket, n = revealed.agreement, revealed.search_state(), revealed.counts()
    lows = lowest_opened(revealed.magnitudes(), agreement.result_bits)
    columns: dict[int, Opened] = {}
    for reveal in revealed.all(Moments):
        for j, V, S_y in zip(reveal.features.tolist(), reveal.V, reveal.S_y, strict=True):
            V_low, y_low = (int(low[j]) for low in lows)
            columns[j] = Opened(
                values[j],
                (float(agreement.domain.lower[j]), float(agreement.domain.upper[j])),
                int(n[j]),
                float(bracket.value[j]),
                float(bracket.lower[j]),
                float(bracket.upper[j]),
                Window(S_y << y_low, 1 << y_low),
                Window(V << V_low, 1 << V_low),
            )
    return [columns[j] for j in range(len(values))]

"""Runs at a chosen precision, and what their transcripts open of a column."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from experiments.histogram import Opened, Window
from securefedyj import SecureFedYJ
from securefedyj.numerics.arrays import Array, Integers
from securefedyj.protocol.reveals import MAGNITUDE_STEP, Moments, Revealed, lowest_opened

SILOS = 3


class Precision(NamedTuple):
    """To how many steps lambda is searched, and to how many bits the moments are opened."""

    max_steps: int
    result_bits: int


FULL, DEFAULT = Precision(40, 44), Precision(30, 24)


def fit(X: Array, bounds: list[tuple[float, float]], precision: Precision) -> SecureFedYJ:
    """A run over a table that is split over silos, without secrecy: it opens the same."""
    model = SecureFedYJ(engine="clear", max_steps=precision.max_steps, bounds=bounds)
    model.fit(np.array_split(X, SILOS))
    transcript = model.transcript_
    transcript.reveals[:] = [
        _coarser(reveal, precision.result_bits) if isinstance(reveal, Moments) else reveal
        for reveal in transcript.reveals
    ]
    result = transcript.concluded().result
    assert result is not None
    model._set_result(result)
    return model


def opened(model: SecureFedYJ, values: list[Array], precision: Precision) -> list[Opened]:
    """What the transcript tells of each column, whose possible values are public."""
    revealed: Revealed = model.transcript_
    domain, bracket, n = revealed.agreement.domain, revealed.search_state(), revealed.counts()
    columns: list[Opened] = []
    for reveal in revealed.all(Moments):
        kept = lowest_opened(reveal.magnitude)
        lows = _lowest_opened(reveal.magnitude, precision.result_bits)
        for i, j in enumerate(reveal.features.tolist()):
            S_y, V = (
                Window(value[i] << int(low[i]) >> int(new[i]) << int(new[i]), 1 << int(new[i]))
                for value, low, new in zip(
                    (reveal.S_y, reveal.V), reversed(kept), reversed(lows), strict=True
                )
            )
            columns.append(
                Opened(
                    values[j],
                    (float(domain.lower[j]), float(domain.upper[j])),
                    int(n[j]),
                    float(bracket.value[j]),
                    float(bracket.lower[j]),
                    float(bracket.upper[j]),
                    S_y,
                    V,
                )
            )
    return columns


def _lowest_opened(magnitude: Integers, result_bits: int) -> tuple[Integers, Integers]:
    """As `lowest_opened`, at another precision."""
    return (
        np.maximum(MAGNITUDE_STEP * magnitude - result_bits, 0),
        np.maximum(MAGNITUDE_STEP * magnitude // 2 - result_bits, 0),
    )


def _coarser(reveal: Moments, result_bits: int) -> Moments:
    """The same moments with the bits below a precision at the middle of their range."""
    pairs = zip(
        (reveal.V, reveal.S_y),
        lowest_opened(reveal.magnitude),
        _lowest_opened(reveal.magnitude, result_bits),
        strict=True,
    )
    V, S_y = (
        [
            (value >> more << more) + (1 << more >> 1)
            for value, more in zip(values, (new - old).tolist(), strict=True)
        ]
        for values, old, new in pairs
    )
    return reveal._replace(V=V, S_y=S_y)

"""One small run with every kind of feature, and its file to be tampered with."""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from securefedyj.protocol.reveals import Final, Magnitudes, Moments
from securefedyj.protocol.transcript import Transcript
from tests.federated_data import agreement, as_table, run, shuffled

NAMES = ("income", "change", "rare", "fixed", "single", "empty")
STEPS = 14


def data() -> np.ndarray:
    """An ordinary feature of each sign, one beyond the edge, a constant, one value, none."""
    rng = np.random.default_rng(12)
    return as_table(
        [
            rng.lognormal(2, 1, size=40),
            rng.normal(size=30),
            [0.0] * 30 + [1.0],
            [7.5] * 12,
            [3.25],
            np.zeros(0),
        ]
    )


@cache
def small_run(engine: str = "clear", levels: int = 2) -> Transcript:
    """The transcript of the run; the same object every time."""
    agreed = agreement(
        6, engine=engine, features=NAMES, max_steps=STEPS, levels_per_exchange=levels
    )
    return run(agreed, shuffled(data(), 3))[0]


@cache
def small_verified_run() -> Transcript:
    """The transcript of the same run if it is verified; the feature without a value comes last."""
    plain = small_run()
    agreed = replace(
        plain.agreement, engine="replicated", committee=plain.agreement.parties, verified=True
    )
    *search, magnitudes, moments = plain.reveals
    assert isinstance(magnitudes, Magnitudes)
    assert isinstance(moments, Moments)
    magnitude = np.append(magnitudes.magnitude, 0)
    final = Final(np.arange(6), True, magnitude, [*moments.V, 0], [*moments.S_y, 0])
    return Transcript(agreed, [*search, final]).concluded()


def tampered_lines() -> list[dict[str, Any]]:
    """The file of the run, to be tampered with."""
    return copy.deepcopy(list(small_run().to_lines()))


def of_kind(lines: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [line for line in lines if line.get("reveal") == kind]

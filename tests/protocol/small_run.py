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
    """The transcript of the same run if it is verified."""
    return verified(small_run()).with_result()


def verified(plain: Transcript) -> Transcript:
    """What a verified run reveals where one that is not, of one batch, reveals this."""
    names = ("ana", "bob", "cem")
    agreed = replace(
        plain.agreement,
        parties=names,
        committee=names,
        helpers=(),
        engine="replicated",
        verified=True,
    )
    *search, magnitudes, moments = plain.reveals
    assert isinstance(magnitudes, Magnitudes)
    assert isinstance(moments, Moments)
    size = plain.n_features
    magnitude, V, S_y = np.zeros(size, dtype=np.int64), [0] * size, [0] * size
    magnitude[magnitudes.features] = magnitudes.magnitude
    for j, own_V, own_S_y in zip(moments.features.tolist(), moments.V, moments.S_y, strict=True):
        V[j], S_y[j] = own_V, own_S_y
    final = Final(np.arange(size), True, magnitude, V, S_y)
    return Transcript(agreed, [*search, final], plain.result)


def tampered_lines() -> list[dict[str, Any]]:
    """The file of the run, to be tampered with."""
    return copy.deepcopy(list(small_run().to_lines()))


def of_kind(lines: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [line for line in lines if line.get("reveal") == kind]

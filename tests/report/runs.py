"""A small run with everything that is unusual: names, features without values, and with few."""

from __future__ import annotations

import dataclasses

import numpy as np

from securefedyj.numerics.encoding import Domain
from securefedyj.protocol.agreement import Agreement
from securefedyj.protocol.simulation import simulate
from securefedyj.protocol.transcript import Transcript

EVIL = '</title></script><script>alert("x")</script><img src=x onerror=alert(1)>"\' onload="y'
NAMES = ("skewed", "rare", "constant", "empty", "few", EVIL, "\ud800\x00\u202eoh")


def data(rows: int = 60) -> np.ndarray:
    rng = np.random.default_rng(0)
    X = rng.lognormal(size=(rows, len(NAMES)))
    X[:, 1] = np.arange(rows) == 3
    X[:, 2] = 7.5
    X[:, 3] = np.nan
    X[4:, 4] = np.nan
    return X


def fit(X: np.ndarray, names: tuple[str, ...], parties: tuple[str, ...]) -> Transcript:
    agreement = Agreement(
        features=names,
        domain=Domain.from_bounds((0, 64), len(names)),
        parties=parties,
        committee=parties,
        engine="clear",
        max_steps=12,
        levels_per_exchange=4,
        result_bits=44,
        minimum_values=0,
        verified=False,
    )
    return simulate(agreement, np.array_split(X, len(parties)))[0]


def as_engine(transcript: Transcript, engine: str, committee: tuple[str, ...]) -> Transcript:
    """All engines open the same: the transcript of another one differs in its agreement."""
    agreement = dataclasses.replace(transcript.agreement, engine=engine, committee=committee)
    return dataclasses.replace(transcript, agreement=agreement)

"""Every method finds what it must, whatever the engine, the split and the levels."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from securefedyj.protocol.simulation import simulate
from securefedyj.protocol.transcript import Transcript
from tests.federated_data import plain, shuffled
from tests.protocol.methods import FIVE, agreed, table


@pytest.mark.parametrize(
    ("engine", "verified"), [("clear", False), ("replicated", False), ("replicated", True)]
)
def test_five_methods_in_one_run(engine, verified):
    """Values are on the grid of 2^24 steps between the bounds, or close to it."""
    X = table()
    run = agreed(FIVE, engine=engine, verified=verified)
    transcript, _ = simulate(run, shuffled(X, 3))
    assert transcript.audit().findings == []
    again = Transcript.from_lines(transcript.to_lines())
    assert again.to_text() == transcript.to_text()
    (column,), fit = transcript.fit_of("standard")
    known = [Fraction(x) for x in X[~np.isnan(X[:, column]), column].tolist()]
    mean = sum(known) / len(known)
    assert fit.mean[0] == pytest.approx(float(mean), rel=1e-12)
    assert fit.var[0] == pytest.approx(
        float(sum((x - mean) ** 2 for x in known) / len(known)), rel=1e-12
    )


def test_engines_splits_and_levels_reveal_the_same():
    X = table()
    first, _ = simulate(agreed(FIVE), shuffled(X, 3))
    for silos, engine, levels in ((3, "replicated", 4), (5, "clear", 1), (4, "replicated", 7)):
        run = agreed(FIVE, silos=silos, engine=engine, levels_per_exchange=levels)
        transcript, _ = simulate(run, shuffled(X, silos, seed=silos))
        assert plain(transcript.reveals) == plain(first.reveals)
        assert list(transcript.to_lines())[-1] == list(first.to_lines())[-1]

"""Notes: what matters to this silo, and why."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest

from securefedyj.network.consortium import Consortium
from securefedyj.numerics.encoding import Domain
from securefedyj.parameters import Parameters
from securefedyj.protocol.agreement import Agreement
from securefedyj.protocol.simulation import simulate
from securefedyj.report import page as report
from securefedyj.report.features import OwnRows, notes_of
from tests.report.runs import fit

ROWS, OURS = 300, 100
NAMES = ("plain", "empty", "constant", "shifted", "steep", "nearly", "few")


def table() -> np.ndarray:
    """The first rows are ours."""
    X = np.random.default_rng(5).lognormal(0, 0.5, (ROWS, len(NAMES)))
    X[:OURS, 1] = np.nan
    X[:OURS, 2] = 1.0
    X[:OURS, 3] *= 3
    X[:, 4] *= 1e-3
    X[:, 5] = 3.3
    X[7, 5] = 3.3000000000000003
    X[20:, 6] = np.nan
    return X


@pytest.fixture(scope="module")
def transcript():
    return fit(table(), NAMES, ("a", "b", "c"))


def features_by_kind(found) -> dict[str, list[str]]:
    return {note.kind: [NAMES[j] for j in np.flatnonzero(note.chosen)] for note in found}


def test_silo_learns_about_its_own_columns(transcript):
    own = OwnRows(table()[:OURS], transcript)
    found = features_by_kind(notes_of(transcript, transcript.result, own))
    assert found["empty here"] == ["empty"]
    assert found["constant here"] == ["constant"]
    assert found["shifted"] == ["shifted"]
    assert found["steep"] == ["steep"]
    assert found["constant"] == ["nearly"]
    assert found["few values"] == ["few"]


def test_nobody_else_learns_about_them(transcript):
    found = features_by_kind(notes_of(transcript, transcript.result, None))
    assert found.keys() & {"empty here", "constant here", "shifted"} == set()
    assert "shifted against" not in report.render(transcript)


def test_shift_is_that_of_the_mean_in_standard_deviations_of_all(transcript):
    X = table()
    own = OwnRows(X[:OURS], transcript)
    fitted = Parameters.of(transcript).estimator()
    z = fitted.transform(pd.DataFrame(X, columns=NAMES))
    np.testing.assert_allclose(own.shift[3], np.asarray(z)[:OURS, 3].mean(), rtol=1e-12)
    assert own.shift[3] > 0.9
    page = report.render(transcript, X[:OURS])
    assert f"<bdi>shifted</bdi> ({own.shift[3]:+.2f})" in page


def test_few_rows_are_not_called_shifted_by_chance(transcript):
    own = OwnRows(table()[:OURS], transcript)
    own.__dict__["shift"] = np.full(len(NAMES), 0.9)
    own.__dict__["count"] = np.array([100, 19, 20, 4, 1, 0, 16])
    assert own.shifted.tolist() == [True, False, True, False, False, False, False]


def test_sample_is_called_one(transcript):
    of_all = report.render(transcript, table()[:OURS])
    of_some = report.render(transcript, table()[:OURS], rows=10**6)
    sampled = "1 feature without values here among the sampled rows:</strong> <bdi>empty</bdi>"
    assert sampled in of_some
    assert sampled not in of_all


def test_nearly_constant_column_does_not_break_the_page(transcript):
    page = report.render(transcript, table()[:OURS])
    card = page[page.index("<h3><bdi>nearly</bdi>") :]
    assert "constant here, 3.3" in card[: card.index("</article>")]


def test_few_values_are_those_that_a_consortium_stops_at(transcript):
    assert Consortium.minimum_values == 30
    assert "fewer than 30 values" in report.render(transcript)


def test_features_that_scikit_learn_cannot_hold_are_named():
    """Between 990 and 1010 lambda is so large that the variance is beyond float64."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.lognormal(size=60), 1000 + 1e-3 * rng.normal(size=60) ** 2])
    agreement = Agreement(
        features=("fine", "far away"),
        domain=Domain.from_bounds([(0, 64), (0, 1024)], 2),
        parties=("a",),
        committee=("a",),
        engine="clear",
        max_steps=30,
        levels_per_exchange=4,
        result_bits=44,
        minimum_values=0,
        verified=False,
    )
    transcript, _ = simulate(agreement, [X])
    with pytest.raises(ValueError, match="far away"):
        Parameters.of(transcript).estimator().to_sklearn()
    assert (
        "1 feature that to_sklearn() cannot carry:</strong> <bdi>far away</bdi>"
        in report.render(transcript)
    )


def test_forged_result_still_has_a_page(transcript):
    """What nobody can transform is not drawn."""
    result = transcript.result
    center = result.standardization.center * np.nan
    forged = result._replace(center=center)
    odd = dataclasses.replace(transcript, result=forged)
    assert "The audit failed" in report.render(odd, table()[:OURS])

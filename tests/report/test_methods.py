"""The page of a run with several methods: each is drawn in its own way, and told apart."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest

from securefedyj.numerics.arrays import Array
from securefedyj.parameters import Parameters
from securefedyj.protocol.simulation import simulate
from securefedyj.protocol.transcript import Transcript
from securefedyj.report import page as report
from securefedyj.report.features import OwnRows
from tests import five
from tests.report.test_page import Elements

OURS = five.rows()[:30]


def text(page: str) -> str:
    return " ".join(re.sub(r"<style>.*?</style>|<[^>]*>", " ", page, flags=re.S).split())


def cards(page: str) -> dict[str, str]:
    """The cards by their heads."""
    found = re.findall(r"<h3><bdi>(.*?)</bdi></h3>(.*?)</article>", page, re.S)
    return dict(found)


def test_values_are_shown_in_their_units():
    """Center and range are those that the fitted transformation maps to 0, -1 and 1."""
    transcript, X = only("box-cox")
    (name,), result = transcript.agreement.features, transcript.result
    assert result is not None
    yj = Parameters.of(transcript).estimator()
    low, center, high = yj.inverse_transform(np.array([[-1.0], [0.0], [1.0]])).ravel()
    shown = f"{center:.4g} mg/dl {low:.3g} to {high:.3g} mg/dl"
    assert shown in text(report.render(transcript, X, units={name: "mg/dl"}))
    assert ">mg/dl</text>" in report.render(transcript, X, units={name: "mg/dl"})


def only(method: str, **changes: object) -> tuple[Transcript, Array]:
    """A run with one of the columns alone."""
    j = next(j for j, one in enumerate(five.FEATURES) if [method] == list(one.methods))
    agreed = five.agreement(**changes)
    domain = agreed.domain.take(np.array([j]))
    one = dataclasses.replace(
        agreed,
        features=agreed.features[j : j + 1],
        domain=domain,
        methods=agreed.methods[j : j + 1],
        resolution=agreed.resolution[j : j + 1],
    )
    X = five.rows()[:, j : j + 1]
    return simulate(one, np.array_split(X, 3))[0], X


@pytest.mark.parametrize("own", [OURS, None], ids=["with own rows", "without"])
def test_page_is_well_formed(own):
    assert Elements(report.render(five.run(), own)).open == []


def test_each_method_is_drawn_in_its_own_way():
    found = cards(report.render(five.run(), OURS))
    assert list(found) == [
        *("lactate, yeo-johnson", "crp, box-cox", "age, standard"),
        *("lactate", "creatinine", "stay"),
    ]
    for name in ("lactate, yeo-johnson", "crp, box-cox"):
        assert re.findall("<figcaption>(.*?)<", found[name]) == [
            "before", "after", "Q-Q plot", "search",
        ]  # fmt: skip
    assert re.findall("<figcaption>(.*?)<", found["age, standard"]) == [
        "before", "after", "Q-Q plot",
    ]  # fmt: skip
    for name in ("lactate", "creatinine", "stay"):
        assert found[name].count('class="box"') == found[name].count('class="own box"') == 1
        assert 'class="bars"' in found[name]


def test_box_has_the_quartiles_of_all_silos():
    """Its left and right edge and its median lie where the axis has these values."""
    found = cards(report.render(five.run(), None))["creatinine"]
    (path,) = re.findall(r'class="box" d="(.*?)"', found)
    marks = [float(x) for x in re.findall(r"M([\d.]+) [\d.]+v", path)]
    values = [one.value for _, one in sorted(five.run().quantiles()[3].items())]
    (left, median, right), (low, middle, high) = marks, values
    assert (median - left) / (right - left) == pytest.approx(
        (middle - low) / (high - low), abs=0.01
    )


def test_page_has_the_quantiles_and_the_share_of_own_values_below():
    page = text(report.render(five.run(), OURS))
    median = five.run().quantiles()[0]["0.5"].value
    own = OURS[:, 0][~np.isnan(OURS[:, 0])]
    assert f"lactate 82 0.5 {median:g} {np.mean(own <= median):.0%}" in page
    assert "Here" not in text(report.render(five.run()))


def test_own_rows_are_transformed_by_the_method_of_each_fit():
    """After it, the rows of all silos have mean 0 and variance 1."""
    own = OwnRows(five.rows(), five.run())
    for j in range(3):
        z = own.column(j).after
        assert [z.mean(), z.std()] == pytest.approx([0, 1], abs=1e-6)
    np.testing.assert_allclose(own.shift, 0, atol=1e-6)


def test_statement_names_what_was_opened_and_that_a_quantile_is_a_value():
    page = text(report.render(five.run()))
    assert "Purpose. yeo-johnson, box-cox, standard, robust, quantiles, for 5 features" in page
    assert page.count("A quantile, though, is the value of one row") == 2
    assert "opened only where at least 5 values are as small" in page
    assert "fitted together" not in page


@pytest.mark.parametrize("method", ["box-cox", "standard", "robust", "quantiles"])
def test_page_of_one_method_leaves_out_what_the_others_have(method):
    transcript, X = only(method)
    page = report.render(transcript, X)
    assert Elements(page).open == []
    ranked = method in ("robust", "quantiles")
    assert ("<h2>Quantiles</h2>" in page) == ranked
    assert ("Transformed and standardized" in page) == (not ranked)
    assert ("λ must grow" in page) == (method == "box-cox")
    assert ("<dt>Search</dt>" in page) == (method == "box-cox")


def test_refused_quantile_is_listed_with_the_reason():
    transcript, X = only("robust", minimum_values=30)
    page = text(report.render(transcript, X))
    assert "refused its rank is 21 of 83: fewer than 30 values are at most as large" in page
    assert "quantiles refused 2" in page


def test_implausible_lambda_of_box_cox_is_noticed_by_its_silo():
    transcript, X = only("box-cox")
    assert "Lambda is implausible" not in report.render(transcript, X)
    odd = dataclasses.replace(
        transcript, result=transcript.result._replace(lmbda=transcript.result.lmbda + 5)
    )
    assert "Lambda is implausible" in report.render(odd, X)

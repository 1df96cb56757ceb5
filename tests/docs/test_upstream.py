"""docs/upstream.md: the issues that we claim to solve, computed again."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
from mpmath import mp

from securefedyj import ExpYJ
from tests import oracle
from tests.docs import upstream

ISSUES = {
    "scikit-learn": {30904, 30281, 23319, 26357, 28946, 26303},
    "SciPy": {18389, 18852, 19016},
}


@pytest.fixture(scope="module")
def computed() -> list[upstream.Row]:
    return upstream.rows()


@pytest.fixture(scope="module")
def written() -> list[upstream.Row]:
    lines = [line for line in upstream.on_page().splitlines() if line.startswith("| [")]
    return [upstream.Row(*line.strip("| ").split(" | ")) for line in lines]


@pytest.mark.parametrize("case", upstream.CASES, ids=lambda case: case.name)
def test_lambda_is_that_of_the_oracle(case):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = ExpYJ().fit(case.values[:, None])
        Z = fitted.transform(case.values[:, None])
    lmbda = oracle.optimum(case.values)
    assert fitted.lambdas_[0] == pytest.approx(float(lmbda), rel=1e-12)
    assert fitted.converged_.all()
    assert Z.std() == pytest.approx(1, rel=1e-9)
    mean, variance = oracle.mean_var(case.values, lmbda)
    exact = [float((y - mean) / mp.sqrt(variance)) for y in oracle.transform(case.values, lmbda)]
    np.testing.assert_allclose(Z[:, 0], exact, rtol=1e-9, atol=1e-9)


def test_what_has_no_original_is_nan_with_a_warning():
    fitted = ExpYJ().fit(upstream.SKEWED[:, None])
    with pytest.warns(UserWarning, match="column 0 have no original"):
        assert np.isnan(fitted.inverse_transform([[upstream.BEYOND]])[0, 0])


def test_every_issue_is_on_the_page(written):
    named = {row.issue.partition("]")[0].strip("[") for row in written}
    assert named == {f"{library} #{n}" for library, numbers in ISSUES.items() for n in numbers}


def check_alike(now: str, then: str, rtol: float) -> None:
    """The same words, and numbers that are close: the last digits depend on the processor."""
    number = r"-?\d+(?:\.\d+)?(?:e-?\d+)?"
    assert re.sub(number, "#", now) == re.sub(number, "#", then)
    values = [list(map(float, re.findall(number, text))) for text in (now, then)]
    np.testing.assert_allclose(values[0], values[1], rtol=rtol)


def test_exact_answers_and_ours_are_on_the_page(computed, written):
    for now, then in zip(computed, written, strict=True):
        assert (now.issue, now.input, now.exact) == (then.issue, then.input, then.exact)
        check_alike(now.ours, then.ours, rtol=2e-11)


def test_their_answers_are_on_the_page(computed, written):
    if upstream.VERSIONS not in upstream.on_page():
        pytest.skip(f"the page is about other versions than {upstream.VERSIONS}")
    for now, then in zip(computed, written, strict=True):
        check_alike(now.theirs, then.theirs, rtol=2e-5)

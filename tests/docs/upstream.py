"""The table of docs/upstream.md: inputs of issues of scikit-learn and SciPy, with three answers.

`python -m tests.docs.upstream` writes it anew, with the versions that are installed.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy
import sklearn
from mpmath import mp
from scipy import stats
from sklearn.preprocessing import PowerTransformer

from securefedyj import ExpYJ
from securefedyj.numerics.arrays import Array
from tests import oracle

PAGE = Path(__file__).parents[2] / "docs" / "upstream.md"
MARKS = ("<!-- table: upstream -->\n", "<!-- end -->")
VERSIONS = f"scikit-learn {sklearn.__version__}, SciPy {scipy.__version__}"
_REPOSITORIES = {"scikit-learn": "scikit-learn/scikit-learn", "SciPy": "scipy/scipy"}


class Case(NamedTuple):
    """An input, as it stands in the issue."""

    library: str
    number: int
    shown: str
    values: Array

    @property
    def name(self) -> str:
        return f"{self.library} #{self.number}"


def _mirrored() -> Array:
    X = np.random.default_rng(0).exponential(size=(50,))
    X -= X.max()
    return -X + 100


_YEARS = np.array([2003.0, 1950, 1997, 2000, 2009, 2009, 1980, 1999, 2007, 1991])
_HUGE = np.array([2003.0e200, 1950.0e200, 1997.0e200, 2000.0e200, 2009.0e200])
# Cases that ask for lambda; the two others have functions of their own below.
CASES = (
    Case("scikit-learn", 30904, "355 ones and a zero", np.array([1.0] * 355 + [0.0])),
    Case("scikit-learn", 30281, "23.81, 23.98, 23.97", np.array([23.81, 23.98, 23.97])),
    Case("scikit-learn", 23319, "100 and more: 50 mirrored exponentials", _mirrored()),
    Case("scikit-learn", 26357, "500, 550, 500", np.array([500.0, 550, 500])),
    Case("SciPy", 18389, "ten years, 1950 to 2009", _YEARS),
    Case("SciPy", 18852, "five of these years, times 1e200", _HUGE),
    Case("SciPy", 19016, "-1, 1e200", np.array([-1.0, 1e200])),
)
SKEWED = np.array([1.0, 1.0, 1e10])
BEYOND = 10.0


class Row(NamedTuple):
    """A line of the table."""

    issue: str
    input: str
    theirs: str
    exact: str
    ours: str


def rows() -> list[Row]:
    """The lines of the table, in the order of the issues' numbers."""
    answers = [Row(_link(c), c.shown, _theirs(c), _exact(c), _ours(c)) for c in CASES]
    answers[4:4] = [_inverse(), _empty()]
    return answers


def table() -> str:
    """The table in Markdown."""
    head = ["Issue", "Input", "Their answer", "The 60-digit answer", "Ours"]
    lines = [head, ["-"] * 5, *rows()]
    return f"{VERSIONS}:\n\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines)


def on_page() -> str:
    """The table that stands on the page."""
    return PAGE.read_text(encoding="utf-8").partition(MARKS[0])[2].partition(MARKS[1])[0]


def _link(case: Case) -> str:
    url = f"https://github.com/{_REPOSITORIES[case.library]}/issues/{case.number}"
    return f"[{case.name}]({url})"


def _theirs(case: Case) -> str:
    return _told(lambda: _by_scipy(case) if case.library == "SciPy" else _by_sklearn(case))


def _by_sklearn(case: Case) -> str:
    fitted = PowerTransformer().fit(case.values[:, None])
    Z = fitted.transform(case.values[:, None])
    return _lambda(fitted.lambdas_[0], Z.std(), 6)


def _by_scipy(case: Case) -> str:
    y, lmbda = stats.yeojohnson(case.values)
    with np.errstate(all="ignore"):
        standardized = (y - y.mean()) / y.std()
        return _lambda(lmbda, standardized.std(), 6)


def _ours(case: Case) -> str:
    fitted = ExpYJ().fit(case.values[:, None])
    return _told(
        lambda: _lambda(fitted.lambdas_[0], fitted.transform(case.values[:, None]).std(), 12)
    )


def _exact(case: Case) -> str:
    return f"λ = {mp.nstr(oracle.optimum(case.values), 17)}"


def _lambda(lmbda: float, deviation: float, digits: int) -> str:
    """Lambda, and how far the standardized values are from a deviation of 1."""
    found = f"λ = {lmbda:.{digits}g}"
    if np.isnan(deviation):
        return f"{found}; transformed to NaN"
    if abs(deviation - 1) > 1e-9:
        size = "less than 1e-9" if deviation < 1e-9 else f"{deviation:.3g}"
        return f"{found}; standard deviation {size}"
    return found


def _inverse() -> Row:
    """The skewed values of #28946, and a transformed value beyond the bound of Psi."""
    case = Case("scikit-learn", 28946, "1, 1, 1e10, then `inverse_transform([[10]])`", SKEWED)
    lmbda = oracle.optimum(SKEWED)
    mean, variance = oracle.mean_var(SKEWED, lmbda)
    beyond = mean + BEYOND * mp.sqrt(variance) > -1 / lmbda
    exact = f"λ = {mp.nstr(lmbda, 17)}; {'no' if beyond else 'an'} original"

    def answer(estimator: Any, digits: int) -> str:
        fitted = estimator.fit(SKEWED[:, None])
        original = fitted.inverse_transform([[BEYOND]])[0, 0]
        return f"λ = {fitted.lambdas_[0]:.{digits}g}; {'NaN' if np.isnan(original) else original}"

    theirs = _told(lambda: answer(PowerTransformer(), 6))
    return Row(_link(case), case.shown, theirs, exact, _told(lambda: answer(ExpYJ(), 12)))


def _empty() -> Row:
    """The table of #26303: a column of NaN, then four of ones."""
    X = np.ones((20, 5))
    X[:, 0] = np.nan
    case = Case("scikit-learn", 26303, "a column of NaN, four of ones", X)

    def answer(estimator: Any) -> str:
        Z = estimator.fit_transform(X)
        kept = np.isnan(Z[:, 0]).all() and not Z[:, 1:].any()
        return "NaN stays NaN, the rest is 0" if kept else "another result"

    theirs = _told(lambda: answer(PowerTransformer()))
    return Row(_link(case), case.shown, theirs, "no values, no λ", _told(lambda: answer(ExpYJ())))


def _told(answer: Callable[[], str]) -> str:
    """An answer with the warnings and the error that come with it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            text = answer()
        except Exception as error:
            text = f"{type(error).__name__}: {str(error).rstrip('.')}"
    kinds = sorted({warning.category.__name__ for warning in caught})
    return "; ".join([text, *(f"a {kind}" for kind in kinds)])


if __name__ == "__main__":
    page = PAGE.read_text(encoding="utf-8")
    first, last = map(re.escape, MARKS)
    made = re.sub(f"({first}).*?({last})", lambda m: m[1] + table() + m[2], page, flags=re.S)
    PAGE.write_text(made, encoding="utf-8")

"""What `securefedyj demo` shows: ExpYJ beside scikit-learn, then the federated fit of the same.

Every section is a function that returns its text; `run` prints them in turn. The picture in the
README is made by `securefedyj demo --output docs/images`.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil, log10
from pathlib import Path

import numpy as np
import sklearn

import securefedyj
from securefedyj import ExpYJ
from securefedyj.demo.comparison import SAME, Comparison, compare_breast_cancer, compare_digits
from securefedyj.demo.federated import federated_section
from securefedyj.demo.layout import cannot_write, underlined, wrapped

PICTURE = "demo.png"
TRANSCRIPT = "transcript.jsonl"

# This feature of the breast cancer data is in the picture: skewed, and its lambda of -3.54
# makes the exponential search both double and halve.
PICTURED = "radius error"

_ALIKE_SHOWN = 5
_ROW = "{:<24}{:>12}{:>14}{:>12}  {}"


def run(output: Path) -> None:
    """Print all sections, and save the picture in the folder `output`."""
    make_folder(output)
    print(introduction(), flush=True)
    cancer = compare_breast_cancer()
    print("", breast_cancer_section(cancer), sep="\n", flush=True)
    digits = compare_digits()
    print("", digits_section(digits), sep="\n", flush=True)
    print("", federated_section(cancer, output / TRANSCRIPT), sep="\n", flush=True)
    print("", picture_section(cancer, digits, output / PICTURE), sep="\n", flush=True)


def introduction() -> str:
    return wrapped(
        "The Yeo-Johnson transformation makes a skewed feature Gaussian; its one parameter, "
        "lambda, is fitted by maximum likelihood. This demo fits the same data twice, with "
        f"ExpYJ (securefedyj {securefedyj.__version__}) and with PowerTransformer "
        f"(scikit-learn {sklearn.__version__})."
    )


def breast_cancer_section(comparison: Comparison) -> str:
    """Ordinary data: the two fits are the same, and a few features show it."""
    alike = comparison.alike
    spread = np.linspace(0, len(alike) - 1, min(_ALIKE_SHOWN, len(alike))).round().astype(int)
    rows = comparison.different + [alike[k] for k in spread]
    return "\n".join(
        [
            _heading("Breast cancer", comparison),
            _table(comparison, rows),
            wrapped(_about_the_rest(comparison, shown=len(spread))),
            _timing(comparison),
        ]
    )


def digits_section(comparison: Comparison) -> str:
    """Pixels that are nearly always empty: scikit-learn misses some optima, which are far out."""
    missed = int(np.count_nonzero(comparison.gain > SAME))
    claim = (
        f"scikit-learn misses the optimum of {missed} features: its log-likelihood is lower."
        if missed
        else "scikit-learn finds the optimum of every feature."
    )
    return "\n".join(
        [
            _heading("Digits", comparison),
            claim,
            _table(comparison, comparison.different),
            wrapped(_about_the_rest(comparison, shown=0)),
            _timing(comparison),
        ]
    )


def picture_section(cancer: Comparison, digits: Comparison, path: Path) -> str:
    try:
        draw(cancer, digits, path)
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        return f'No picture, since {package} is missing: pip install "securefedyj[plot]"'
    except OSError as error:
        raise cannot_write(path, error) from error
    return f"Picture: {path}"


def draw(cancer: Comparison, digits: Comparison, path: Path) -> None:
    """Before and after, the two ways to the optimum, and an optimum that was missed."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    from securefedyj.demo import plots

    margins = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.12)  # inches
    figure = Figure(figsize=(10, 7.2), layout=margins)
    (before, search), (after, missed) = figure.subplots(2, 2)

    j = cancer.names.index(PICTURED)
    x, z = cancer.X[:, j], cancer.ours.transform(cancer.X)[:, j]
    plots.plot_histogram(before, x, PICTURED, f"Before: {PICTURED}")
    plots.plot_histogram(after, z, f"{PICTURED}, transformed", "After Yeo-Johnson")

    column = x.reshape(-1, 1)
    paths = {
        plots.EXPONENTIAL_SEARCH: ExpYJ(solver="expsearch").fit(column).path_[:, 0],
        plots.NEWTON: ExpYJ().fit(column).path_[:, 0],
    }
    plots.plot_search(search, x, paths, f"Two ways to the optimum: {PICTURED}")

    k = (digits.different + digits.alike)[0]
    found = {
        plots.OURS: float(digits.ours.lambdas_[k]),
        plots.SCIKIT_LEARN: float(digits.theirs.lambdas_[k]),
    }
    plots.plot_comparison(missed, digits.X[:, k], found, f"Two results: digits, {digits.names[k]}")
    figure.savefig(path, dpi=150)


def make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(path, error) from error


def _heading(name: str, comparison: Comparison) -> str:
    rows, features = comparison.X.shape
    return underlined(f"{name}: {rows} rows, {features} features")


def _table(comparison: Comparison, features: Iterable[int]) -> str:
    lines = [_ROW.format("feature", "ExpYJ", "scikit-learn", "difference", "log-likelihood")]
    for j in features:
        ours, theirs = comparison.ours.lambdas_[j], comparison.theirs.lambdas_[j]
        difference = ours - theirs
        lines.append(
            _ROW.format(
                comparison.names[j],
                f"{ours:.4f}",
                f"{theirs:.4f}",
                f"{difference:.1e}" if abs(difference) < 0.01 else f"{difference:.2f}",
                _remark(comparison.gain[j]),
            ).rstrip()
        )
    return "\n".join(lines)


def _remark(gain: float) -> str:
    """scikit-learn's log-likelihood, seen from ours."""
    if abs(gain) <= SAME:
        return "the same"
    return f"{'lower' if gain > 0 else 'higher'} by {abs(gain):.1f}"


def _about_the_rest(comparison: Comparison, shown: int) -> str:
    alike, constant = comparison.alike, int(np.count_nonzero(comparison.constant))
    ours, theirs = comparison.ours.lambdas_[alike], comparison.theirs.lambdas_[alike]
    worst = np.max(np.abs(ours - theirs) / np.maximum(1, np.abs(ours)), initial=1e-16)
    sentence = f"{len(alike) - shown} other features agree to a relative 1e{ceil(log10(worst))}"
    return sentence + (f"; {constant} are constant." if constant else ".")


def _timing(comparison: Comparison) -> str:
    ours, theirs = comparison.our_seconds, comparison.their_seconds
    return (
        f"Time of fit: ExpYJ {1000 * ours:.1f} ms, scikit-learn {1000 * theirs:.0f} ms: "
        f"{theirs / ours:.0f} times as long."
    )

"""Figure 7: the exponential search on one feature, step by step."""

from __future__ import annotations

import numpy as np
from scipy.stats import skew

from experiments import plots, style
from experiments.datasets import feature
from experiments.item import Finding, Panel, Progress, Results, Row, Settings, Verdict
from experiments.precision import oracle_108
from securefedyj import ExpYJ

TITLE = "The exponential search, step by step"
SOURCE = "Figure 7; appendix B"
CLAIM = (
    "On breast cancer's worst perimeter, ExpYJ first doubles λ until the likelihood turns, then "
    "halves the interval down to the minimum of the negative log-likelihood."
)
_DATASET, _NAME, _STEPS = "breast cancer", "worst perimeter", 40


def parameters(settings: Settings) -> Results:
    return {"feature": _NAME, "steps": _STEPS}


def compute(settings: Settings, progress: Progress) -> Results:
    x = feature(_DATASET, _NAME)
    column = x.x.reshape(-1, 1)
    fitted = ExpYJ(solver="expsearch", max_steps=_STEPS).fit(column)
    z = fitted.transform(column).ravel()
    path = fitted.path_[:, 0]
    return {
        "x": x.x,
        "z": z,
        "path": path[np.isfinite(path)],
        "newton": ExpYJ().fit(column).path_[:, 0],
        "lambda": fitted.lambdas_[0],
        "oracle": oracle_108()[_DATASET, x.column],
        "skewness": [skew(x.x), skew(z)],
    }


def draw(results: Results) -> list[Panel]:
    x, z = np.array(results["x"]), np.array(results["z"])
    panels = []
    for name, values, label, title in (
        ("before", x, f"{_NAME} (mm)", "Before"),
        ("after", z, f"{_NAME}, transformed", "After"),
    ):
        figure, axes = style.panel("", "", "")
        plots.plot_histogram(axes, values, label, title)
        panels.append(
            Panel(name, figure, f"{len(values)} samples, {title.lower()} the transformation.")
        )
    figure, axes = style.panel("", "", "")
    path = np.array(results["path"])
    paths = {plots.EXPONENTIAL_SEARCH: path}
    plots.plot_search(axes, x, paths, "λ by λ to the minimum")
    panels.append(
        Panel(
            "path",
            figure,
            "Numbers count the steps. After a few of them the points lie too close to be told "
            "apart.",
        )
    )
    figure, axes = style.panel("Distance to the optimum", "step", "|λ − λ*|")
    axes.semilogy(
        np.arange(1, len(path) + 1),
        np.abs(path - results["oracle"]),
        "o-",
        markersize=4,
        label="exponential search",
    )
    newton = np.array(results["newton"])
    axes.semilogy(
        np.arange(1, len(newton) + 1),
        np.maximum(np.abs(newton - results["oracle"]), 1e-17),
        "D--",
        color=style.GREEN,
        markersize=4,
        label="Newton",
    )
    axes.legend()
    panels.append(
        Panel(
            "distance",
            figure,
            "The search halves its interval at every step; Newton's method, for pooled data, "
            "needs a handful.",
        )
    )
    return panels


def judge(results: Results) -> Finding:
    path, optimum = np.array(results["path"]), results["oracle"]
    error = abs(results["lambda"] - optimum) / abs(optimum)
    before, after = results["skewness"]
    turns = int(np.argmax(np.sign(np.diff(path)) != np.sign(path[1] - path[0])))
    good = error < 1e-9 and abs(after) < 0.1 * abs(before)
    return Finding(
        Verdict.CONFIRMED if good else Verdict.NOT_CONFIRMED,
        f"After {turns} step{'s' if turns != 1 else ''} in one direction the search turns, and "
        f"after {len(path)} it is within a relative {error:.0e} of the optimum.",
        [
            Row("λ after 40 steps", "shown as a picture", f"{results['lambda']:.10f}"),
            Row("λ by 60 digits", "–", f"{optimum:.10f}"),
            Row(
                "first points visited", "shown as a picture", ", ".join(f"{v:g}" for v in path[:6])
            ),
            Row("skewness, before and after", "shown as a picture", f"{before:.2f}, {after:.2f}"),
        ],
    )

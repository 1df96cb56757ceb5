"""Figure 1: the shapes of Psi, and a skew-normal sample before and after."""

from __future__ import annotations

import numpy as np
from scipy import stats

from experiments import plots, style
from experiments.item import Finding, Panel, Progress, Results, Row, Settings, Verdict
from securefedyj import ExpYJ
from securefedyj.numerics.yeojohnson import transform

TITLE = "The transformation and what it does to skewed data"
SOURCE = "Figure 1"
CLAIM = (
    "Ψ(λ, ·) bends data one way for λ < 1 and the other for λ > 1, and with the fitted λ it makes "
    "a skew-normal sample look Gaussian."
)

LAMBDAS = [-1.0, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0]
_TOP = 4.0
_ALPHA = 8.0  # skewness parameter of the sample; the paper does not tell its own


def parameters(settings: Settings) -> Results:
    return {"lambdas": LAMBDAS, "alpha": _ALPHA, "n": settings.choose(10_000, 2_000)}


def compute(settings: Settings, progress: Progress) -> Results:
    n = parameters(settings)["n"]
    x = stats.skewnorm.rvs(_ALPHA, size=n, random_state=np.random.default_rng(0))
    fitted = ExpYJ().fit(x.reshape(-1, 1))
    z = fitted.transform(x.reshape(-1, 1)).ravel()
    grid = np.linspace(-3, 3, 121)
    return {
        "grid": grid,
        "psi": {str(lmbda): transform(grid, lmbda) for lmbda in LAMBDAS},
        "x": x,
        "z": z,
        "lambda": fitted.lambdas_[0],
        "skewness": [stats.skew(x), stats.skew(z)],
        "kurtosis": [stats.kurtosis(x), stats.kurtosis(z)],
    }


def draw(results: Results) -> list[Panel]:
    shape, axes = style.panel("Ψ(λ, x) for several λ", "x", "Ψ(λ, x)")
    for color, (lmbda, values) in zip(style.CYCLE, results["psi"].items(), strict=True):
        axes.plot(results["grid"], values, color=color)
        # Each curve carries its own name where it leaves the picture.
        name = f"λ = {float(lmbda):g}".replace("-", "−")
        end = values[-1]
        if end <= _TOP:
            axes.text(3.08, end, name, color=color, fontsize=9, va="center")
        else:
            at = float(np.interp(_TOP, values, results["grid"]))
            axes.text(at, _TOP + 0.1, name, color=color, fontsize=9, ha="center")
    axes.set_xlim(-3, 3.9)
    axes.set_ylim(-_TOP, _TOP)
    axes.set_title(axes.get_title(loc="left"), pad=18)
    panels = [Panel("psi", shape, "Ψ is the identity for λ = 1, concave below and convex above.")]
    for name, key, label, title, caption in (
        ("before", "x", "x", "Before", "A skew-normal sample."),
        ("after", "z", "Ψ(λ*, x), standardized", "After", "The same sample, transformed."),
    ):
        figure, axes = style.panel("", "", "")
        plots.plot_histogram(axes, np.array(results[key]), label, title)
        panels.append(Panel(name, figure, caption))
    return panels


def judge(results: Results) -> Finding:
    (before, after), (heavy, left) = results["skewness"], results["kurtosis"]
    good = abs(after) < 0.1 * abs(before)
    return Finding(
        Verdict.CONFIRMED if good else Verdict.NOT_CONFIRMED,
        f"The fit takes the skewness from {before:.2f} to {after:.2f}.",
        [
            Row("fitted λ", "not given", f"{results['lambda']:.3f}"),
            Row("skewness, before and after", "shown as a picture", f"{before:.2f}, {after:.2f}"),
            Row("excess kurtosis, before and after", "not given", f"{heavy:.2f}, {left:.2f}"),
        ],
    )

"""Proposition 3.1: the negative log-likelihood is strictly convex."""

from __future__ import annotations

import numpy as np

from experiments import style
from experiments.datasets import features_108, thinned
from experiments.item import Finding, Panel, Progress, Results, Row, Settings, Verdict
from experiments.precision import derivatives
from experiments.references import naive_negative_log_likelihood
from securefedyj.pooled.likelihood import score_derivative

TITLE = "Convexity of the negative log-likelihood"
SOURCE = "Proposition 3.1; appendix C"
CLAIM = "The negative log-likelihood is strictly convex in λ, so that its minimum is unique."

_LAMBDAS = [-8.0, -4.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 10.0]
_QUICK_LAMBDAS = [-4.0, 0.0, 1.0, 2.0, 6.0]
_FLOAT_STEP = 0.01  # of the second difference that stands for naive float64


def parameters(settings: Settings) -> Results:
    return {
        "lambdas": settings.choose(_LAMBDAS, _QUICK_LAMBDAS),
        "every": settings.choose(1, 12),
        "random": settings.choose(150, 15),
        "values": 40,
    }


def samples(every: int, count: int, size: int) -> list[tuple[str, np.ndarray]]:
    """Real features, thinned to at most `size` quantiles each, and random data of many kinds."""
    chosen = [(f"{f.dataset}: {f.name}", thinned(f.x, size)) for f in features_108()[::every]]
    generator = np.random.default_rng(0)
    for number in range(count):
        n = int(generator.integers(2, size))
        scale = 10.0 ** generator.uniform(-3, 4)
        kind = ("normal", "lognormal", "ties", "two values", "one outlier")[number % 5]
        x = {
            "normal": lambda n=n: generator.normal(generator.normal(), 1, n),
            "lognormal": lambda n=n: generator.lognormal(0, 2, n),
            "ties": lambda n=n: generator.poisson(1, n + 3) - 1.0,
            "two values": lambda n=n: np.where(np.arange(n + 1) < 1, *generator.normal(size=2)),
            "one outlier": lambda n=n: np.append(generator.normal(size=n), 1e3),
        }[kind]() * scale
        if len(np.unique(x)) >= 2:
            chosen.append((f"random, {kind}", x))
    return chosen


def compute(settings: Settings, progress: Progress) -> Results:
    chosen = parameters(settings)
    data = samples(chosen["every"], chosen["random"], chosen["values"])
    rows = []
    for number, (name, x) in enumerate(data, 1):
        progress(f"sample {number} of {len(data)}")
        for lmbda in chosen["lambdas"]:
            exact = derivatives(x, lmbda)
            rows.append(
                {
                    "data": name,
                    "n": len(x),
                    "lambda": lmbda,
                    "curvature": float(-exact.curvature) / len(x),
                    "margin": float(exact.margin),
                    "ours": -score_derivative(x, lmbda) / len(x),
                    "naive": _second_difference(x, lmbda) / len(x),
                }
            )
    return {"samples": len(data), "rows": rows}


def _second_difference(x: np.ndarray, lmbda: float) -> float:
    low, middle, high = (
        naive_negative_log_likelihood(lmbda + k * _FLOAT_STEP, x) for k in (-1, 0, 1)
    )
    return (low - 2 * middle + high) / _FLOAT_STEP**2


def draw(results: Results) -> list[Panel]:
    rows = results["rows"]
    lambdas = sorted({row["lambda"] for row in rows})
    figure, axes = style.panel(
        "Second derivative of the negative log-likelihood", "λ", "second derivative, per sample"
    )
    for real, color, marker, label in (
        (True, style.BLUE, "o", "real features"),
        (False, style.ORANGE, "^", "random data"),
    ):
        points = [
            (r["lambda"], r["curvature"]) for r in rows if r["data"].startswith("random") != real
        ]
        axes.plot(
            *zip(*points, strict=True), marker, color=color, markersize=3, alpha=0.4, label=label
        )
    least = [min(r["curvature"] for r in rows if r["lambda"] == lmbda) for lmbda in lambdas]
    axes.plot(lambdas, least, color=style.BLACK, linewidth=1.2, label="smallest")
    axes.set_yscale("log")
    axes.legend(loc="lower center", ncols=3, markerscale=2)
    axes.set_ylim(min(least) / 300, None)
    wrong_naive, wrong_ours = (
        [_errors(rows, lmbda, key) for lmbda in lambdas] for key in ("naive", "ours")
    )
    naive, bars = style.panel("Where float64 loses the sign", "λ", "samples with a wrong sign, %")
    place = np.arange(len(lambdas))
    bars.bar(
        place - 0.2,
        wrong_naive,
        0.4,
        color=style.VERMILION,
        label="second difference of the naive likelihood",
    )
    bars.bar(
        place + 0.2, wrong_ours, 0.4, color=style.BLUE, label="this project's second derivative"
    )
    bars.set_xticks(place, [f"{lmbda:g}".replace("-", "−") for lmbda in lambdas])
    bars.set_ylim(0, max(*wrong_naive, 1) * 1.35)
    bars.legend(loc="upper right")
    return [
        Panel("curvature", figure, "In 40 and more digits every value is above zero."),
        Panel(
            "float64",
            naive,
            "The likelihood is convex everywhere; computed naively in float64 it does not always "
            "look so.",
        ),
    ]


def _errors(rows: list[Results], lmbda: float, key: str) -> float:
    here = [row[key] for row in rows if row["lambda"] == lmbda]
    return 100 * float(np.mean([not value > 0 for value in here]))


def judge(results: Results) -> Finding:
    rows = results["rows"]
    positive = sum(row["margin"] > 0 for row in rows)
    least = min(rows, key=lambda row: row["margin"])
    flat = min(rows, key=lambda row: row["curvature"])
    naive = sum(not row["naive"] > 0 for row in rows)
    ours = sum(not row["ours"] > 0 for row in rows)
    return Finding(
        Verdict.CONFIRMED if positive == len(rows) else Verdict.NOT_CONFIRMED,
        f"The second derivative is positive in all {len(rows):,} cases: {results['samples']} "
        f"samples at {len({row['lambda'] for row in rows})} values of λ each.",
        [
            Row(
                "cases with a positive second derivative",
                "all (proof)",
                f"{positive:,} of {len(rows):,}",
            ),
            Row(
                "smallest margin: what is left after cancellation, relative",
                "above 0",
                f"{least['margin']:.1e} ({least['data']}, λ = {least['lambda']:g})",
            ),
            Row(
                "smallest second derivative per sample",
                "above 0",
                f"{flat['curvature']:.1e} ({flat['data']}, λ = {flat['lambda']:g})",
            ),
            Row("cases where naive float64 sees no convexity", "–", f"{naive:,}"),
            Row("cases where this project's float64 sees none", "–", f"{ours:,}"),
        ],
    )

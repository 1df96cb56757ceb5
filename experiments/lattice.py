"""What the result itself tells: the histogram of a column with few values, by lattice reduction."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Any

import numpy as np
from matplotlib.colors import to_rgba
from matplotlib.patches import Rectangle

from experiments import style
from experiments.datasets import TCGA, UCI, available, fingerprint, load_cohort, load_uci
from experiments.histogram import Attack, Opened
from experiments.item import Finding, Panel, Progress, Results, Row, Settings, Table, Verdict
from experiments.opening import DEFAULT, FULL, Precision, fit, opened
from securefedyj.numerics.arrays import Array, Integers

TITLE = "What the result tells of a column with few distinct values"
SOURCE = "Proposition 4.1; beyond the paper"
CLAIM = (
    "The protocol discloses nothing but its result; what λ*, mean and variance themselves tell of "
    "the rows is not examined."
)
VALUES, ROWS = (5, 8, 13, 16, 20), (30, 300, 1000, 3000, 20000)
SHOWN = (13, 3000)
WIDTH, MOST = 10_000, 500  # of the list of near points, and of consistent histograms
PROMISED = 1e-6  # of a standard deviation
CASES: dict[str, tuple[str, Precision]] = {
    "full": ("at full precision", FULL),
    "default": ("at the default precision", DEFAULT),
    "silo": ("at the default precision, by a silo", DEFAULT),
}
_DIGITS = "digits"


def parameters(settings: Settings) -> Results:
    return {
        "values": settings.choose(list(VALUES), [5, SHOWN[0]]),
        "rows": settings.choose(list(ROWS), [300, SHOWN[1]]),
        "tries": settings.choose(5, 2),
        "precisions": [list(FULL), list(DEFAULT)],
        "width": WIDTH,
        "data": fingerprint(settings.data, [name for name, _ in _sources(settings)]),
    }


def compute(settings: Settings, progress: Progress) -> Results:
    chosen = parameters(settings)
    tries, cells = chosen["tries"], []
    for n in chosen["rows"]:
        counts = [draw_counts(k, n, t) for k in chosen["values"] for t in range(tries)]
        for case, (name, precision) in CASES.items():
            progress(f"{n} rows {name}")
            found = [
                attack(column, c, by_silo=case == "silo")
                for column, c in zip(open_columns(counts, precision), counts, strict=True)
            ]
            for i, k in enumerate(chosen["values"]):
                some = found[i * tries : (i + 1) * tries]
                cells.append({"case": case, "values": k, "rows": n, "tries": some})
    return {"cells": cells, "cost": list(_cost(settings, progress))}


def draw_counts(k: int, n: int, attempt: int) -> Integers:
    """A histogram of n rows over k values, each histogram being as likely as any other."""
    generator = np.random.default_rng([k, n, attempt])
    counts: Integers = generator.multinomial(n, generator.dirichlet(np.ones(k)))
    return counts


def open_columns(counts: list[Integers], precision: Precision) -> list[Opened]:
    """Run the protocol on columns of scores 0, 1, 2, ..., and take what the transcript shows."""
    values = [np.arange(len(c), dtype=np.float64) for c in counts]
    X = np.column_stack([np.repeat(v, c) for v, c in zip(values, counts, strict=True)])
    model = fit(X, [(0.0, v[-1]) for v in values], precision)
    return opened(model, values)


def attack(column: Opened, counts: Integers, *, by_silo: bool = False) -> Results:
    """Search for the counts, and say what came of it: the counts serve as the truth alone.

    A silo that attacks has a third of the rows, drawn from all of them.
    """
    generator = np.random.default_rng(counts)
    own = generator.multivariate_hypergeometric(counts, column.n // 3) if by_silo else None
    attacker = Attack(column, own)
    candidates = attacker.search(WIDTH, MOST)
    same = [bool(np.array_equal(candidate, counts)) for candidate in candidates]
    return {
        "found": same[:1] == [True],
        "listed": any(same),
        "candidates": len(candidates),
        "bits_left": attacker.bits_left(),
    }


def _sources(settings: Settings) -> Iterator[tuple[str, str]]:
    """Files or loaders of all data, with the names of their data sets."""
    yield from ((listed.source, listed.name) for listed in UCI)
    yield _DIGITS, _DIGITS
    if not settings.quick:
        yield from ((cohort.file, cohort.name) for cohort in TCGA)


def _tables(settings: Settings, progress: Progress) -> Iterator[tuple[str, Array]]:
    """The columns of each data set that vary."""
    there = available(settings.data, [source for source, _ in _sources(settings)])
    by_source: dict[str, Any] = {listed.source: listed for listed in UCI}
    by_source[_DIGITS] = UCI[0]._replace(name=_DIGITS, source=_DIGITS)
    cohorts = {cohort.file: cohort for cohort in TCGA}
    for source, name in _sources(settings):
        if source not in there:
            continue
        progress(f"cost of the default: {name}")
        if source in cohorts:
            assert settings.data is not None
            X = load_cohort(cohorts[source], settings.data).X
            yield name, X[:, X.min(axis=0) < X.max(axis=0)]
        else:
            columns = load_uci(by_source[source], settings.data)
            yield name, np.column_stack([feature.x for feature in columns])


def _cost(settings: Settings, progress: Progress) -> Iterator[Results]:
    """By how much transformed values differ at the default, in standard deviations."""
    for name, X in _tables(settings, progress):
        low, high = (_power_above(side) for side in (-X.min(axis=0), X.max(axis=0)))
        bounds = list(zip((-low).tolist(), high.tolist(), strict=True))
        models = [fit(X, bounds, precision) for precision in (FULL, DEFAULT)]
        difference = np.abs(models[0].transform(X) - models[1].transform(X)).max(axis=0)
        certain = models[1].converged_
        yield {
            "dataset": name,
            "features": X.shape[1],
            "median": np.median(difference),
            "largest": difference[certain].max(),
            "above": np.count_nonzero(difference[certain] > PROMISED),
            "uncertain": np.count_nonzero(~certain),
            "largest_uncertain": difference[~certain].max(initial=0.0),
        }


def _power_above(x: Array) -> Array:
    """The next power of two, as bounds are agreed; 0 where there is nothing on this side."""
    return np.where(x > 0, np.exp2(np.ceil(np.log2(np.maximum(x, 1e-300)))), 0.0)


def _cell(results: Results, case: str, k: int, n: int) -> Results:
    tries = next(
        cell["tries"]
        for cell in results["cells"]
        if (cell["case"], cell["values"], cell["rows"]) == (case, k, n)
    )
    return {
        "tries": len(tries),
        "found": sum(t["found"] for t in tries),
        "listed": sum(t["listed"] for t in tries),
        "bits_left": median(t["bits_left"] for t in tries),
    }


def _axes_of(results: Results) -> tuple[list[int], list[int]]:
    cells = results["cells"]
    return sorted({c["values"] for c in cells}), sorted({c["rows"] for c in cells})


def draw(results: Results) -> list[Panel]:
    return [*(_map(results, case) for case in CASES), _cost_panel(results)]


_CAPTIONS = {
    "full": "Whole histograms found, of five columns each, from n, λ*, mean and variance at full "
    "precision. Below: how many histograms have the same result, about.",
    "default": "The same columns at 30 steps and 24 bits. Where many histograms have the same "
    "result, the result does not tell which one it was.",
    "silo": "The same results in the hands of a silo with a third of the rows, which takes them "
    "for a sample of all: it knows which histograms are plausible.",
}


def _map(results: Results, case: str) -> Panel:
    values, rows = _axes_of(results)
    figure, axes = style.panel(f"Found {CASES[case][0]}", "rows in all", "distinct values")
    axes.grid(visible=False)
    for y, k in enumerate(values):
        for x, n in enumerate(rows):
            cell = _cell(results, case, k, n)
            share = cell["found"] / cell["tries"]
            axes.add_patch(_square(x, y, share))
            text = f"{cell['found']} of {cell['tries']}"
            if case != "silo":
                text += f"\n{_how_many(cell['bits_left'])}"
            axes.text(x, y, text, ha="center", va="center", fontsize=8.5)
    axes.set_xlim(-0.5, len(rows) - 0.5)
    axes.set_ylim(-0.5, len(values) - 0.5)
    axes.set_xticks(range(len(rows)), [f"{n:,}" for n in rows])
    axes.set_yticks(range(len(values)), [str(k) for k in values])
    return Panel(case, figure, _CAPTIONS[case])


def _square(x: int, y: int, share: float) -> Rectangle:
    return Rectangle(
        (x - 0.5, y - 0.5),
        1,
        1,
        facecolor=to_rgba(style.VERMILION, 0.75 * share),
        edgecolor="white",
        linewidth=2,
    )


def _how_many(bits: float) -> str:
    return "only one fits" if bits < 0.5 else f"$2^{{{bits:.0f}}}$ fit"


def _cost_panel(results: Results) -> Panel:
    cost = results["cost"]
    height = 1.4 + 0.2 * len(cost)
    figure, axes = style.panel(
        "What the default precision costs", "standard deviations", "", size=(5.2, max(height, 2.6))
    )
    place = np.arange(len(cost))[::-1]
    axes.plot(
        [c["largest"] for c in cost], place, "o", color=style.BLUE, label="largest of all features"
    )
    axes.plot([c["median"] for c in cost], place, "|", color=style.GREY, label="median feature")
    uncertain = [(c["largest_uncertain"], y) for c, y in zip(cost, place, strict=True)]
    uncertain = [(x, y) for x, y in uncertain if x > 0]
    if uncertain:
        axes.plot(
            *zip(*uncertain, strict=True), "x", color=style.VERMILION, label="a warning says so"
        )
    axes.axvline(PROMISED, color=style.BLACK, linestyle="--", linewidth=1)
    axes.set_xscale("log")
    axes.set_yticks(place, [c["dataset"] for c in cost], fontsize=8)
    figure.legend(loc="outside lower center", ncols=2)
    return Panel(
        "cost",
        figure,
        "By how much transformed values at the default differ from those at full precision.",
    )


def judge(results: Results) -> Finding:
    full, default, silo = (_cell(results, case, *SHOWN) for case in CASES)
    cost = results["cost"]
    holds = full["found"] == full["tries"] and default["listed"] == 0
    k, n = SHOWN
    worst = max(cost, key=lambda c: c["largest"])
    uncertain = sum(c["uncertain"] for c in cost)
    return Finding(
        Verdict.PARTLY if holds else Verdict.NOT_CONFIRMED,
        f"The protocol adds nothing to its result, but at full precision the result of {k} values "
        f"and {n:,} rows tells the whole histogram. At the default precision it does not by "
        "itself; to a silo that knows what to expect it may. Few distinct values remain a risk.",
        [
            *(
                Row(
                    f"histograms of {k} values and {n:,} rows found {name}",
                    "–",
                    f"{cell['found']} of {cell['tries']}; {_in_words(cell['bits_left'])}",
                )
                for (name, _), cell in zip(CASES.values(), (full, default), strict=False)
            ),
            Row(
                f"the same {CASES['silo'][0]} that has a third of the rows",
                "–",
                f"{silo['found']} of {silo['tries']}",
            ),
            Row(
                "largest difference of a transformed value, default against full",
                "–",
                f"{worst['largest']:.1e} standard deviations ({worst['dataset']}); above "
                f"{PROMISED:.0e} in {sum(c['above'] for c in cost)} of "
                f"{sum(c['features'] for c in cost):,} features",
            ),
            Row(
                "features whose λ is not certain at the default, which a warning says",
                "–",
                f"{uncertain}"
                + (
                    f"; largest difference {max(c['largest_uncertain'] for c in cost):.1e}"
                    if uncertain
                    else ""
                ),
            ),
        ],
        notes=[
            "Columns hold scores 0, 1, ..., k - 1, drawn so that every histogram is as likely as "
            "any other. The attacker uses n, S_y, V, and that the score vanishes within the last "
            "bracket of λ; LLL, then the 10,000 nearest points of the lattice, each checked in "
            "exact integers. Found means that its first answer is right, in every count.",
            "How many histograms have the same result is estimated from the number of all of them "
            "and the windows of the equations; where there are few, listing them gives as many.",
            "The silo holds a random third of the rows. Whoever knows the distribution of the "
            "values from elsewhere, say from a published table, can do the like.",
        ],
        tables=[_histogram_table(results), _cost_table(cost)],
    )


def _in_words(bits: float) -> str:
    return "only one has this result" if bits < 0.5 else f"about 2^{bits:.0f} have this result"


def _histogram_table(results: Results) -> Table:
    values, rows = _axes_of(results)
    body = []
    for k in values:
        for n in rows:
            cells = [_cell(results, case, k, n) for case in CASES]
            body.append(
                [k, n, *(f"{c['found']} of {c['tries']}" for c in cells)]
                + [f"{c['bits_left']:.0f}" for c in cells[:2]]
            )
    names = [name for name, _ in CASES.values()]
    return Table(
        "histograms",
        "Histograms found, and log2 of how many have the same result (below 0: only one)",
        [
            "distinct values",
            "rows",
            *(f"found {name}" for name in names),
            "log2, full",
            "log2, default",
        ],
        body,
    )


def _cost_table(cost: list[Results]) -> Table:
    header = ["features", "median", "largest", "above", "uncertain", "largest_uncertain"]
    return Table(
        "cost",
        "Differences of transformed values between the default and full precision, in standard "
        "deviations; above: features with more than 1e-6",
        ["dataset", *(name.replace("_", ", ") for name in header)],
        [[c["dataset"], *(c[name] for name in header)] for c in cost],
    )

"""Runs items in order, keeps what they computed, and writes data, figures and the page."""

from __future__ import annotations

import csv
import hashlib
import json
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import securefedyj
from experiments import (
    accuracy,
    brent,
    convexity,
    cost,
    fixedpoint,
    lattice,
    leakage,
    page,
    search,
    shapes,
    style,
    survival,
    synthetic,
)
from experiments.item import Finding, Item, Panel, Results, Settings

ITEMS: dict[str, Item] = {
    "shapes": shapes,
    "accuracy": accuracy,
    "brent": brent,
    "fixedpoint": fixedpoint,
    "cost": cost,
    "leakage": leakage,
    "survival": survival,
    "synthetic": synthetic,
    "search": search,
    "convexity": convexity,
    "lattice": lattice,
}
NAMES = list(ITEMS)


@dataclass(frozen=True)
class Outcome:
    """An item with what came of it."""

    number: int
    name: str
    item: Item
    results: Results
    panels: list[Panel]
    finding: Finding
    seconds: float
    cached: bool


def run(names: Sequence[str], settings: Settings, output: Path) -> list[Outcome]:
    """Run the named items (all, if there are none), and write everything below `output`."""
    chosen = [name for name in NAMES if not names or name in names]
    for folder in ("data", "figures", "cache"):
        (output / folder).mkdir(parents=True, exist_ok=True)
    outcomes = []
    for position, name in enumerate(chosen, 1):
        say = _Progress(f"[{position:2d}/{len(chosen)}] {name:<10}")
        outcome = _run_one(name, settings, output, say)
        _write(outcome, output)
        verdict = outcome.finding.verdict.value
        taken = "kept from before" if outcome.cached else f"{outcome.seconds:.1f} s"
        say.done(f"{verdict} ({taken})")
        outcomes.append(outcome)
    path = output / "paper.html"
    path.write_text(page.render(outcomes, settings, output / "figures"), encoding="utf-8")
    print(f"Page: {path}")
    return outcomes


def identify(names: Sequence[str]) -> list[str]:
    """Items by name or by number; ValueError for anything else."""
    known = {str(number): name for number, name in enumerate(NAMES, 1)} | {n: n for n in NAMES}
    unknown = [name for name in names if name not in known]
    if unknown:
        listed = ", ".join(f"{number} {name}" for number, name in enumerate(NAMES, 1))
        raise ValueError(f"there is no item {unknown[0]!r}; the items are: {listed}")
    return [known[name] for name in names]


def _run_one(name: str, settings: Settings, output: Path, say: _Progress) -> Outcome:
    item = ITEMS[name]
    parameters = item.parameters(settings)
    kept = output / "cache" / f"{name}-{_key(name, parameters)}.json"
    cached = kept.exists()
    if cached:
        record = json.loads(kept.read_text(encoding="utf-8"))
    else:
        start = time.perf_counter()
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            # The references are meant to overflow; what comes of it is what is judged.
            warnings.simplefilter("ignore")
            results = _plain(item.compute(settings, say))
        record = {
            "item": name,
            "parameters": parameters,
            "seconds": time.perf_counter() - start,
            "results": results,
        }
        kept.write_text(json.dumps(record), encoding="utf-8")
    results = record["results"]
    with style.applied():
        panels = item.draw(results)
    finding = item.judge(results)
    number = NAMES.index(name) + 1
    return Outcome(number, name, item, results, panels, finding, record["seconds"], cached)


def _write(outcome: Outcome, output: Path) -> None:
    """Data as JSON and CSV, figures as PNG and SVG, named by number and item."""
    stem = f"{outcome.number:02d}_{outcome.name}"
    data = output / "data" / f"{stem}.json"
    data.write_text(json.dumps(outcome.results, indent=1), encoding="utf-8")
    for table in outcome.finding.tables:
        path = output / "data" / f"{stem}_{table.name}.csv"
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([table.header, *table.rows])
    for panel in outcome.panels:
        style.save(panel.figure, output / "figures" / f"{stem}_{panel.name}")


def _key(name: str, parameters: Results) -> str:
    """Changes when the item, its parameters or the code do."""
    digest = hashlib.sha256(json.dumps([name, parameters], sort_keys=True).encode())
    here = Path(__file__).parent
    modules = ("datasets", "histogram", "opening", "precision", "reduction", "references")
    shared = [here / f"{module}.py" for module in modules]
    package = Path(securefedyj.__file__).parent.rglob("*.py")
    for path in sorted([*package, *shared, Path(str(ITEMS[name].__file__))]):  # type: ignore[attr-defined]
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _plain(value: Any) -> Any:
    """NumPy's types as Python's, so that results are the same fresh and read back."""
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    return value


class _Progress:
    """One line per item; on a terminal it also tells what the item is at."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._terminal = sys.stdout.isatty()
        self._show("...")

    def __call__(self, doing: str) -> None:
        self._show(doing)

    def done(self, text: str) -> None:
        start = "\r\033[K" if self._terminal else ""
        print(f"{start}{self._label} {text}", flush=True)

    def _show(self, text: str) -> None:
        if self._terminal:
            print(f"\r\033[K{self._label} {text}", end="", flush=True)

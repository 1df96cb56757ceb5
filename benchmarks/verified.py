"""What verification costs: the same fit with and without it, by turns.

`python -m benchmarks.verified` prints rounds, bytes and seconds, and the ratios, which count. Small
fits take turns in this process; a transcriptome has a process each, to see its memory; over lines
of 20 ms (see `network`) every party has one.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import network
from benchmarks.line import HUB, Lines, NotPermitted, check_permitted
from benchmarks.secure import example, shortest, transcriptome
from securefedyj import SecureFedYJ

CASES = ((100, 4), (1000, 4), (100, 1), (1000, 1))
"""Features, and levels per exchange."""


def compare(rows: int, features: int, levels: int, turns: int) -> str:
    """One line: the verified fit against the other, 3 silos and 40 steps."""
    silos = example(rows, features)
    seconds, fits = [np.inf, np.inf], [SecureFedYJ()] * 2
    for _ in range(turns):
        for k, verified in enumerate((False, True)):
            model = SecureFedYJ(levels_per_exchange=levels, verified=verified)
            once, fits[k] = shortest(lambda model=model: model.fit(silos), 1)  # type: ignore[misc]
            seconds[k] = min(seconds[k], once)
    plain, proved = fits
    for name in ("lambdas_", "mean_", "var_"):
        if not np.array_equal(getattr(plain, name), getattr(proved, name)):
            raise SystemExit(f"{name} differs")
    sent = [sum(sum(own.values()) for own in fit.cost_.bytes_sent.values()) for fit in fits]
    more = (proved.cost_.rounds or 0) - (plain.cost_.rounds or 0)
    return (
        f"{features:>6} features, {levels} levels: bytes {sent[1] / sent[0]:.3f} of {sent[0]:,}, "
        f"{more} rounds more than {plain.cost_.rounds}, seconds {seconds[1] / seconds[0]:.2f} of "
        f"{seconds[0]:.2f}"
    )


def compare_transcriptomes() -> str:
    """One line: 3 silos x 350 rows x 20,000 features, levels 1."""
    plain, proved = (transcriptome(1, verified=verified) for verified in (False, True))
    return (
        f"20,000 features, 1 level: {proved['seconds']:.0f} s ({proved['cpu_seconds']:.0f} s of a "
        f"processor) and {proved['peak_gb']:.2f} GB at most; without verification "
        f"{plain['seconds']:.0f} s ({plain['cpu_seconds']:.0f} s) and {plain['peak_gb']:.2f} GB: "
        f"{proved['cpu_seconds'] / plain['cpu_seconds']:.2f} times the work"
    )


def compare_over_lines(turns: int) -> Iterator[str]:
    """Lines of text: the shortest session of some over lines of 20 ms, with and without."""
    check_permitted()
    for features, levels in CASES[:2]:
        data = network.example(features)
        expected = network.in_process(data)
        best: dict[bool, dict[str, Any]] = {}
        with (
            tempfile.TemporaryDirectory(prefix="lines-") as name,
            Lines(Path(name), network.DELAY / 2, network.BYTES_PER_SECOND) as lines,
        ):
            for turn in range(turns):
                for verified in (False, True):
                    folder = Path(name) / f"{turn} {verified}"
                    result = network.run(
                        data, levels, expected, folder, lines.within, HUB, verified
                    )
                    before = best.get(verified, result)
                    best[verified] = min(before, result, key=lambda one: one["seconds"])
        plain, proved = best[False], best[True]
        yield (
            f"{features:>6} features, {levels} levels, over lines of 20 ms: "
            f"{proved['seconds']:.1f} s ({proved['rounds']} rounds) against {plain['seconds']:.1f} "
            f"s ({plain['rounds']} rounds): {proved['seconds'] / plain['seconds']:.2f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument(
        "--only", choices=("small", "transcriptome", "lines"), help="one of the three parts"
    )
    options = parser.parse_args()
    if options.only in (None, "small"):
        for features, levels in CASES:
            print(compare(options.rows, features, levels, options.turns), flush=True)
    if options.only in (None, "transcriptome"):
        print(compare_transcriptomes(), flush=True)
    if options.only in (None, "lines"):
        try:
            for line in compare_over_lines(options.turns):
                print(line, flush=True)
        except NotPermitted as error:
            print(f"Skipped: {error}.")


if __name__ == "__main__":
    main()

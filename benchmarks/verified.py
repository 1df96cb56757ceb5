"""What verification costs: the same fit with and without it, by turns in the same process.

`python -m benchmarks.verified` prints rounds, bytes and seconds, and the ratios, which count.
"""

from __future__ import annotations

import argparse

import numpy as np

from benchmarks.secure import example, shortest
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    for features, levels in CASES:
        print(compare(options.rows, features, levels, options.turns), flush=True)


if __name__ == "__main__":
    main()

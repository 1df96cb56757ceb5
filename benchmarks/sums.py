"""A silo's exact sums: the compiled loops of extra `fast` beside NumPy, in the same minute.

    python -m benchmarks.sums

Nanoseconds per value and lambda: NumPy and the loops by turns on one core, then the loops on all
that this process may use. The shortest of several counts. `--busy` measures one core alone, by the
time that it has worked for us: for machines that others use as well.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest import mock

import numpy as np

from securefedyj.numerics.encoding import DIGIT, Domain, Encoding, choose_encoding
from securefedyj.numerics.fast import THREADS_VARIABLE, threads
from securefedyj.numerics.fused import Blocks
from securefedyj.numerics.matrices import Matrices

SHAPES = ((200, 1000), (350, 2000), (10_000, 100), (1_000_000, 2))
LAMBDAS = (-2.0, -1.0, 0.0, 0.5, 1.0, 2.0)


def shortest(
    numpy: Callable[[], Any], loops: Callable[[], Any], turns: int, busy: bool
) -> dict[str, float]:
    """Seconds of NumPy, of the loops on one core, and of the loops on all of them, by turns."""
    ways = {"numpy": (1, numpy), "fast": (1, loops), "cores": (threads(), loops)}
    best = dict.fromkeys(ways, np.inf)
    clock = time.thread_time if busy else time.perf_counter
    for _ in range(turns):
        for name, (cores, function) in ways.items():
            if busy and name == "cores":
                continue
            with mock.patch.dict(os.environ, {THREADS_VARIABLE: str(cores)}):
                start = clock()
                function()
                best[name] = min(best[name], clock() - start)
    return best


def digits(encoding: Encoding) -> int:
    """How many digits of 22 bits the values >= 0 of an encoding take."""
    side = encoding.positive
    bits = np.maximum(side.y_bits, side.d_bits) + 1 - DIGIT * (side.spare // DIGIT)
    return int(-(-bits.max() // DIGIT))


def measure(rows: int, features: int, turns: int, busy: bool) -> None:
    X = np.random.default_rng(0).lognormal(size=(rows, features))
    domain, names = Domain.from_bounds(None, features), [""] * features
    arranging = partial(Matrices, X, domain, names), partial(Blocks, X, domain, names)
    print(f"\n{rows:,} rows x {features:,} features")
    _show("arranging", "", shortest(*arranging, 2, busy), X.size)
    numpys, fused = Matrices(X, domain, names), Blocks(X, domain, names)
    # Each lambda by itself, and all of them together, as an exchange asks for them.
    for lmbdas in (*((one,) for one in LAMBDAS), LAMBDAS):
        pairs, lambdas = np.tile(np.arange(features), len(lmbdas)), np.repeat(lmbdas, features)
        encoding = choose_encoding(domain.take(pairs), fused.count[pairs], lambdas)
        asked = pairs, lambdas, encoding, int(encoding.limbs.max())
        if not np.array_equal(numpys.sums(*asked), fused.sums(*asked)):
            raise AssertionError(f"the bits differ at lambda {lmbdas}")
        summing = partial(numpys.sums, *asked), partial(fused.sums, *asked)
        name = f"{lmbdas[0]:+.1f}" if len(lmbdas) == 1 else "all"
        values = X.size * len(lmbdas)
        _show(name, str(digits(encoding)), shortest(*summing, turns, busy), values)


def _show(what: str, digits: str, seconds: dict[str, float], values: int) -> None:
    numpy, fast, cores = (seconds[name] / values * 1e9 for name in ("numpy", "fast", "cores"))
    print(
        f"{what:>10} {digits:>6} {numpy:8.1f} {fast:8.2f} {cores:9.2f} "
        f"{numpy / fast:9.1f}x {fast / cores:9.2f}x"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--busy", action="store_true")
    asked = parser.parse_args()
    print(f"ns per value and lambda; {threads()} core(s)")
    print("    lambda digits    NumPy     fast all cores  NumPy/fast    cores")
    for rows, features in SHAPES:
        measure(rows, features, asked.turns, asked.busy)


if __name__ == "__main__":
    main()

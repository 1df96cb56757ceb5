"""A silo's exact sums at every level of the kernel and by NumPy, in the same minute.

    python -m benchmarks.sums

Nanoseconds per value, lambda and core: the shortest of several runs on one core, by the time that
it has worked for us, so that other programs on the machine do not count. Then, at the best level,
five tables of equal size whose sums must take the same time: in a consortium a peer sees how long
an answer takes.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from unittest import mock

import numpy as np

from securefedyj import kernel
from securefedyj.numerics.arrays import Array
from securefedyj.numerics.encoding import Domain, choose_encoding
from securefedyj.numerics.sums import ArraySilo

ROWS, FEATURES = 10_000, 10
BOUNDS = ((0.0, 300.0), (-10.0, 10.0), (-(2.0**20), 2.0**20))
LAMBDAS = (-2.0, -1.0, 0.0, 0.5, 1.0, 2.0)
MANY_ROWS = 1_000_000


def shortest(function: Callable[[], object], turns: int) -> float:
    """Seconds of work of one core."""
    best = np.inf
    for _ in range(turns):
        start = time.thread_time()
        function()
        best = min(best, time.thread_time() - start)
    return best


def at_level(level: str) -> dict[str, str]:
    return {kernel.VARIABLE: level, kernel.THREADS_VARIABLE: "1"}


def asked(silo: ArraySilo, domain: Domain, lmbdas: tuple[float, ...]) -> Callable[[], object]:
    """The sums at some lambdas, as an exchange asks for them."""
    feature = np.tile(np.arange(len(silo.count)), len(lmbdas))
    lmbda = np.repeat(lmbdas, len(silo.count))
    encoding = choose_encoding(domain.take(feature), silo.count[feature], lmbda)
    return lambda: silo.sums(feature, lmbda, encoding, int(encoding.limbs.max()))


def per_value(turns: int) -> None:
    levels = kernel.levels()
    print(f"ns per value, lambda and core, {ROWS:,} x {FEATURES}")
    print(f"{'bounds':>24} {'lambda':>7}", *(f"{level:>9}" for level in levels))
    for bounds in BOUNDS:
        X = np.clip(np.random.default_rng(0).lognormal(size=(ROWS, FEATURES)), *bounds)
        domain = Domain.from_bounds(bounds, FEATURES)
        for lmbda in LAMBDAS:
            found = []
            for level in levels:
                with mock.patch.dict(os.environ, at_level(level)):
                    sums = asked(ArraySilo(X, domain, [""] * FEATURES), domain, (lmbda,))
                    found.append(shortest(sums, turns) / X.size * 1e9)
            print(f"{bounds!s:>24} {lmbda:>7}", *(f"{ns:9.2f}" for ns in found))


def tables() -> dict[str, Array]:
    rng = np.random.default_rng(0)
    return {
        "zeros": np.zeros(MANY_ROWS),
        "1 % ones": np.where(rng.random(MANY_ROWS) < 0.01, 1.0, 0.0),
        "ones": np.ones(MANY_ROWS),
        "narrow": 100 + rng.random(MANY_ROWS) * 1e-3,
        "wide, both signs": rng.normal(size=MANY_ROWS) * 10 ** rng.uniform(-6, 5, MANY_ROWS),
    }


def equal_time(turns: int) -> None:
    """The slowest and the fastest of five tables, of the lambdas of the first exchange."""
    lmbdas = (0.0, -1.0, 1.0, -2.0, -0.5, 0.5, 2.0, -4.0, -1.5, -0.75, -0.25, 0.25, 0.75, 1.5, 4.0)
    domain = Domain.from_bounds(None, 1)
    print(f"\n{MANY_ROWS:,} rows, {len(lmbdas)} lambdas, level {kernel.level()}")
    with mock.patch.dict(os.environ, at_level(kernel.level())):
        silos = {name: ArraySilo(x[:, None], domain, ["x"]) for name, x in tables().items()}
        seconds = dict.fromkeys(silos, np.inf)
        for _ in range(turns):  # by turns: what else happens on the machine meets all alike
            for name, silo in silos.items():
                seconds[name] = min(seconds[name], shortest(asked(silo, domain, lmbdas), 1))
    for name, took in seconds.items():
        print(f"{name:>24} {took * 1e3:8.1f} ms")
    print(f"slowest / fastest: {max(seconds.values()) / min(seconds.values()):.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=7)
    turns = parser.parse_args().turns
    per_value(turns)
    equal_time(turns)


if __name__ == "__main__":
    main()

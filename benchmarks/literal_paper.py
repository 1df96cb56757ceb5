"""The paper taken literally: Algorithm 3, SecureFedYJ, on MPyC with secure fixed-point numbers.

A peer for benchmarks. Each client computes its local sums in float64, NumPy's way; 100-bit secure
fixed-point numbers with 50 bits behind the point are shared among all clients, one at a
time, and one sign is revealed per step. Only the errata of the paper are
mended (phi is a product, the score has the other sign), for without that it would find nothing.
What the fixed-point numbers cannot hold wraps around unnoticed, as in the paper.

    python -m benchmarks.literal_paper --features 2 --rows 200
"""

import argparse
import math
import multiprocessing
import socket
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from securefedyj.engines.mpyc.library import load

Floats = NDArray[np.float64]

TOTAL_BITS, FRACTION_BITS = 100, 50  # l and f of the paper


@dataclass(frozen=True)
class LiteralFit:
    """The fitted triplets, and what they cost.

    Attributes
    ----------
    lambdas, means, variances
        One for each feature.
    seconds
        For each feature, at the slowest party, without the start of the processes.
    bytes_sent
        For each party and feature, to all peers.
    """

    lambdas: Floats
    means: Floats
    variances: Floats
    seconds: Floats
    bytes_sent: NDArray[np.int64]


def fit_literal(
    silos: Sequence[Floats], max_steps: int = 40, options: Sequence[str] = ()
) -> LiteralFit:
    """Fit every column, one after the other, with a process for each silo.

    Parameters
    ----------
    silos
        Each silo's rows, as an array of shape (rows, features).
    max_steps
        t_max of the paper.
    options
        Of MPyC, say "--no-prss".
    """
    n = sum(len(silo) for silo in silos)
    inputs = [(silo, n, max_steps) for silo in silos]
    parties = _run(inputs, options)
    fitted = np.array([[feature.triplet for feature in party] for party in parties])
    if not (fitted == fitted[0]).all():
        raise AssertionError("The clients disagree on what was revealed.")
    seconds = np.array([[feature.seconds for feature in party] for party in parties])
    sent = np.array([[feature.bytes_sent for feature in party] for party in parties])
    lambdas, means, variances = fitted[0].T
    return LiteralFit(lambdas, means, variances, seconds.max(axis=0), sent)


@dataclass(frozen=True)
class _Feature:
    triplet: tuple[float, float, float]
    seconds: float
    bytes_sent: int


def _run(inputs: Sequence[tuple[Floats, int, int]], options: Sequence[str]) -> list[list[_Feature]]:
    """Run MPyC as it comes, with a process for each client and a port for each on this machine."""
    size = len(inputs)
    with socket.create_server(("localhost", 0)) as free:
        ports = f"--base-port={free.getsockname()[1]}"
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(size, spawn) as pool:
        running = [
            pool.submit(_party, index, size, [*options, ports], own)
            for index, own in enumerate(inputs)
        ]
        return [one.result() for one in running]


def _party(
    index: int, parties: int, options: Sequence[str], own: tuple[Floats, int, int]
) -> list[_Feature]:
    mpc = load(index, parties, options)

    async def connected() -> list[_Feature]:
        await mpc.start()
        features = await _client(mpc, *own)
        await mpc.shutdown()
        return features

    return cast(list[_Feature], mpc.run(connected()))


async def _client(mpc: Any, rows: Floats, n: int, max_steps: int) -> list[_Feature]:
    """One client's part, feature by feature."""
    features = []
    for column in rows.T:
        begin, sent = time.perf_counter(), _bytes_sent(mpc)
        triplet = await secure_fed_yj(mpc, column, n, max_steps)
        seconds = time.perf_counter() - begin
        features.append(_Feature(triplet, seconds, _bytes_sent(mpc) - sent))
    return features


async def secure_fed_yj(mpc: Any, x: Floats, n: int, max_steps: int) -> tuple[float, float, float]:
    """Algorithm 3 of the paper, line by line."""
    lambda_, lower, upper = 0.0, -math.inf, math.inf
    (s_phi,) = shared_sums(mpc, [np.sign(x) * np.log1p(np.abs(x))])
    for _ in range(max_steps):
        psi, d_psi = transformed(lambda_, x)
        s_psi, s_psi2, s_d_psi, s_d_psi2 = shared_sums(mpc, [psi, psi**2, d_psi, 2 * psi * d_psi])
        score = (
            2 * (s_phi * (s_psi2 - s_psi * s_psi * (1 / n))) - n * s_d_psi2 + 2 * (s_psi * s_d_psi)
        )
        delta = 1 if await mpc.output(score >= 0) else -1
        lambda_, lower, upper = exp_update(lambda_, lower, upper, delta)
    psi, _ = transformed(lambda_, x)
    s_psi, s_psi2 = shared_sums(mpc, [psi, psi**2])
    mean = s_psi * (1 / n)
    variance = s_psi2 * (1 / n) - mean * mean
    return lambda_, float(await mpc.output(mean)), float(await mpc.output(variance))


def shared_sums(mpc: Any, values: Sequence[Floats]) -> list[Any]:
    """Share S_g = sum over all clients' rows of g, for several g."""
    number = mpc.SecFxp(TOTAL_BITS, FRACTION_BITS)
    # `integral` is public; by default MPyC would tell whether a secret sum is a whole number.
    own = [number(float(value.sum()), integral=False) for value in values]
    return [mpc.sum(list(parts)) for parts in zip(*mpc.input(own), strict=True)]


def transformed(lambda_: float, x: Floats) -> tuple[Floats, Floats]:
    """Return Psi(lambda, x) and its derivative by lambda, by the formulas as printed."""
    side = np.where(x >= 0, 1.0, -1.0)
    u = np.where(x >= 0, lambda_, 2 - lambda_)
    log = np.log1p(np.abs(x))
    flat = u == 0
    u = np.where(flat, 1.0, u)
    power = np.exp(u * log)
    psi = np.where(flat, log, (power - 1) / u)
    d_psi = np.where(flat, log**2 / 2, (log * power - psi) / u)
    return side * psi, d_psi


def exp_update(
    lambda_: float, lower: float, upper: float, delta: int
) -> tuple[float, float, float]:
    """ExpUpdate, Algorithm 2 of the paper."""
    if delta == 1:
        return (upper + lambda_) / 2 if upper < math.inf else max(2 * lambda_, 1.0), lambda_, upper
    return (lower + lambda_) / 2 if lower > -math.inf else min(2 * lambda_, -1.0), lower, lambda_


def _bytes_sent(mpc: Any) -> int:
    return sum(p.protocol.nbytes_sent for p in mpc.parties if p.pid != mpc.pid)


def main() -> None:
    """Measure, and print one line."""
    parser = argparse.ArgumentParser(description="Time the paper's protocol, taken literally.")
    parser.add_argument("--features", type=int, default=2)
    parser.add_argument("--rows", type=int, default=200, help="rows of each silo")
    parser.add_argument("--silos", type=int, default=3)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--no-prss", action="store_true", help="MPyC's option of that name")
    asked = parser.parse_args()
    source = np.random.default_rng(0)  # of example data, not of secrets
    shape = asked.silos, asked.rows, asked.features
    silos = list(source.gamma(2.0, size=shape) - 1)
    fit = fit_literal(silos, asked.steps, ["--no-prss"] if asked.no_prss else [])
    print(
        f"literal SecureFedYJ: {asked.silos} silos of {asked.rows} rows, {asked.steps} steps: "
        f"{np.median(fit.seconds):.2f} s and {fit.bytes_sent.mean() / 1e6:.2f} MB sent "
        f"per feature and party; lambda {np.array2string(fit.lambdas, precision=10)}"
    )


if __name__ == "__main__":
    main()

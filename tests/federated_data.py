"""Silos, agreements and exact sums, for tests of the secure core."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from mpmath import mp, mpf

from securefedyj.engines.registry import facts_of
from securefedyj.numerics import wide
from securefedyj.numerics.arrays import Array
from securefedyj.numerics.encoding import Domain, Encoding, choose_encoding
from securefedyj.numerics.sums import ArraySilo
from securefedyj.party import inprocess
from securefedyj.party.machine import Party
from securefedyj.party.messages import Message
from securefedyj.protocol.agreement import Agreement
from securefedyj.protocol.reveals import Reveal
from securefedyj.protocol.simulation import fit_table
from securefedyj.protocol.transcript import Transcript
from tests.datasets import NAMES, Feature, features

Tables = Sequence[Array | None]


@cache
def all_features() -> tuple[Feature, ...]:
    """The 108 features of the four data sets."""
    return tuple(feature for name in NAMES for feature in features(name))


def as_table(columns: Iterable[Array | Sequence[float]]) -> Array:
    """Columns side by side; the shorter ones are filled with missing values."""
    listed = list(columns)
    table = np.full((max(map(len, listed)), len(listed)), np.nan)
    for row, column in zip(table.T, listed, strict=True):
        row[: len(column)] = column
    return table


def shuffled(X: Array, silos: int, seed: int = 0) -> list[Array]:
    """Rows dealt out at random, a different number to each silo."""
    rng = np.random.default_rng(seed)
    cuts = np.sort(rng.choice(len(X) + 1, silos - 1))
    return [np.ascontiguousarray(part) for part in np.split(rng.permutation(X), cuts)]


def by_value(X: Array, silos: int) -> list[Array]:
    """Every column sorted: each silo has one quantile of it, missing values go to the last."""
    return list(np.array_split(np.sort(X, axis=0), silos))


def agreement(
    n_features: int, silos: int = 3, bounds: Any = None, engine: str = "clear", **changes: Any
) -> Agreement:
    """An agreement between that many silos."""
    parties = tuple(f"silo {k + 1}" for k in range(silos))
    agreed = Agreement(
        features=tuple(f"feature {j}" for j in range(n_features)),
        domain=Domain.from_bounds(bounds, n_features),
        parties=parties,
        committee=facts_of(engine).committee_of(parties),
        engine=engine,
        max_steps=40,
        levels_per_exchange=4,
        result_bits=44,
        minimum_values=0,
        verified=False,
    )
    return replace(agreed, **changes)


async def _program(name: str, agreed: Agreement, table: Array | None) -> Transcript:
    transcript, _ = await fit_table(name, agreed, table)
    return transcript.with_result()


def assemble(agreements: Sequence[Agreement], tables: Tables) -> list[Party[Transcript]]:
    """The parties by hand, each with the agreement that it believes in."""
    session = secrets.token_bytes(16)
    return [
        Party(
            name,
            agreed.parties,
            _program(name, agreed, table),
            session=session,
            parameters=agreed.to_bytes(),
        )
        for name, agreed, table in zip(agreements[0].parties, agreements, tables, strict=True)
    ]


def run(
    agreed: Agreement,
    tables: Tables,
    observe: Callable[[Message], Iterable[Message]] | None = None,
) -> list[Transcript]:
    """The transcripts of all parties."""
    return inprocess.run(assemble([agreed] * len(tables), tables), observe)


def plain(reveals: Iterable[Reveal]) -> list[tuple[Any, ...]]:
    """Reveals in a form that can be compared."""
    return [
        (type(reveal).__name__, *(np.asarray(part, dtype=object).tolist() for part in reveal))
        for reveal in reveals
    ]


class Totals(NamedTuple):
    """Sums of one pair of a feature and a lambda, as Python integers."""

    y: int
    d: int
    yy: int
    yd: int
    phi: int


def totals(
    X: Array, domain: Domain, lmbda: Sequence[float] | Array, encoding: Encoding, limbs: int
) -> list[Totals]:
    """What a silo with the rows X computes, one entry per column."""
    silo = ArraySilo(X, domain, [f"feature {j}" for j in range(X.shape[1])])
    chosen = np.arange(X.shape[1])
    sums = silo.sums(chosen, np.asarray(lmbda, dtype=np.float64), encoding, limbs)
    return [
        Totals(*row)
        for row in zip(
            *(wide.to_ints(part) for part in (*sums, silo.phi_sum(chosen, limbs))), strict=True
        )
    ]


def one_by_one(
    values: Sequence[float] | Array, bounds: tuple[float, float], n: int, lmbda: float
) -> tuple[list[Totals], Encoding]:
    """The integers of each value alone, on the grid for n values, and the encoding of one of them.

    Every value is a feature of its own, so that no sum is involved.
    """
    p = len(values)
    domain = Domain.from_bounds(bounds, p)
    encoding = choose_encoding(domain, np.full(p, n), np.full(p, float(lmbda)))
    X = np.asarray(values, dtype=np.float64)[None]
    return totals(
        X, domain, np.full(p, float(lmbda)), encoding, 2 * int(encoding.limbs[0])
    ), encoding


def added(parts: Iterable[Totals], counts: Iterable[int]) -> Totals:
    """Sums over values, each counted as often as it occurs, from the integers of each."""
    pairs = list(zip(parts, counts, strict=True))
    y, d, phi = (
        sum(count * getattr(part, name) for part, count in pairs) for name in ("y", "d", "phi")
    )
    yy = sum(count * part.y * part.y for part, count in pairs)
    yd = sum(count * part.y * part.d for part, count in pairs)
    return Totals(y, d, yy, yd, phi)


def derived(sums: Totals, n: int, phi_grid: int) -> tuple[int, int, int]:
    """V = n S_yy - S_y^2, K = n S_yd - S_y S_d and D = S_phi V - n K, whose sign is revealed."""
    V = n * sums.yy - sums.y**2
    K = n * sums.yd - sums.y * sums.d
    return V, K, sums.phi * V - (n * K << phi_grid)


def exact_y_d_phi(x: float, lmbda: float) -> tuple[mpf, mpf, mpf]:
    """Psi, its derivative by lambda and sgn(x) log(1 + |x|), with the precision that is set."""
    side, u = (1, mpf(lmbda)) if x >= 0 else (-1, 2 - mpf(lmbda))
    L = mp.log1p(abs(mpf(x)))
    if not u:
        return side * L, L**2 / 2, side * L
    # w - 1 loses the digits of a small u, and the difference of d as many again.
    with mp.extraprec(3 * max(0, -mp.mag(u))):
        w = mp.exp(u * L)
        return side * (w - 1) / u, (L * w - (w - 1) / u) / u, side * L


def on_grid(value: mpf, bits: int) -> int:
    """The nearest multiple of 2^-bits."""
    return int(mp.nint(mp.ldexp(value, bits)))

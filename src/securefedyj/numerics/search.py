"""Exponential search for lambda: ExpUpdate, speculation on its next steps, and function F.

Pure functions of arrays, one entry per feature (docs/protocol.md, section 5). No data and no I/O:
all that the search ever sees of the data is Delta, the sign of the derivative of the
log-likelihood, which is +1 where lambda must grow and -1 where it must shrink.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from securefedyj.errors import InputError
from securefedyj.numerics.arrays import Array, Bools, Index, Signs

# What a fit promises: lambda within this multiple of max(|lambda|, 1/sqrt(|score'|/n)).
PRECISION = 1e-9
# This many steps may go into reaching the magnitude of lambda; each other step halves the bracket.
_REACHING = 10


def promised(max_steps: int) -> float:
    """How precise lambda is to be after that many steps."""
    return max(PRECISION, 2.0 ** (_REACHING - max_steps))


class Bracket(NamedTuple):
    """lambda_t and its bounds lambda_t^-, lambda_t^+ (infinite until the search has turned)."""

    value: Array
    lower: Array
    upper: Array

    def take(self, features: Index) -> Bracket:
        return Bracket(*(part[features] for part in self))

    def put(self, features: Index, brackets: Bracket) -> None:
        for part, values in zip(self, brackets, strict=True):
            part[features] = values

    @classmethod
    def start(cls, n_features: int, limits: Limits | None = None) -> Bracket:
        """At 0, or for integers in the middle of their limits."""
        value, infinite = np.zeros(n_features), np.full(n_features, np.inf)
        if limits is None:
            return cls(value, -infinite, infinite)
        lowest, highest, integers = limits
        middle = np.floor((np.asarray(lowest, np.float64) + np.asarray(highest, np.float64)) / 2)
        return cls(
            np.where(integers, np.where(middle <= lowest, highest, middle), value),
            np.where(integers, lowest, -infinite),
            np.where(integers, highest, infinite),
        )


class Limits(NamedTuple):
    """The range of lambda: a search that would leave it ends at its edge.

    Among integers, the first that is too small and the last that may be the answer.
    """

    lowest: ArrayLike = -(2.0**1000)
    highest: ArrayLike = 2.0**1000
    integers: ArrayLike = False
    """Whether the search is among integers, by bisection alone."""

    def take(self, features: Index) -> Limits:
        return Limits(
            *(part if np.ndim(part) == 0 else np.asarray(part)[features] for part in self)
        )


# As good as none, short of overflow.
UNLIMITED = Limits()


def exp_update(bracket: Bracket, delta: ArrayLike, limits: Limits = UNLIMITED) -> Bracket:
    """The paper's ExpUpdate (algorithm 2): double until the sign turns, then bisect.

    Two things end a search, and further updates leave it where it is: the edge of the range,
    and the floor of float64, where no number lies between the bounds. At the floor the value
    is the upper bound, so that `recover_path`, which compares with <, finds the path again.
    """
    value = bracket.value
    grow = np.asarray(delta) > 0
    lower = np.where(grow, value, bracket.lower)
    upper = np.where(grow, bracket.upper, value)
    bracketed = np.isfinite(upper - lower)
    whole = limits.integers
    if bracketed.all():  # as it is after the first few steps
        middle = (lower + upper) / 2
        middle = np.where(whole, np.floor(middle), middle) if np.any(whole) else middle
        return Bracket(np.where(middle <= lower, upper, middle), lower, upper)
    middle = (np.where(bracketed, lower, 0.0) + np.where(bracketed, upper, 0.0)) / 2
    middle = np.where(whole, np.floor(middle), middle)
    middle = np.where(middle <= lower, upper, middle)
    doubled = np.where(
        grow,
        np.minimum(np.maximum(2 * value, 1.0), limits.highest),
        np.maximum(np.minimum(2 * value, -1.0), limits.lowest),
    )
    return Bracket(np.where(bracketed, middle, doubled), lower, upper)


def finished(bracket: Bracket) -> Bools:
    """Where another step would not move the search: at an edge or at the floor of float64."""
    over: Bools = (bracket.value == bracket.lower) | (bracket.value == bracket.upper)
    return over


def at_bound(bracket: Bracket, limits: Limits = UNLIMITED) -> Bools:
    """Where the search has ended at an edge of the range and the optimum lies beyond."""
    beyond_highest: Bools = (bracket.value == limits.highest) & (bracket.lower == limits.highest)
    beyond_lowest: Bools = (bracket.value == limits.lowest) & (bracket.upper == limits.lowest)
    return beyond_highest | beyond_lowest


@dataclass(frozen=True)
class Speculation:
    """All points that the next ``levels`` steps can visit, as a binary tree in heap order.

    Node k is followed by node 2k+1 if its sign is -1 and by 2k+2 if it is +1. Signs at all
    2^levels - 1 points, found in one exchange, replace ``levels`` exchanges: the walk visits
    the same points and ends in the same bracket as single steps.
    """

    levels: int
    tree: Bracket  # each of shape (2^levels - 1, n_features)

    @property
    def points(self) -> Array:
        return self.tree.value

    def take(self, features: Index) -> Speculation:
        return Speculation(self.levels, Bracket(*(part[:, features] for part in self.tree)))

    @staticmethod
    def child(node: Index, delta: ArrayLike) -> Index:
        """The node that follows a node with the given sign."""
        return 2 * node + 1 + (np.asarray(delta) > 0)


def speculate(bracket: Bracket, levels: int, limits: Limits = UNLIMITED) -> Speculation:
    """The 2^levels - 1 points that the next ``levels`` steps from here can visit."""
    if levels < 1:
        raise InputError("SFY-NUM-010", f"levels must be at least 1, got {levels}")
    layer = Bracket(*(part[None] for part in bracket))
    layers = [layer]
    for _ in range(levels - 1):
        down, up = (exp_update(layer, delta, limits) for delta in (-1, +1))
        layer = Bracket(
            *(
                np.array(pair).swapaxes(0, 1).reshape(-1, pair[0].shape[1])
                for pair in zip(down, up, strict=True)
            )
        )
        layers.append(layer)
    tree = Bracket(*(np.concatenate(parts) for parts in zip(*layers, strict=True)))
    return Speculation(levels, tree)


class Path(NamedTuple):
    """The points of a search and their signs, (steps, n_features); NaN and 0 once finished."""

    points: Array
    signs: Signs


def recover_path(
    lmbda: ArrayLike, max_steps: int, limits: Limits = UNLIMITED, at_bound: ArrayLike = False
) -> Path:
    """The paper's function F (algorithm 4): every revealed sign, from the result alone.

    ``at_bound`` tells a search that ended at the upper edge from one that ended just below.
    """
    lmbda = np.atleast_1d(np.asarray(lmbda, dtype=np.float64))
    at_bound = np.broadcast_to(at_bound, lmbda.shape)
    bracket = Bracket.start(len(lmbda), limits)
    points, signs = [], []
    for _ in range(max_steps):
        beyond = at_bound & (lmbda == limits.highest)
        grow = (bracket.value < lmbda) | (beyond & (bracket.value == limits.highest))
        delta = np.where(grow, 1, -1).astype(np.int8)
        over = finished(bracket)
        points.append(np.where(over, np.nan, bracket.value))
        signs.append(np.where(over, 0, delta).astype(np.int8))
        bracket = exp_update(bracket, delta, limits)
    shape = (max_steps, len(lmbda))
    return Path(np.array(points).reshape(shape), np.array(signs, dtype=np.int8).reshape(shape))

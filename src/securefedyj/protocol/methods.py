"""The methods, and the questions that a run asks for them (docs/protocol.md, section 2.1).

A feature has one method or several. A question is what the protocol asks at a time: about one
feature, on one scale, and for a quantile of one rank. Schedule, batches, reveals and engines know
questions by their number; where every feature has the method yeo-johnson alone, these are the
numbers of the features.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from math import ceil, inf
from typing import NamedTuple

import numpy as np

from securefedyj.errors import InputError
from securefedyj.numerics.arrays import Array, Bools, Index, Integers
from securefedyj.numerics.encoding import LINEAR, LOGARITHM, RANKED, RATIO, Domain
from securefedyj.printable import shown

METHODS = {
    "yeo-johnson": LOGARITHM,
    "box-cox": RATIO,
    "standard": LINEAR,
    "robust": RANKED,
    "quantiles": RANKED,
}
"""What a silo keeps of x for each method (`Domain.scale`)."""

Methods = Mapping[str, tuple[str, ...]]
"""The methods of a feature, each with its quantiles, if it has any."""

YEO_JOHNSON = "yeo-johnson"
DEFAULT: Methods = {YEO_JOHNSON: ()}
MOST_QUANTILES = 100
QUARTILES = ("0.25", "0.5", "0.75")
"""Those of `robust`, unless other three are agreed on."""

_QUANTILE = re.compile(r"0|1|0\.[0-9]{0,15}[1-9]")
_RESOLUTION = re.compile(r"(?:0|[1-9][0-9]{0,15})(?:\.[0-9]{0,21}[1-9])?")


def as_quantile(value: str | int | Decimal | Fraction) -> str:
    """A quantile as an agreement has it, such as "0.25"; a float is refused, as it is not exact."""
    if not isinstance(value, str | int | Decimal | Fraction):
        raise TypeError(f"a quantile is a str, Decimal or Fraction, not {type(value).__name__}")
    try:
        exact = Fraction(value)
        text = f"{Decimal(exact.numerator) / exact.denominator:f}"
        text = text.rstrip("0").rstrip(".") if "." in text else text
        if _QUANTILE.fullmatch(text) and Fraction(text) == exact:
            return text
    except (ArithmeticError, ValueError):
        pass
    raise InputError(
        "SFY-CON-032",
        f"{shown(str(value))} is not a quantile: it must be a decimal number from 0 to 1 with at "
        "most 16 digits.",
    )


@lru_cache
def _exact(quantile: str) -> Fraction:
    """A quantile as a number; most features have the same ones."""
    return Fraction(as_quantile(quantile))


def rank_of(quantile: str, n: int) -> int:
    """The rank of a quantile among n values: k = max(1, ceil(q n))."""
    return max(1, ceil(_exact(quantile) * n))


class Question(NamedTuple):
    """What is asked at a time."""

    column: int
    """The number of the feature."""
    scale: int
    quantile: str = ""

    @property
    def what(self) -> str:
        """What is asked, behind the name of a feature; nothing for yeo-johnson."""
        if self.quantile:
            return f", quantile {self.quantile}"
        return {RATIO: ", box-cox", LINEAR: ", standard"}.get(self.scale, "")


@dataclass(frozen=True)
class Questions:
    """All questions of a run, in order; arrays have one entry per question."""

    all: tuple[Question, ...]
    column: Index
    """The number of the feature."""
    domain: Domain

    @classmethod
    def of(cls, bounds: Domain, methods: Sequence[Methods], resolution: Sequence[str]) -> Questions:
        """The questions about features with these bounds."""
        asked = tuple(q for j, own in enumerate(methods) for q in _questions(j, own))
        column = np.array([q.column for q in asked], dtype=np.intp)
        steps = [resolution[j] for j in column.tolist()] if resolution else None
        pairs = np.array([bounds.lower, bounds.upper]).T[column]
        domain = Domain.from_bounds(pairs, len(asked), [q.scale for q in asked], steps)
        return cls(asked, column, domain)

    def __len__(self) -> int:
        return len(self.all)

    @property
    def searched(self) -> Bools:
        """Questions for lambda."""
        searched: Bools = self.domain.scale <= RATIO
        return searched

    @property
    def ranked(self) -> Bools:
        """Questions for a quantile."""
        ranked: Bools = self.domain.scale == RANKED
        return ranked

    @property
    def fitted(self) -> Index:
        """The questions for mean and variance."""
        return np.flatnonzero(~self.ranked)

    def most_steps(self) -> int:
        """The most steps of a search for a quantile."""
        last = self.domain.grid.last[self.ranked]
        return int(last.max(initial=0)).bit_length()

    def ranks(self, n: Integers) -> Integers:
        """k = max(1, ceil(q n)) of the questions for a quantile, 0 of the others."""
        rank = np.zeros(len(self), dtype=np.int64)
        for i in np.flatnonzero(self.ranked).tolist():
            rank[i] = rank_of(self.all[i].quantile, int(n[i]))
        return rank

    def refused(self, n: Integers, minimum: int) -> dict[int, str]:
        """Why some quantiles are not asked for, by their numbers: they show values of too few.

        At least the minimum of values must be as small, as many as large, and as many from one
        rank of a feature to another one, which has been admitted before.
        """
        refused, admitted = dict[int, str](), dict[int, list[int]]()
        for i, k in enumerate(self.ranks(n).tolist()):
            count, others = int(n[i]), admitted.setdefault(int(self.column[i]), [])
            if not k:
                continue
            where = f"its rank is {k} of {count}"
            if not count:
                refused[i] = "there are no values"
            elif k < minimum:
                refused[i] = f"{where}: fewer than {minimum} values are at most as large"
            elif count - k + 1 < minimum:
                refused[i] = f"{where}: fewer than {minimum} values are at least as large"
            elif any(0 < abs(k - other) < minimum for other in others):
                refused[i] = f"{where}: closer than {minimum} to the rank of another quantile"
            else:
                others.append(k)
        return refused

    def points(self, numbers: Array, some: Index) -> Array:
        """Points of the grids of some questions, by their numbers."""
        return self.domain.take(some).grid.points(numbers)


def _questions(column: int, methods: Methods) -> Iterator[Question]:
    """The questions about a feature; a quantile that two methods want is one question."""
    seen = set[str]()
    for name, scale in METHODS.items():
        if name in methods and scale != RANKED:
            yield Question(column, scale)
        for quantile in methods.get(name, ()):
            if quantile not in seen:
                yield Question(column, scale, quantile)
            seen.add(quantile)


def methods_of(name: str, method: str, quantiles: str) -> Methods:
    """The methods of a feature as files write them: both are lists, with commas or spaces."""
    methods, own = method.replace(",", " ").split(), tuple(quantiles.replace(",", " ").split())
    own = tuple(sorted({as_quantile(quantile) for quantile in own}, key=Fraction))
    found: dict[str, tuple[str, ...]] = dict.fromkeys(methods, ())
    if "robust" in found:
        found["robust"] = own if own and "quantiles" not in found else QUARTILES
    if "quantiles" in found:
        found["quantiles"] = own
    elif own and "robust" not in found:
        raise InputError(
            "SFY-CON-039",
            f"feature {shown(name)} has quantiles, but none of the methods quantiles and robust.",
        )
    check_methods(name, found)
    return found


def check_methods(name: str, methods: Methods, resolution: str = "", lower: float = inf) -> None:
    """Refuse what is no method of a feature, as far as more is known of it; raises InputError."""
    if methods == DEFAULT and not resolution:
        return  # as a rule, and there may be many features
    unknown = [method for method in methods if method not in METHODS]
    if unknown or not methods:
        raise InputError(
            "SFY-CON-033",
            f"feature {shown(name)} has methods {shown(list(methods))}; it must have one or more "
            f"of {', '.join(METHODS)}.",
        )
    for method, quantiles in methods.items():
        exact = [_exact(quantile) for quantile in quantiles]
        in_order = [as_quantile(q) for q in sorted(set(exact))] == list(quantiles)
        least, most = {"robust": (3, 3), "quantiles": (1, MOST_QUANTILES)}.get(method, (0, 0))
        if not in_order or not least <= len(quantiles) <= most:
            raise InputError(
                "SFY-CON-034",
                f"feature {shown(name)} has method {method} with quantiles "
                f"{shown(list(quantiles))}; robust has three, quantiles 1 to {MOST_QUANTILES}, in "
                "ascending order, and the other methods have none.",
            )
    if resolution and not (_RESOLUTION.fullmatch(resolution) and Fraction(resolution)):
        raise InputError(
            "SFY-CON-035",
            f"the resolution of feature {shown(name)} is {shown(resolution)}; it must be a decimal "
            "number above 0, such as 0.01.",
        )
    if "box-cox" in methods and lower <= 0:
        raise InputError(
            "SFY-CON-037",
            f"feature {shown(name)} has method box-cox and the lower bound {lower:g}; box-cox is "
            "for values > 0, and needs a lower bound > 0.",
        )

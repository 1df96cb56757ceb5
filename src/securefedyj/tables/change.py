"""A function of the values of a table, and the values outside the agreed bounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike

from securefedyj.errors import InputError
from securefedyj.numerics.arrays import Array, Integers
from securefedyj.tables.cells import TableError

OutsideMode = Literal["error", "clip", "keep"]
OUTSIDE: tuple[OutsideMode, ...] = get_args(OutsideMode)
_COLUMNS_NAMED = 5


class Outside(NamedTuple):
    """The numbers of values of a column below and above its bounds."""

    below: int
    above: int
    lower: float
    upper: float

    def __str__(self) -> str:
        sides = {f"below {self.lower:.15g}": self.below, f"above {self.upper:.15g}": self.above}
        return ", ".join(f"{count:,} {side}" for side, count in sides.items() if count)


class Changed(NamedTuple):
    """A block of values after the change."""

    values: Array | None
    """None if they are not needed, because no new table will be written."""
    outside: Integers | None
    """The numbers of values of each feature below and above its bounds."""


class Change:
    """A function of the values of all features.

    A block may be changed in any thread, and more than once; it counts once it is given to `count`.

    Parameters
    ----------
    function : callable
        Gets an array of shape (rows, features) and returns one of the same shape; NaN is missing.
    bounds : (lower, upper), optional
        Of each feature; none by default.
    outside : {"error", "clip", "keep"}
        What happens to values outside: "error" stops changing values after the first of them,
        "clip" puts the bound in their place, "keep" changes them like all others.
    """

    def __init__(
        self,
        function: Callable[[Array], Array],
        bounds: tuple[ArrayLike, ArrayLike] | None = None,
        outside: OutsideMode = "error",
    ) -> None:
        if outside not in OUTSIDE:
            raise InputError(
                "SFY-TAB-002", f"outside must be one of {', '.join(OUTSIDE)}, got {outside!r}"
            )
        self._function, self._outside = function, outside
        self._bounds = None if bounds is None else tuple(map(np.asarray, bounds))
        self._counts: Integers = np.zeros((2, 1), dtype=np.int64)

    def __call__(self, values: Array) -> Changed:
        """The new values of a block."""
        counts = None
        if self._bounds is not None:
            lower, upper = self._bounds
            sides = values < lower, values > upper
            counts = np.array([np.count_nonzero(side, axis=0) for side in sides])
            if self._outside == "error" and (counts.any() or self._counts.any()):
                return Changed(None, counts)
            if self._outside == "clip":
                values = np.clip(values, lower, upper)
        return Changed(self._function(values) if len(values) else values, counts)

    def count(self, changed: Changed) -> None:
        """Count the values of a block that were outside."""
        if changed.outside is not None:
            self._counts = self._counts + changed.outside

    def found(self, features: Sequence[str]) -> dict[str, Outside]:
        """The features with values outside."""
        if self._bounds is None:
            return {}
        columns = np.broadcast_arrays(*self._counts, *self._bounds, np.empty(len(features)))[:4]
        each = (Outside(*of) for of in zip(*(column.tolist() for column in columns), strict=True))
        return {
            name: one for name, one in zip(features, each, strict=True) if one.below or one.above
        }

    def check(self, where: object, features: Sequence[str]) -> None:
        """Refuse values outside the bounds if they are an error."""
        found = self.found(features)
        if not found or self._outside != "error":
            return
        raise TableError(
            "SFY-TAB-001",
            f"{where}: values lie outside the agreed bounds: {listed(found)}. Correct them; or, if "
            "they mean missing values, give --missing=-999 or similar; or give --outside clip to "
            "replace them by the bound, or --outside keep to transform them unchanged",
        )


def listed(found: dict[str, Outside]) -> str:
    """The features with values outside, for a message; the first few by name."""
    named = [f"{name!r} ({one})" for name, one in found.items()]
    more = len(named) - _COLUMNS_NAMED
    return ", ".join(named[:_COLUMNS_NAMED]) + (f" and {more} more columns" if more > 0 else "")

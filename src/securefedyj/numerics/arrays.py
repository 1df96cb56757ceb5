"""Names for the arrays that everything here is made of."""

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
Signs: TypeAlias = NDArray[np.int8]
"""Delta of the search: +1 where lambda must grow, -1 where it must shrink."""
Bools: TypeAlias = NDArray[np.bool_]
Index: TypeAlias = NDArray[np.intp]
"""Positions: of features, of rows, of pairs of a feature and a lambda."""
T = TypeVar("T")


def each(function: Callable[..., Any], *records: T) -> T:
    """The record of what a function makes of every array of some records, and of those in them."""
    kind: Any = type(records[0])
    if not issubclass(kind, tuple):
        return cast(T, function(*records))
    parts = zip(*cast(Any, records), strict=True)
    return cast(T, kind(*(each(function, *arrays) for arrays in parts)))


def unmasked(data: Any) -> Any:
    """The data, where the entries that a masked array hides are NaN: NumPy would drop the mask."""
    if isinstance(data, list | tuple) and any(isinstance(row, np.ma.MaskedArray) for row in data):
        data = np.ma.array(data)
    if isinstance(data, np.ma.MaskedArray):
        kept = data if data.dtype.kind == "f" else data.astype(np.float64)
        return np.ma.filled(kept, np.nan)
    return data

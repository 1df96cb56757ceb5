"""Names for the arrays that everything here is made of."""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
Signs: TypeAlias = NDArray[np.int8]
"""Delta of the search: +1 where lambda must grow, -1 where it must shrink."""
Bools: TypeAlias = NDArray[np.bool_]
Index: TypeAlias = NDArray[np.intp]
"""Positions: of features, of rows, of pairs of a feature and a lambda."""


def each(function: Callable[..., Any], *records: Any) -> Any:
    """The record of what a function makes of every array of some records, and of those in them."""
    if not isinstance(records[0], tuple):
        return function(*records)
    parts = zip(*records, strict=True)
    return type(records[0])(*(each(function, *arrays) for arrays in parts))


def unmasked(data: Any) -> Any:
    """The data, where the entries that a masked array hides are NaN: NumPy would drop the mask."""
    if isinstance(data, list | tuple) and any(isinstance(row, np.ma.MaskedArray) for row in data):
        data = np.ma.array(data)
    if isinstance(data, np.ma.MaskedArray):
        kept = data if data.dtype.kind == "f" else data.astype(np.float64)
        return np.ma.filled(kept, np.nan)
    return data

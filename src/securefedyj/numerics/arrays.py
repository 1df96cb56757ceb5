"""Names for the arrays that everything here is made of."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
Signs: TypeAlias = NDArray[np.int8]
"""Delta of the search: +1 where lambda must grow, -1 where it must shrink."""
Bools: TypeAlias = NDArray[np.bool_]
Index: TypeAlias = NDArray[np.intp]
"""Positions: of features, of rows, of pairs of a feature and a lambda."""

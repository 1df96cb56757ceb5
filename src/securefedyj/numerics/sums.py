"""A silo's exact integer sums S_y, S_d, S_yy, S_yd and S_phi (docs/protocol.md, section 4.4).

Every residual is rounded once to an integer on the grid of the encoding; everything after that is
integer arithmetic. So the sums do not depend on the order or the grouping of the rows: over
silos, over blocks of a file, over threads. Nor on what computes them: NumPy does where the extra
`fast` is not installed, or where little is to be done.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from securefedyj.numerics.arrays import Array, Index, Integers
from securefedyj.numerics.encoding import Domain, Encoding
from securefedyj.numerics.fast import Loops
from securefedyj.numerics.matrices import Matrices
from securefedyj.numerics.silo import Sums
from securefedyj.numerics.wide import Limbs

# What a fit of 40 steps asks of each value, in NumPy's seconds.
_SECONDS_PER_VALUE = 40 * 20e-9

_FUSED = Loops("securefedyj.numerics.fused")


class ArraySilo:
    """The values of one silo, arranged for many evaluations of their sums.

    Parameters
    ----------
    X : array of shape (n_rows, n_features)
        The rows of the silo; NaN is missing.
    domain : Domain
        The agreed bounds. A value outside raises `OutOfBounds`.
    names : list of str
        Names of the features, for that error.
    """

    def __init__(self, X: ArrayLike, domain: Domain, names: list[str]) -> None:
        # Logarithms of narrower numbers would have other bits.
        table = np.asarray(X, dtype=np.float64)
        fused = _FUSED.after(table.size * _SECONDS_PER_VALUE)
        self._values = (fused.Blocks if fused else Matrices)(table, domain, names)
        self.count: Integers = self._values.count

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the values take as they are arranged."""
        return self._values.nbytes

    def phi_sum(self, features: Index, limbs: int) -> Limbs:
        """S_phi of the features, on the grid of their domain."""
        return self._values.phi_sum(features, limbs)

    def sums(self, feature: Index, lmbda: Array, encoding: Encoding, limbs: int) -> Sums:
        """The sums of each pair of a feature and a lambda, in that many limbs."""
        return self._values.sums(feature, lmbda, encoding, limbs)

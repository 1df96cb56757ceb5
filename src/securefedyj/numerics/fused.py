"""A silo's exact sums by compiled loops on all cores; `matrices` has the same by NumPy.

Importing this module imports Numba: see `fast`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from itertools import pairwise

import numpy as np

from securefedyj.numerics import fast, wide
from securefedyj.numerics.arrays import Array, Index, Integers
from securefedyj.numerics.compiled.sums import DIGIT as FUSED_DIGIT
from securefedyj.numerics.compiled.sums import LANES, write_sums
from securefedyj.numerics.compiled.tables import arrange
from securefedyj.numerics.encoding import DIGIT, Domain, Encoding, choose_encoding
from securefedyj.numerics.matrices import Matrices
from securefedyj.numerics.rows import check_bounds
from securefedyj.numerics.silo import Sums
from securefedyj.numerics.wide import Limbs

# Values times lambdas that are worth a thread: they take far longer than its start.
_WORTH_A_THREAD = 1 << 17
# Pieces of work for each thread, so that they end at about the same time.
_PIECES = 4
# Values that are copied at once to bring columns together.
_COPIED = 1 << 18


class Blocks:
    """The values of a table as blocks for the loops, feature by feature.

    Parameters and promises are those of `ArraySilo`.
    """

    def __init__(self, X: Array, domain: Domain, names: list[str]) -> None:
        rows, features = X.shape
        room = -(-(rows + 2 * LANES) // LANES) * LANES
        self._L_max = np.stack([domain.L_positive, domain.L_negative])
        self._values = np.zeros((features, room))
        self._sizes: Integers = np.zeros((features, 2), dtype=np.int64)
        self.count: Integers = np.zeros(features, dtype=np.int64)
        self._phi: Integers = np.zeros((features, 2), dtype=np.int64)
        scale = np.ldexp(1.0, domain.phi_grid().astype(np.int32))

        def fill(some: slice) -> int:
            outside: int = arrange(
                np.ascontiguousarray(X[:, some].T),
                domain.lower[some],
                domain.upper[some],
                scale[some],
                self._values[some],
                self._sizes[some],
                self.count[some],
                self._phi[some],
            )
            return outside

        if any(fast.in_threads(fill, _columns(X))):
            check_bounds(X, domain, names)

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return self._values.nbytes + self._sizes.nbytes + self._phi.nbytes + self.count.nbytes

    def phi_sum(self, features: Index, limbs: int) -> Limbs:
        """S_phi of the features, on the grid of their domain."""
        return wide.from_digits(np.ascontiguousarray(self._phi[features].T), 31, limbs)

    def sums(self, feature: Index, lmbda: Array, encoding: Encoding, limbs: int) -> Sums:
        """The sums of each pair of a feature and a lambda, in that many limbs."""
        skip = np.stack([encoding.positive.spare, encoding.negative.spare]) // DIGIT
        # The loops take arrays in one piece.
        features, lambdas, grid = (np.array(part) for part in (feature, lmbda, encoding.grid))
        digits = int(encoding.sum_bits.max(initial=0)) // FUSED_DIGIT + 3
        pieces, parts = self._shares(feature)
        results = np.empty((parts, 4, limbs, len(feature)), dtype=np.uint64)

        def write(piece: tuple[int, int, int]) -> None:
            part, first, last = piece
            write_sums(
                self._values,
                self._sizes,
                self._L_max,
                features,
                lambdas,
                grid,
                skip,
                digits,
                part,
                parts,
                first,
                last,
                results[part],
            )

        fast.in_threads(write, pieces)
        return Sums(*(reduce(wide.add, several) for several in zip(*results, strict=True)))

    def _shares(self, feature: Index) -> tuple[list[tuple[int, int, int]], int]:
        """Pieces of the work, as a part and some pairs, and how many parts there are.

        Each thread takes some pairs, or where they are few, a part of the blocks of all.
        """
        pairs, values = len(feature), int(self.count[feature].sum())
        threads = min(fast.threads(), values // _WORTH_A_THREAD)
        if threads < 2:
            return [(0, 0, pairs)], 1
        if pairs < _PIECES * threads:
            return [(part, 0, pairs) for part in range(threads)], threads
        cuts = np.linspace(0, pairs, _PIECES * threads + 1).astype(int)
        return [(0, a, b) for a, b in pairwise(cuts.tolist())], 1


def _columns(X: Array) -> Iterator[slice]:
    """Slices of the columns, so many values at a time."""
    rows, features = X.shape
    step = max(1, _COPIED // max(rows, 1))
    for first in range(0, features, step):
        yield slice(first, min(first + step, features))


def check() -> None:
    """Raise an error unless the loops give the bits of NumPy, on values of all kinds."""
    source = np.random.default_rng(0)
    X = source.normal(size=(700, 2)) * 10.0 ** source.integers(-9, 4, (700, 2))
    X[::50] = np.nan
    domain = Domain.from_bounds((-1e6, 1e6), 2)
    lmbda = np.repeat([-9.0, -0.5, -0.03, 0.01, 0.7, 2.0, 2.6], 2)
    feature = np.resize(np.arange(2), len(lmbda))
    encoding = choose_encoding(domain.take(feature), np.full(len(lmbda), len(X)), lmbda)
    limbs = int(encoding.limbs.max())
    found: list[list[Limbs]] = []
    for kind in (Blocks, Matrices):
        silo = kind(X, domain, ["", ""])
        found.append([*silo.sums(feature, lmbda, encoding, limbs), silo.phi_sum(feature, limbs)])
    if not np.array_equal(found[0], found[1]):
        raise ArithmeticError("on this machine their bits differ from NumPy's.")

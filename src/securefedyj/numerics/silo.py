"""What the protocol asks of a silo's data, wherever the rows are."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from securefedyj.numerics.arrays import Array, Index, Integers
from securefedyj.numerics.encoding import Encoding
from securefedyj.numerics.wide import Limbs


class Sums(NamedTuple):
    """The sums of pairs of a feature and a lambda, each on the grid of its encoding."""

    y: Limbs
    d: Limbs
    yy: Limbs
    yd: Limbs


class Silo(Protocol):
    """A silo's data, known by exact sums over its rows (docs/protocol.md, section 4)."""

    @property
    def count(self) -> Integers:
        """How many values each feature has here."""

    def phi_sum(self, features: Index, limbs: int) -> Limbs:
        """S_phi of the features, on the grid of their domain."""

    def sums(self, feature: Index, lmbda: Array, encoding: Encoding, limbs: int) -> Sums:
        """The sums of each pair of a feature and a lambda, in that many limbs."""

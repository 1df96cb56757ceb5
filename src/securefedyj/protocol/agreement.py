"""What all parties of a run agree on: public, and the same everywhere to the last bit."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from securefedyj.numerics.encoding import Domain
from securefedyj.party.messages import VERSION

ENGINES = ("replicated", "mpyc", "clear")

# 2^levels - 1 points are evaluated for every feature in an exchange.
MOST_LEVELS = 12

_KEYS = {
    "features",
    "lower",
    "upper",
    "parties",
    "committee",
    "engine",
    "max_steps",
    "levels_per_exchange",
    "minimum_values",
    "version",
}


@dataclass(frozen=True)
class Agreement:
    """The public parameters of a run. Its digest is compared before any data is touched.

    The version of the protocol stands for all its constants: grids, limits, batches.
    """

    features: tuple[str, ...]
    domain: Domain
    parties: tuple[str, ...]
    committee: tuple[str, ...]
    engine: str
    max_steps: int
    levels_per_exchange: int
    minimum_values: int = 0
    """The run stops after the counts if a feature has fewer values over all silos."""

    def to_json(self) -> dict[str, Any]:
        """A form that JSON holds without loss: Python writes the shortest exact decimals."""
        return {
            "features": list(self.features),
            "lower": self.domain.lower.tolist(),
            "upper": self.domain.upper.tolist(),
            "parties": list(self.parties),
            "committee": list(self.committee),
            "engine": self.engine,
            "max_steps": self.max_steps,
            "levels_per_exchange": self.levels_per_exchange,
            "minimum_values": self.minimum_values,
            "version": VERSION,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Agreement:
        if data["version"] != VERSION:
            raise ValueError(
                f"this is of protocol version {data['version']}, and this release speaks {VERSION}"
            )
        if set(data) != _KEYS:
            wrong = ", ".join(sorted(set(data) ^ _KEYS))
            raise ValueError(f"missing or unexpected: {wrong}")
        bounds = list(zip(data["lower"], data["upper"], strict=True))
        if len(bounds) != len(data["features"]):
            raise ValueError(f"{len(data['features'])} features, but {len(bounds)} bounds")
        if data["engine"] not in ENGINES:
            raise ValueError(f"unknown engine {data['engine']!r}")
        max_steps, levels, minimum = (
            int(data[name]) for name in ("max_steps", "levels_per_exchange", "minimum_values")
        )
        return cls(
            tuple(data["features"]),
            Domain.from_bounds(bounds, len(bounds)),
            tuple(data["parties"]),
            tuple(data["committee"]),
            data["engine"],
            max_steps,
            levels,
            minimum,
        )

    def to_bytes(self) -> bytes:
        return json.dumps(self.to_json(), sort_keys=True).encode()

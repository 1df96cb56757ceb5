"""What all parties of a run agree on: public, and the same everywhere to the last bit."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from securefedyj.plan import EXPONENT_BUDGET, PHI_PRECISION, PRECISION, Domain


@dataclass(frozen=True)
class Agreement:
    """The public parameters of a run. Its digest is compared before any data is touched."""

    features: tuple[str, ...]
    domain: Domain
    parties: tuple[str, ...]
    committee: tuple[str, ...]
    engine: str
    max_steps: int
    levels_per_exchange: int

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
            "precision": [PRECISION, PHI_PRECISION, EXPONENT_BUDGET],
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Agreement:
        precision = [PRECISION, PHI_PRECISION, EXPONENT_BUDGET]
        if data["precision"] != precision:
            raise ValueError(
                f"this run used precision {data['precision']}, this version uses {precision}"
            )
        bounds = list(zip(data["lower"], data["upper"], strict=True))
        return cls(
            tuple(data["features"]),
            Domain.from_bounds(bounds, len(bounds)),
            tuple(data["parties"]),
            tuple(data["committee"]),
            data["engine"],
            data["max_steps"],
            data["levels_per_exchange"],
        )

    def to_bytes(self) -> bytes:
        return json.dumps(self.to_json(), sort_keys=True).encode()

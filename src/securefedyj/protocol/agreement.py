"""What all parties of a run agree on: public, and the same everywhere to the last bit.

docs/protocol.md, section 2.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from securefedyj.engines.registry import facts_of
from securefedyj.numerics.encoding import Domain
from securefedyj.party.messages import VERSION
from securefedyj.printable import shown
from securefedyj.strict import NUMBER, Malformed, check_fields, check_items

MOST_LEVELS = 8
"""The most levels per exchange. A level is one step of the search, and each doubles the work of an
exchange: 2^levels - 1 points are evaluated for every feature."""

MOST_STEPS = 200
"""The most steps of a search; float64 has no use for more."""

_FIELDS = {
    "features": list,
    "lower": list,
    "upper": list,
    "parties": list,
    "committee": list,
    "engine": str,
    "max_steps": int,
    "levels_per_exchange": int,
    "minimum_values": int,
    "version": int,
}
_NAMES = ("features", "parties", "committee")


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
    """How many levels, or steps of the search, share an exchange."""
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
    def from_json(cls, data: Any) -> Agreement:
        """Read what `to_json` gives; raises ValueError for anything else."""
        # Another version may well have other fields: its number says more than their names.
        if isinstance(data, dict) and data.get("version", VERSION) != VERSION:
            raise Malformed(
                f"this is of protocol version {shown(data['version'])}, and this release speaks "
                f"{VERSION}"
            )
        check_fields(data, _FIELDS, "the agreement")
        features, parties, committee = (
            tuple(check_items(data[name], str, name)) for name in _NAMES
        )
        lower, upper = (check_items(data[name], NUMBER, name) for name in ("lower", "upper"))
        if not len(features) == len(lower) == len(upper):
            raise Malformed(
                f"{len(features)} features, but {len(lower)} lower and {len(upper)} upper bounds"
            )
        facts_of(data["engine"])  # refuses an unknown one
        for name, most in (("max_steps", MOST_STEPS), ("levels_per_exchange", MOST_LEVELS)):
            if not 1 <= data[name] <= most:
                raise Malformed(f"{name} must be 1 to {most}, not {shown(data[name])}")
        return cls(
            features,
            Domain.from_bounds(list(zip(lower, upper, strict=True)), len(features)),
            parties,
            committee,
            data["engine"],
            data["max_steps"],
            data["levels_per_exchange"],
            data["minimum_values"],
        )

    def to_bytes(self) -> bytes:
        return json.dumps(self.to_json(), sort_keys=True).encode()

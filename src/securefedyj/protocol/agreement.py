"""What all parties of a run agree on: public, and the same everywhere to the last bit.

docs/protocol.md, section 2.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from securefedyj.engines.registry import Facts, facts_of
from securefedyj.numerics.encoding import Domain
from securefedyj.party.messages import VERSION
from securefedyj.printable import shown
from securefedyj.strict import NUMBER, Malformed, check_fields, check_items

MOST_LEVELS = 8
"""The most levels per exchange. A level is one step of the search, and each doubles the work of an
exchange: 2^levels - 1 points are evaluated for every feature."""

MOST_STEPS = 200
"""The most steps of the search: with fewer, float64 has no number left between the bounds."""

FEWEST_BITS, MOST_BITS = 8, 44
"""Of mean and variance that may be agreed on (`Agreement.result_bits`)."""

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
    "result_bits": int,
    "helpers": list,
    "verified": bool,
    "version": int,
}
READABLE = (3, VERSION)
"""The versions of the protocol whose transcripts can be audited. Runs are of the last one."""
_NAMES = ("features", "parties", "committee", "helpers")
_RANGES = {
    "max_steps": (1, MOST_STEPS),
    "levels_per_exchange": (1, MOST_LEVELS),
    "minimum_values": (0, 2**62),
    "result_bits": (FEWEST_BITS, MOST_BITS),
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
    """How many levels, or steps of the search, share an exchange."""
    minimum_values: int = 0
    """The run stops after the counts if a feature has fewer values over all silos."""
    result_bits: int = MOST_BITS
    """Mean and variance are opened to about 2^-result_bits of the standard deviation."""
    helpers: tuple[str, ...] = ()
    """Parties that compute and have no data."""
    verified: bool = False
    """Whether the result is opened in a verified exchange only."""
    version: int = VERSION
    """Of the protocol."""

    @property
    def silos(self) -> tuple[str, ...]:
        """The parties with data."""
        return tuple(name for name in self.parties if name not in self.helpers)

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
            "result_bits": self.result_bits,
            "helpers": list(self.helpers),
            "verified": self.verified,
            "version": self.version,
        }

    @classmethod
    def from_json(cls, data: Any) -> Agreement:
        """Read what `to_json` gives; raises ValueError for anything else."""
        # Another version may well have other fields: its number says more than their names.
        if isinstance(data, dict) and data.get("version", VERSION) not in READABLE:
            raise Malformed(
                f"this is of protocol version {shown(data['version'])}, and this release reads "
                f"versions {READABLE[0]} to {READABLE[-1]}"
            )
        check_fields(data, _FIELDS, "the agreement")
        features, parties, committee, helpers = (
            tuple(check_items(data[name], str, name)) for name in _NAMES
        )
        lower, upper = (check_items(data[name], NUMBER, name) for name in ("lower", "upper"))
        if not len(features) == len(lower) == len(upper):
            raise Malformed(
                f"{len(features)} features, but {len(lower)} lower and {len(upper)} upper bounds"
            )
        agreement = cls(
            features,
            Domain.from_bounds(list(zip(lower, upper, strict=True)), len(features)),
            parties,
            committee,
            data["engine"],
            data["max_steps"],
            data["levels_per_exchange"],
            data["minimum_values"],
            data["result_bits"],
            helpers,
            data["verified"],
            data["version"],
        )
        agreement.check()
        return agreement

    def check(self) -> None:
        """Refuse what no run can work with; raises ValueError."""
        for name, (least, most) in _RANGES.items():
            if not least <= (value := getattr(self, name)) <= most:
                raise Malformed(f"{name} must be from {least} to {most}, not {value!r}")
        self.domain.check_usable(self.features)
        facts = facts_of(self.engine)
        if self.verified and not facts.verifies:
            raise Malformed(
                f"engine {facts.name!r} cannot verify a result: agree on engine 'replicated', or "
                "on verified = false"
            )
        _check_roles(facts, self.parties, self.committee, self.helpers)

    def to_bytes(self) -> bytes:
        return json.dumps(self.to_json(), sort_keys=True).encode()


def _check_roles(
    facts: Facts, parties: Sequence[str], committee: Sequence[str], helpers: Sequence[str]
) -> None:
    """Who takes part, who computes and who has no data must fit together."""
    for what, names in (("parties", parties), ("committee", committee), ("helpers", helpers)):
        if len(set(names)) < len(names):
            raise Malformed(f"{what} has a name more than once")
    for what, names in (("committee", committee), ("helpers", helpers)):
        if strangers := set(names) - set(parties):
            raise Malformed(f"{what}: {min(strangers)!r} is not one of the parties")
    if len(committee) != len(facts.committee_of(parties)):
        size = len(facts.committee_of(parties))
        raise Malformed(
            f"the committee of engine {facts.name!r} has {size} members, not {len(committee)}"
        )
    if len(helpers) == len(parties):
        raise Malformed("all parties are helpers: nobody has data")

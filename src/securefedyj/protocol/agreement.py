"""What all parties of a run agree on: public, and the same everywhere to the last bit.

docs/protocol.md, section 2.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, TypeVar, get_type_hints

import numpy as np
from msgspec import Meta, defstruct
from msgspec.structs import asdict

from securefedyj.engines.registry import facts_of
from securefedyj.errors import InputError
from securefedyj.numerics.arrays import Array, Bools, Index
from securefedyj.numerics.encoding import LOGARITHM, RATIO, Domain
from securefedyj.numerics.grid import MOST_DIGITS, MOST_POINTS, points_of
from securefedyj.party.messages import VERSION
from securefedyj.printable import printable, shown
from securefedyj.protocol.methods import DEFAULT, METHODS, Methods, Questions, check_methods
from securefedyj.strict import Finite, Malformed, Record, convert

T = TypeVar("T")

MOST_LEVELS = 8
"""The most levels per exchange. A level is one step of the search, and each doubles the work of an
exchange: 2^levels - 1 points are evaluated for every feature."""

MOST_STEPS = 200
"""The most steps of the search: with fewer, float64 has no number left between the bounds."""

FEWEST_BITS, MOST_BITS = 8, 44
"""The bounds of `Agreement.result_bits`."""

ENGINE = "replicated"
"""The engine unless the agreed file names another."""

READABLE = (3, VERSION)
"""Versions of the protocol whose transcripts can be audited. Runs use the last one."""

# In the order of the header of a transcript, whose digest depends on it.
_KEYS = ("features", "lower", "upper", "parties", "committee", "engine", "max_steps",
         "levels_per_exchange", "minimum_values", "result_bits", "helpers", "verified",
         "version", "methods", "resolution", "digits", "rounded", "submitted",
         "claimed_points")  # fmt: skip
# Only where they are not what they are by default, so that agreements keep their digests.
_OPTIONAL = ("methods", "resolution", "digits", "rounded", "submitted", "claimed_points")
MOST_SUBMISSIONS = 255
"""Of a submitted run: the sums of their shares fit into 192 bits."""
# Besides the methods.
_OF_FEATURES = ("resolution", "digits", "rounded")
_LONGEST_LIST = 500  # characters of the names of all parties, in a sentence


@dataclass(frozen=True, kw_only=True)
class ProtocolParameters:
    """What both the agreed file and the agreement of a run contain, with its bounds."""

    committee: tuple[str, ...]
    """The parties that compute."""
    engine: str = ENGINE
    max_steps: Annotated[int, Meta(ge=1, le=MOST_STEPS)] = 30
    """Of the search for lambda."""
    result_bits: Annotated[int, Meta(ge=FEWEST_BITS, le=MOST_BITS)] = 24
    """Mean and variance are opened to about 2^-result_bits of the standard deviation."""
    levels_per_exchange: Annotated[int, Meta(ge=1, le=MOST_LEVELS)] = 4
    """How many levels, or steps of the search, share an exchange."""
    minimum_values: Annotated[int, Meta(ge=0, le=2**31)] = 30
    """The run stops after the counts if a feature has fewer values over all silos."""
    verified: bool = True
    """Whether the result is opened in a verified exchange only."""
    submitted: bool = False
    """Whether silos submit the features with a resolution or digits once (section 13)."""
    claimed_points: Annotated[int, Meta(ge=0, le=MOST_POINTS)] = 4096
    """Features with no more points than this: that none of their totals is negative is verified."""


@dataclass(frozen=True, kw_only=True)
class Agreement(ProtocolParameters):
    """The public parameters of a run. Its digest is compared before any data is touched.

    The version of the protocol fixes all its constants: grids, limits, batches.
    """

    features: tuple[str, ...]
    domain: Domain
    """The bounds of each feature."""
    methods: tuple[Methods, ...] = ()
    """Of each feature; by default yeo-johnson alone."""
    resolution: tuple[str, ...] = ()
    """The distance of points, as a decimal number; "" for quantiles among 2^24 steps."""
    digits: tuple[Annotated[int, Meta(ge=0, le=MOST_DIGITS)], ...] = ()
    """Of each feature's points, how many are significant; 0 for all."""
    rounded: tuple[bool, ...] = ()
    """Whether a silo takes the point next to each value; otherwise another value is an error."""
    parties: tuple[str, ...]
    helpers: tuple[str, ...] = ()
    """Parties that compute and have no data."""
    version: int = VERSION
    """Of the protocol."""

    @property
    def silos(self) -> tuple[str, ...]:
        """The parties with data."""
        return tuple(name for name in self.parties if name not in self.helpers)

    @cached_property
    def asked(self) -> Questions:
        methods = self.methods or (DEFAULT,) * len(self.features)
        return Questions.of(self.domain, methods, self.resolution)

    @cached_property
    def points(self) -> tuple[Array, ...]:
        """All values that each submitted feature can have; none of a live one."""
        found = []
        for j, (name, given) in enumerate(zip(self.features, self.given.tolist(), strict=True)):
            ends = float(self.domain.lower[j]), float(self.domain.upper[j])
            own = _at(self.resolution, j, ""), _at(self.digits, j, 0)
            found.append(points_of(*ends, *own, name) if given else np.empty(0))
        return tuple(found)

    @cached_property
    def given(self) -> Bools:
        """Which features are submitted."""
        size = range(len(self.features))
        known = [bool(_at(self.resolution, j, "") or _at(self.digits, j, 0)) for j in size]
        return np.array(known, dtype=bool) & self.submitted

    @property
    def questions_given(self) -> Bools:
        """Which questions are about submitted features."""
        given: Bools = self.given[self.asked.column]
        return given

    @property
    def online(self) -> tuple[str, ...]:
        """The parties that connect: the committee alone, if nothing is asked of rows."""
        return self.committee if self.submitted and self.given.all() else self.parties

    @cached_property
    def questions(self) -> list[str]:
        """The names of the questions."""
        return [f"feature {self.features[q.column]!r}{q.what}" for q in self.asked.all]

    def about(self, questions: Sequence[int] | Index) -> Agreement:
        """The same about some of the questions, each of them about a feature of its own."""
        names = {scale: method for method, scale in METHODS.items()}
        asked = [self.asked.all[i] for i in questions]
        column = np.array([q.column for q in asked], dtype=np.intp)
        methods = tuple({names[q.scale]: (q.quantile,) if q.quantile else ()} for q in asked)
        features = tuple(map(str, range(len(asked))))
        bounds = np.array([self.domain.lower, self.domain.upper]).T[column]
        per_feature: dict[str, Any] = {
            name: tuple(values[j] for j in column)
            for name in _OF_FEATURES
            if (values := getattr(self, name))
        }
        domain = bounds_of(bounds, features, methods)
        submitted = bool(self.given[column].any())
        return replace(
            self, features=features, domain=domain, methods=methods, submitted=submitted,
            **per_feature,
        )  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """A form that JSON holds without loss: Python writes the shortest exact decimals."""
        bounds = {"lower": self.domain.lower.tolist(), "upper": self.domain.upper.tolist()}
        values = {key: bounds[key] if key in bounds else getattr(self, key) for key in _KEYS}
        if all(methods == DEFAULT for methods in self.methods):
            del values["methods"]
        else:
            values["methods"] = [
                {name: list(own[name]) for name in METHODS if name in own} for own in self.methods
            ]
        for name in _OF_FEATURES:
            if not any(values[name]):
                del values[name]
        if not self.submitted:
            del values["submitted"], values["claimed_points"]
        return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}

    @classmethod
    def from_json(cls, data: Any) -> Agreement:
        """Read what `to_json` gives; raises ValueError for anything else."""
        data = convert(data, dict[str, Any], "the agreement")
        # Another version may have other fields: its number says more than their names.
        if data.get("version", VERSION) not in READABLE:
            raise Malformed(
                f"this is of protocol version {shown(data['version'])}, and this release reads "
                f"versions {READABLE[0]} to {READABLE[-1]}"
            )
        values = asdict(convert(data, _InFile, "the agreement"))
        features, lower, upper = (values["features"], values.pop("lower"), values.pop("upper"))
        if not len(features) == len(lower) == len(upper):
            raise Malformed(
                f"the agreement has {len(features)} features, but {len(lower)} lower and "
                f"{len(upper)} upper bounds"
            )
        pairs = list(zip(lower, upper, strict=True))
        domain = bounds_of(pairs, features, values["methods"])
        agreement = cls(domain=domain, **values)
        agreement.check()
        return agreement

    def check(self) -> None:
        """Refuse what no run can work with; raises InputError."""
        check_values(self, ProtocolParameters)
        self._check_methods()
        column, domain = self.asked.column, self.asked.domain
        domain.check_usable([self.features[j] for j in column.tolist()])
        for what, names in (("party", self.parties), ("helper", self.helpers)):
            refuse_twice(what, names)
        facts = facts_of(self.engine)
        if self.verified and not facts.verifies:
            raise InputError(
                "SFY-CON-009",
                f"engine {facts.name!r} cannot verify a result: agree on verified = false (option "
                "--unverified), or on engine 'replicated'.",
            )
        self._check_committee(len(facts.committee_of(self.parties)))
        if strangers := set(self.helpers) - set(self.parties):
            raise InputError("SFY-CON-031", f"the helper {shown(min(strangers))} is not a party.")
        if self.submitted:
            self._check_submitted()
        if not self.silos:
            raise InputError("SFY-CON-005", 'no party has the role "silo": nobody has data.')

    def _check_methods(self) -> None:
        size = len(self.features)
        for what in ("methods", *_OF_FEATURES):
            if len(values := getattr(self, what)) not in (0, size):
                raise InputError(
                    "SFY-CON-036", f"there are {len(values)} {what} for {size} features."
                )
        columns = (self.methods or (DEFAULT,) * size, self.resolution or ("",) * size)
        for own in zip(self.features, *columns, self.domain.lower.tolist(), strict=True):
            check_methods(*own)

    def _check_submitted(self) -> None:
        if not self.verified or not self.given.any() or len(self.silos) > MOST_SUBMISSIONS:
            raise InputError(
                "SFY-CON-041",
                "a submitted run is verified, has a feature with a resolution or digits, and at "
                f"most {MOST_SUBMISSIONS} silos.",
            )
        self.points  # noqa: B018, refuses what is wrong

    def _check_committee(self, size: int) -> None:
        committee = shown(list(self.committee))
        parties = printable(", ".join(self.parties), _LONGEST_LIST)
        if facts_of(self.engine).committee_size is None:
            if self.committee != self.parties:
                raise InputError(
                    "SFY-CON-017",
                    f"the committee is {committee}; with engine {self.engine!r} all parties "
                    f"compute, in their order: {parties}.",
                )
        elif len(self.committee) != size or len(set(self.committee) & set(self.parties)) != size:
            raise InputError(
                "SFY-CON-010",
                f"the committee is {committee}; it must be {size} distinct parties of {parties}.",
            )

    def to_bytes(self) -> bytes:
        return json.dumps(self.to_json(), sort_keys=True).encode()


_TYPES = get_type_hints(Agreement, include_extras=True) | dict.fromkeys(
    ("lower", "upper"), tuple[Finite, ...]
)
_InFile = defstruct(
    "_InFile",
    [
        (key, _TYPES[key], getattr(Agreement, key)) if key in _OPTIONAL else (key, _TYPES[key])
        for key in _KEYS
    ],
    bases=(Record,),
    frozen=True,
)


def _at(values: tuple[T, ...], j: int, default: T) -> T:
    """What was agreed on for one feature."""
    return values[j] if values else default


def bounds_of(bounds: Any, features: tuple[str, ...], methods: tuple[Methods, ...] = ()) -> Domain:
    """The bounds of features, for `Agreement.domain`: one pair for all, or one for each."""
    alone = [tuple(own) == ("box-cox",) for own in methods or [DEFAULT] * len(features)]
    return Domain.from_bounds(bounds, len(features), [RATIO if a else LOGARITHM for a in alone])


def check_values(record: Any, kind: type) -> None:
    """Refuse values that the own annotations of a dataclass do not admit."""
    hints = get_type_hints(kind, include_extras=True)
    for name in kind.__annotations__:
        try:
            convert(getattr(record, name), hints[name], name)
        except Malformed as error:
            raise InputError("SFY-CON-001", f"{error}.") from None


def refuse_twice(what: str, names: tuple[str, ...]) -> None:
    """Refuse names that are not distinct."""
    for name, times in Counter(names).items():
        if times > 1:
            raise InputError(
                "SFY-CON-016",
                f"there is more than one {what} named {shown(name)}; names must be distinct.",
            )

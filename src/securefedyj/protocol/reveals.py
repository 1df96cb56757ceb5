"""What a run reveals, and the line of transcript.jsonl for each kind (docs/protocol.md, section 7).

A run opens the number of values of each feature and whether they vary, the signs of the search,
whether all of that was verified, if agreed, and mean and variance at the end. Nothing else. One
reveal is one opening, which all parties make in a round of its own.

The annotations of a class are its only declaration: reading, writing and bounds follow from them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Annotated, Any, NamedTuple, TypeAlias, TypeVar, get_args, get_type_hints

import msgspec
import numpy as np
from msgspec import Meta

from securefedyj.numerics.arrays import Array, Bools, Index, Integers, Signs
from securefedyj.printable import shown
from securefedyj.strict import Finite, Malformed, Record, convert

# The magnitude of V is revealed in steps of this many bits.
MAGNITUDE_STEP = 8

MOST_MAGNITUDE = 1024
"""The widest number of the protocol has far fewer bits; `Schedule` knows those of a feature."""

Magnitude: TypeAlias = Annotated[Integers, Meta(ge=0, le=MOST_MAGNITUDE)]


class Counts(NamedTuple):
    """n of each feature: the number of values that all silos have together."""

    features: Index
    n: Integers


class Variation(NamedTuple):
    """Whether a feature has two distinct values at all, over all silos, on its grid."""

    features: Index
    varies: Bools


class Step(NamedTuple):
    """One step of the search: the sign of the score of each feature at its lambda."""

    step: int
    features: Index
    lmbda: Array
    delta: Signs


class Verdict(NamedTuple):
    """Whether all that was revealed before about a batch holds for the sums of all silos.

    In verified runs only. If it does not hold, nothing else is revealed. It is part of `Final`; up
    to version 3 of the protocol it was an opening of its own, before magnitudes and moments.
    """

    features: Index
    holds: bool


class Magnitudes(NamedTuple):
    """The magnitude of V = n S_yy - S_y^2 at lambda*, as an integer on the grid of the encoding.

    V lies in [2^(8 magnitude), 2^(8 magnitude + 8)), or below 256 where the magnitude is 0.
    """

    features: Index
    magnitude: Magnitude


class Moments(NamedTuple):
    """V and S_y at lambda* without their lowest bits (see `lowest_opened`)."""

    features: Index
    V: list[int]
    S_y: list[int]


class Final(NamedTuple):
    """The verdict of a batch and, if it holds, magnitudes and moments: the end of a verified run.

    One opening, so that nobody sees a part of it and can still change the rest. A feature without
    values has zeros, and so has every feature if the verdict does not hold.
    """

    features: Index
    holds: bool
    magnitude: Magnitude
    V: list[int]
    S_y: list[int]

    def parts(self, counts: Integers) -> Iterator[Verdict | Magnitudes | Moments]:
        """The same as separate reveals, given n of all features of the run."""
        yield Verdict(self.features, self.holds)
        some = np.flatnonzero(counts[self.features] > 0)
        if self.holds and len(some):
            features = self.features[some]
            yield Magnitudes(features, self.magnitude[some])
            yield Moments(features, [self.V[j] for j in some], [self.S_y[j] for j in some])


T = TypeVar("T")
Reveal = Counts | Variation | Step | Verdict | Magnitudes | Moments | Final
KINDS: dict[str, type[Reveal]] = {
    kind.__name__.lower(): kind
    for kind in (Counts, Variation, Step, Verdict, Magnitudes, Moments, Final)
}
"""The kinds of reveals, by their names in the file."""


def lowest_opened(magnitude: Integers, result_bits: int) -> tuple[Integers, Integers]:
    """The lowest bits of V and of S_y that are opened, by the magnitude of V (section 6.4).

    From V >= 2^(8 magnitude) follows sqrt(V) >= 2^(4 magnitude), which is n times the standard
    deviation: S_y is opened down to ``result_bits`` below that, and V to ``result_bits`` + 8 bits
    in all.
    """
    return (
        np.maximum(MAGNITUDE_STEP * magnitude - result_bits, 0),
        np.maximum(MAGNITUDE_STEP * magnitude // 2 - result_bits, 0),
    )


# The lines of the file.


def to_line(reveal: Reveal) -> dict[str, Any]:
    """The line of a reveal, as an object."""
    return {"reveal": type(reveal).__name__.lower(), **to_object(reveal)}


def read_reveal(line: Any, n_features: int) -> Reveal:
    """Read what `to_line` gives; raises Malformed for anything else.

    Whether a run reveals this at all, and when, is for the `Schedule` to say.
    """
    name = line.get("reveal") if isinstance(line, dict) else line
    if name not in tuple(KINDS):
        raise Malformed(f"unknown reveal {shown(name)}")
    reveal = from_object(KINDS[name], line, name)
    if np.any((reveal.features < 0) | (reveal.features >= n_features)):
        raise Malformed("a feature that was not agreed on")
    if any(isinstance(v, list) and len(v) != len(reveal.features) for v in line.values()):
        raise Malformed("lists of different lengths")
    if len(reveal.features) > n_features:
        raise Malformed("more features than were agreed on")
    return reveal


def to_object(values: Any) -> dict[str, Any]:
    """A named tuple as a JSON object, with the fields of a tuple inside it among its own."""
    found: dict[str, Any] = {}
    for name, value in values._asdict().items():
        if hasattr(value, "_asdict"):
            found |= to_object(value)
        elif isinstance(value, np.ndarray):
            found[name] = value.tolist()
        else:
            found[name] = [hex(v) for v in value] if isinstance(value, list) else value
    return found


def from_object(kind: type[T], data: Any, where: str) -> T:
    """Read what `to_object` gives, or the line of a reveal; raises Malformed for anything else."""
    made: T = _from_record(kind, convert(data, _record(kind), where))  # type: ignore[arg-type]
    return made


def _whole(dtype: Any) -> Any:
    limits = np.iinfo(dtype)
    return Annotated[int, Meta(ge=int(limits.min), le=int(limits.max))]


# By the annotation of a field: what its list holds in the file, and what that becomes.
_LISTS: dict[Any, tuple[Any, Any]] = {
    Index: (_whole(np.intp), np.intp),
    Integers: (_whole(np.int64), np.int64),
    Signs: (_whole(np.int8), np.int8),
    Bools: (bool, np.bool_),
    Array: (Finite, np.float64),
    Magnitude: (Annotated[int, *get_args(Magnitude)[1:]], np.int64),
    # Integers of any size, as `hex` writes them.
    list[int]: (Annotated[str, Meta(pattern=r"\A(0x0|-?0x[1-9a-f][0-9a-f]{0,2047})\Z")], None),
}


@cache
def _annotations(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


@cache
def _record(kind: Any) -> type[msgspec.Struct]:
    """The record that a named tuple is in the file."""
    tag: dict[str, Any] = {}
    if kind in KINDS.values():
        tag = {"tag_field": "reveal", "tag": kind.__name__.lower()}
    return msgspec.defstruct(kind.__name__, _fields(kind), bases=(Record,), frozen=True, **tag)


def _fields(kind: Any) -> Iterator[tuple[str, Any]]:
    for name, annotation in _annotations(kind).items():
        if hasattr(annotation, "_fields"):
            yield from _fields(annotation)
        elif annotation in _LISTS:
            yield name, list[_LISTS[annotation][0]]  # type: ignore[misc]
        else:
            yield name, annotation


def _from_record(kind: Any, record: msgspec.Struct) -> Any:
    values: dict[str, Any] = {}
    for name, annotation in _annotations(kind).items():
        if hasattr(annotation, "_fields"):
            values[name] = _from_record(annotation, record)
        elif annotation == list[int]:
            values[name] = [int(text, 16) for text in getattr(record, name)]
        elif annotation in _LISTS:
            values[name] = np.array(getattr(record, name), dtype=_LISTS[annotation][1])
        else:
            values[name] = getattr(record, name)
    return kind(**values)

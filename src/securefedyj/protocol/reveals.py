"""What a run reveals, and the line of transcript.jsonl for each kind (docs/protocol.md, section 7).

A run opens the number of values of each feature and whether they vary, the signs of the search,
whether all of that was verified, if agreed, and mean and variance at the end. A submitted run also
names what was submitted, and opens whether rows can have such counts. Nothing else. One reveal is
one opening, which all parties make in a round of its own.

The annotations of a class are its only declaration: reading, writing and bounds follow from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
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

Digest: TypeAlias = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
Magnitude: TypeAlias = Annotated[Integers, Meta(ge=0, le=MOST_MAGNITUDE)]


class Headers(NamedTuple):
    """What a submitted run computes with, by the digest of the headers of all submissions."""

    features: Index
    """All that are submitted."""
    digest: Digest


class Counts(NamedTuple):
    """n of each feature: the number of values that all silos have together."""

    features: Index
    n: Integers


class Possible(NamedTuple):
    """Whether no total of the submitted counts of some features is negative.

    If it is, nothing else is revealed.
    """

    features: Index
    """The first question about each feature."""
    holds: bool


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

    A feature without values has zeros, and so has every feature if the verdict does not hold.
    """

    features: Index
    holds: bool
    magnitude: Magnitude
    V: list[int]
    S_y: list[int]

    def parts(self, measured: Bools) -> Iterator[Verdict | Magnitudes | Moments]:
        """The same as separate reveals, given which questions of the run have moments."""
        yield Verdict(self.features, self.holds)
        some = np.flatnonzero(measured[self.features])
        if self.holds and len(some):
            features = self.features[some]
            yield Magnitudes(features, self.magnitude[some])
            yield Moments(features, [self.V[j] for j in some], [self.S_y[j] for j in some])


T = TypeVar("T")
Reveal = Headers | Counts | Possible | Variation | Step | Verdict | Magnitudes | Moments | Final
KINDS: dict[str, type[Reveal]] = {kind.__name__.lower(): kind for kind in get_args(Reveal)}
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
    """A named tuple as a JSON object."""
    found = values._asdict()
    for name, value in found.items():
        if isinstance(value, np.ndarray):
            found[name] = value.tolist()
        elif isinstance(value, list):
            found[name] = [hex(v) for v in value]
    return found  # type: ignore[no-any-return]


def from_object(kind: type[T], data: Any, where: str) -> T:
    """Read what `to_object` gives, or the line of a reveal; raises Malformed for anything else."""
    record = convert(data, _record(kind), where)  # type: ignore[arg-type]
    values = {name: getattr(record, name) for name in record.__struct_fields__}
    for name, annotation in get_type_hints(kind, include_extras=True).items():
        if annotation in _LISTS:
            values[name] = _LISTS[annotation][1](values[name])
    return kind(**values)


@cache
def _record(kind: Any) -> type[msgspec.Struct]:
    """The record that a named tuple is in the file, by its annotations."""
    fields: list[tuple[str, Any]] = []
    for name, annotation in get_type_hints(kind, include_extras=True).items():
        item: Any = _LISTS.get(annotation, (None,))[0]
        fields.append((name, annotation if item is None else list[item]))
    tag: dict[str, Any] = {}
    if kind in KINDS.values():
        tag = {"tag_field": "reveal", "tag": kind.__name__.lower()}
    return msgspec.defstruct(kind.__name__, fields, bases=(Record,), frozen=True, **tag)


def _whole(dtype: Any) -> tuple[Any, Any]:
    limits = np.iinfo(dtype)
    bounds = Meta(ge=int(limits.min), le=int(limits.max))
    return Annotated[int, bounds], partial(np.array, dtype=dtype)


# By the annotation of a field: what its list holds in the file, and how it is read.
_LISTS: dict[Any, tuple[Any, Callable[[list[Any]], Any]]] = {
    Index: _whole(np.intp),
    Integers: _whole(np.int64),
    Signs: _whole(np.int8),
    Bools: (bool, partial(np.array, dtype=bool)),
    Array: (Finite, partial(np.array, dtype=np.float64)),
    Magnitude: (Annotated[int, *get_args(Magnitude)[1:]], partial(np.array, dtype=np.int64)),
    # Integers of any size, as `hex` writes them.
    list[int]: (
        Annotated[str, Meta(pattern=r"\A(0x0|-?0x[1-9a-f][0-9a-f]{0,2047})\Z")],
        lambda texts: [int(text, 16) for text in texts],
    ),
}

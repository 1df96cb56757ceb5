"""The transcript of a run: what was revealed, in order, and the result that follows from it.

docs/protocol.md, section 7, describes the file. The result is computed from the reveals alone
(`result.py`), and the audit recomputes the reveals from the result (`audit.py`).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from securefedyj.errors import InputError, code_of
from securefedyj.files import TooLarge, lines_within, write_atomically
from securefedyj.numerics.resolution import Certainty
from securefedyj.numerics.yeojohnson import Standardization
from securefedyj.printable import shown
from securefedyj.protocol.agreement import Agreement
from securefedyj.protocol.audit import Audit, audit
from securefedyj.protocol.result import Result, certainty_of, compute_result
from securefedyj.protocol.reveals import (
    KINDS,
    Counts,
    Final,
    Magnitudes,
    Moments,
    Reveal,
    Revealed,
    Step,
    Variation,
    Verdict,
)
from securefedyj.strict import MOST_BYTES as MOST_IN_LINE
from securefedyj.strict import NUMBER, Malformed, check_fields, check_items, parse

__all__ = [
    "Counts",
    "Magnitudes",
    "Moments",
    "Origin",
    "Reveal",
    "Step",
    "Transcript",
    "TranscriptError",
    "Variation",
    "Verdict",
    "read_reveal",
    "to_line",
]

FORMAT = 2
MOST_BYTES = 1 << 26
"""Of the file; 20,000 features and 40 steps take some 27 MB."""
MOST_LINES = 20_000
"""Of the file; 20,000 features in batches of 1028, and 200 steps, take some 4,000."""


class TranscriptError(InputError):
    """A transcript that cannot be read, or that holds something the protocol does not reveal."""


class Origin(NamedTuple):
    """The consortium of a run; all its parties know it by the same agreed file."""

    name: str
    digest: str
    """Of the agreed file, as `securefedyj check` shows it: of its canonical form."""

    @classmethod
    def from_json(cls, data: Any) -> Origin:
        """Read what `_asdict` gives; raises Malformed for anything else."""
        return cls(**check_fields(data, dict.fromkeys(cls._fields, str), "consortium"))


@dataclass
class Transcript(Revealed):
    """Everything that one run revealed, to all parties alike."""

    result: Result | None = None
    origin: Origin | None = None
    """None of a run on one machine."""
    _chain: list[tuple[Agreement | Reveal, bytes]] = field(
        default_factory=list, init=False, repr=False, compare=False
    )

    def concluded(self) -> Transcript:
        """Itself, with the result that follows from the reveals of a whole run."""
        self.result = self.compute_result()
        return self

    def compute_result(self) -> Result:
        """The fit, from what was revealed and nothing else."""
        return compute_result(self)

    def certainty(self) -> Certainty:
        """Of each feature, why lambda is not certain where `Result.converged` is false."""
        return certainty_of(self, self.result or self.compute_result())

    def audit(self) -> Audit:
        """Recompute from the result what was revealed on the way to it."""
        return audit(self, self.result)

    def write(self, path: Path | str) -> None:
        """Write the transcript as JSON lines: the agreement, the reveals in order, the result."""
        write_atomically(path, self.to_text().encode())

    @classmethod
    def read(cls, path: Path | str) -> Transcript:
        """Read what `write` wrote; raises TranscriptError for anything else."""
        try:
            return cls.from_lines(_parsed(lines_within(path, MOST_BYTES, MOST_IN_LINE)))
        except (Malformed, TooLarge) as error:
            raise TranscriptError(
                code_of(error, "SFY-RUN-010"),
                f"this is not a file of JSON lines, such as a transcript.jsonl: {error}",
            ) from None

    def to_text(self) -> str:
        """The content of the file transcript.jsonl."""
        return "".join(json.dumps(line) + "\n" for line in self.to_lines())

    def to_lines(self) -> Iterator[dict[str, Any]]:
        """The lines of the file, as objects."""
        named = {} if self.origin is None else {"consortium": self.origin._asdict()}
        yield self._header() | named
        for reveal in self.reveals:
            yield to_line(reveal)
        if self.result is not None:
            yield {"result": _plain(self.result)}

    def digest(self, length: int | None = None) -> bytes:
        """The hash of the agreement and the first reveals, or all of them, without the result.

        A chain (docs/protocol.md, section 7.2): with the first line of the file, but for the
        consortium, and those of the reveals, h_0 = SHA-256(first line), and
        h_{i+1} = SHA-256(h_i + line of reveal i).
        """
        length = len(self.reveals) if length is None else length
        if not 0 <= length <= len(self.reveals):
            raise InputError("SFY-RUN-007", f"there are {len(self.reveals)} reveals, not {length}")
        # What was hashed before is hashed anew only if something else has taken its place.
        chain, things = self._chain, [self.agreement, *self.reveals[:length]]
        known = zip(chain, things, strict=False)
        changed = next((i for i, ((old, _), new) in enumerate(known) if old is not new), None)
        if changed is not None:
            del chain[changed:]
        for thing in things[len(chain) :]:
            line = self._header() if isinstance(thing, Agreement) else to_line(thing)
            before = chain[-1][1] if chain else b""
            chain.append((thing, hashlib.sha256(before + json.dumps(line).encode()).digest()))
        return chain[length][1]

    def _header(self) -> dict[str, Any]:
        return {"transcript": FORMAT, "agreement": self.agreement.to_json()}

    @classmethod
    def from_lines(cls, lines: Iterable[dict[str, Any]]) -> Transcript:
        """Read what `to_lines` gives; raises TranscriptError for anything else."""
        rest = iter(lines)
        first = next(rest, None)
        if not isinstance(first, dict) or first.get("transcript") != FORMAT:
            raise TranscriptError("SFY-RUN-008", f"this is not a transcript of format {FORMAT}")
        try:
            fields = {"transcript": int, "agreement": dict}
            origin = None
            if "consortium" in first:
                fields["consortium"] = dict
                origin = Origin.from_json(first["consortium"])
            header = check_fields(first, fields, "it")
            transcript = cls(Agreement.from_json(header["agreement"]), origin=origin)
        except ValueError as error:
            raise TranscriptError(
                code_of(error, "SFY-RUN-011"),
                f"line 1 is not an agreement of this protocol: {error}",
            ) from None
        for number, line in enumerate(rest, start=2):
            try:
                transcript._append(line)
            except ValueError as error:
                raise TranscriptError(
                    code_of(error, "SFY-RUN-012"),
                    f"line {number} is not a reveal of this protocol: {error}",
                ) from None
        return transcript

    def _append(self, line: Any) -> None:
        """Take one line of a file, if nothing is wrong with it."""
        if self.result is not None:
            raise Malformed("nothing may follow the result")
        if isinstance(line, dict) and "result" in line:
            check_fields(line, {"result": dict}, "it")
            self.result = _read_result(line["result"], self.n_features)
        else:
            self.reveals.append(read_reveal(line, self.n_features))


def to_line(reveal: Reveal) -> dict[str, Any]:
    """The line of a reveal in the file, as an object."""
    return {"reveal": type(reveal).__name__.lower(), **_plain(reveal)}


def _parsed(lines: Iterable[bytes]) -> Iterator[Any]:
    for number, line in enumerate(lines):
        if number == MOST_LINES:
            raise TooLarge("SFY-RUN-009", f"it has more than {MOST_LINES} lines")
        if line.strip():
            yield parse(line)


def _plain(values: Any) -> dict[str, Any]:
    """A named tuple as what JSON can hold; integers of any size as hexadecimal."""
    out: dict[str, Any] = {}
    for name, value in values._asdict().items():
        if isinstance(value, Standardization):
            out |= _plain(value)
        elif isinstance(value, np.ndarray):
            out[name] = value.tolist()
        elif isinstance(value, list):
            out[name] = [hex(v) for v in value]
        else:
            out[name] = value
    return out


# The widest number of the protocol has far fewer bits.
_MOST_MAGNITUDE = 1024
_HEXADECIMAL = re.compile("-?0x[0-9a-f]{1,2048}")


def read_reveal(line: Any, n_features: int) -> Reveal:
    """Read what `to_line` gives; raises Malformed for anything else.

    Whether a run reveals this at all, and when, is another question: see `course`.
    """
    if not isinstance(line, dict) or line.get("reveal") not in tuple(KINDS):
        kind = line.get("reveal") if isinstance(line, dict) else line
        raise Malformed(f"unknown reveal {shown(kind)}")
    kind = KINDS[line["reveal"]]
    check_fields(
        line, {"reveal": str, **{name: _TYPES[name] for name in kind._fields}}, line["reveal"]
    )
    reveal: Reveal = kind(**{name: _read(name, line[name]) for name in kind._fields})
    if np.any((reveal.features < 0) | (reveal.features >= n_features)):
        raise Malformed("a feature that was not agreed on")
    if any(isinstance(v, list) and len(v) != len(reveal.features) for v in line.values()):
        raise Malformed("lists of different lengths")
    if len(reveal.features) > n_features:
        raise Malformed("more features than were agreed on")
    if isinstance(reveal, Magnitudes | Final) and not np.all(
        (reveal.magnitude >= 0) & (reveal.magnitude <= _MOST_MAGNITUDE)
    ):
        raise Malformed("a magnitude beyond any number of the protocol")
    return reveal


def _read_result(data: dict[str, Any], n_features: int) -> Result:
    *names, _ = Result._fields  # the last is the standardization, with fields of its own
    check_fields(data, dict.fromkeys([*names, *Standardization._fields], list), "the result")
    if any(len(values) != n_features for values in data.values()):
        raise Malformed("a result of another number of features")
    read = {name: _read(name, values) for name, values in data.items()}
    standardization = Standardization(*(read.pop(name) for name in Standardization._fields))
    return Result(**read, standardization=standardization)


def _numbers(
    kind: type | tuple[type, ...], dtype: DTypeLike, values: Any, name: str
) -> NDArray[Any]:
    try:
        return np.array(check_items(values, kind, name), dtype=dtype)
    except OverflowError:
        raise Malformed(f"{name} has a number that is too large") from None


def _wide_integers(values: Any, name: str) -> list[int]:
    return [_wide_integer(value, name) for value in check_items(values, str, name)]


def _wide_integer(text: str, name: str) -> int:
    """An integer as `hex` writes it; Python reads it in other forms as well."""
    value = int(text, 16) if _HEXADECIMAL.fullmatch(text) else None
    if value is None or hex(value) != text:
        raise Malformed(f'{name} must be integers such as "-0x1f"')
    return value


_whole = partial(_numbers, int, np.int64)
_real = partial(_numbers, NUMBER, np.float64)
_truth = partial(_numbers, bool, np.bool_)

# How the lists of each name are read, in reveals and in the result alike.
_LISTS: dict[str, Callable[[Any, str], Any]] = {
    "features": partial(_numbers, int, np.intp),
    "n": _whole,
    "varies": _truth,
    "lmbda": _real,
    "delta": partial(_numbers, int, np.int8),
    "magnitude": _whole,
    "V": _wide_integers,
    "S_y": _wide_integers,
    "mean": _real,
    "var": _real,
    "at_bound": _truth,
    "converged": _truth,
    "constant": _truth,
    "center": _real,
    "width": _real,
    "center_low": _real,
}
_TYPES = {"step": int, "holds": bool, **dict.fromkeys(_LISTS, list)}


def _read(name: str, value: Any) -> Any:
    return _LISTS[name](value, name) if name in _LISTS else value

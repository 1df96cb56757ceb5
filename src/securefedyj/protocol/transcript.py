"""The transcript of a run: what was revealed, in order, and the result that follows from it.

docs/protocol.md, section 7, describes the file. The result is computed from the reveals alone
(`result.py`), and the audit recomputes the reveals from the result (`audit.py`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from math import nan
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from msgspec import UNSET, UnsetType

from securefedyj.errors import InputError, code_of
from securefedyj.files import TooLarge, lines_within, write_atomically
from securefedyj.numerics.arrays import Index
from securefedyj.numerics.resolution import Certainty
from securefedyj.protocol.agreement import Agreement
from securefedyj.protocol.audit import Audit
from securefedyj.protocol.findings import findings
from securefedyj.protocol.result import (
    Points,
    Result,
    certainty_of,
    compute_points,
    compute_result,
    fit_of,
)
from securefedyj.protocol.revealed import Revealed
from securefedyj.protocol.reveals import Reveal, from_object, read_reveal, to_line, to_object
from securefedyj.strict import MOST_BYTES as MOST_IN_LINE
from securefedyj.strict import Malformed, Record, convert, parse

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
    def from_json(cls, data: Any) -> Origin | None:
        """Read what `_asdict` gives, or nothing; raises Malformed for anything else."""
        return None if data is UNSET else from_object(cls, data, "consortium")


class Quantile(NamedTuple):
    """One quantile of a feature."""

    value: float
    """NaN if it was refused."""
    rank: int
    refused: str
    """Why; empty if it was not."""


class TranscriptHeader(Record, frozen=True, kw_only=True):
    """The first line; `Agreement` and `Origin` declare what is in it."""

    transcript: Literal[2]
    agreement: dict[str, Any]
    consortium: dict[str, Any] | UnsetType = UNSET


class LastLine(Record, frozen=True):
    """The last line; `Result` and `Points` declare what is in it."""

    result: dict[str, list[Any]]
    points: dict[str, list[Any]] | UnsetType = UNSET


@dataclass
class Transcript(Revealed):
    """What one run has revealed so far, with its result at the end."""

    result: Result | None = None
    origin: Origin | None = None
    """None for a run on one machine."""
    points: Points | None = None
    """The quantiles, if there is a result and some were agreed on."""
    _chain: list[tuple[Agreement | Reveal, bytes]] = field(
        default_factory=list, init=False, repr=False, compare=False
    )

    # The result.

    def fit_of(self, method: str) -> tuple[Index, Result]:
        """The numbers of the features that have a method, and what it found, in the same order.

        For box-cox, mean and variance are those of x/lower; see `numerics.boxcox.moments`.
        """
        return fit_of(self.agreement, self.result or self.compute_result(), method)

    def quantiles(self) -> list[dict[str, Quantile]]:
        """The quantiles of each feature, by what was agreed on, such as "0.5"."""
        asked, refused = self.agreement.asked, self.refused()
        points, known = self.points or self.compute_points(), dict[int, float]()
        if points is not None:
            known = dict(zip(points.features.tolist(), points.value.tolist(), strict=True))
        rank = asked.ranks(self.counts()).tolist()
        found: list[dict[str, Quantile]] = [{} for _ in self.agreement.features]
        for i, q in enumerate(asked.all):
            if q.quantile:
                one = Quantile(known.get(i, nan), rank[i], refused.get(i, ""))
                found[q.column][q.quantile] = one
        return found

    def with_result(self) -> Transcript:
        """This transcript, with the result that follows from the reveals of a whole run."""
        self.result, self.points = self.compute_result(), self.compute_points()
        return self

    concluded = with_result  # its name in release 0.2

    def compute_result(self) -> Result:
        """The fit, from what was revealed and nothing else."""
        return compute_result(self)

    def compute_points(self) -> Points | None:
        """The quantiles, from what was revealed and nothing else."""
        return compute_points(self) if self.agreement.asked.ranked.any() else None

    def certainty(self) -> Certainty:
        """For each feature, why lambda is not certain where `Result.converged` is false."""
        return certainty_of(self, self.result or self.compute_result())

    def audit(self) -> Audit:
        """Recompute from the result what was revealed on the way to it."""
        return Audit(self, list(findings(self)))

    def write(self, path: Path | str) -> None:
        """Write the transcript as JSON lines: the agreement, the reveals in order, the result."""
        write_atomically(path, self.to_text().encode())

    @classmethod
    def read(cls, path: Path | str) -> Transcript:
        """Read what `write` wrote; raises TranscriptError for anything else."""
        return cls.from_text(lines_within(path, MOST_BYTES, MOST_IN_LINE))

    @classmethod
    def from_text(cls, lines: Iterable[bytes]) -> Transcript:
        """Read the lines of `to_text`; raises TranscriptError for anything else."""
        try:
            return cls.from_lines(_parsed(lines))
        except (Malformed, TooLarge) as error:
            raise TranscriptError(
                code_of(error, "SFY-RUN-010"),
                f"this is not a whole file of JSON lines: {error}. Give the transcript.jsonl of a "
                "run; all parties have the same.",
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
            points = {} if self.points is None else {"points": to_object(self.points)}
            yield {"result": to_object(self.result)} | points

    def digest(self, length: int | None = None) -> bytes:
        """The hash of the agreement and the first reveals, or all of them, without the result.

        A chain (docs/protocol.md, section 7.2): h_0 is the hash of the first line of the file,
        without the consortium, and h_{i+1} = SHA-256(h_i + line of reveal i).
        """
        length = len(self.reveals) if length is None else length
        if not 0 <= length <= len(self.reveals):
            raise InputError("SFY-RUN-007", f"there are {len(self.reveals)} reveals, not {length}")
        # A hash is computed again only if another line has taken the place of an earlier one.
        chain, things = self._chain, [self.agreement, *self.reveals[:length]]
        known = zip(chain, things, strict=False)
        changed = next((i for i, ((old, _), new) in enumerate(known) if old is not new), None)
        if changed is not None:
            del chain[changed:]
        for thing in things[len(chain) :]:
            before = chain[-1][1] if chain else b""
            if isinstance(thing, Agreement):
                line = json.dumps(self._header()).encode()
            else:
                line = _encoded(_Encodable(thing))
            chain.append((thing, hashlib.sha256(before + line).digest()))
        return chain[length][1]

    def _header(self) -> dict[str, Any]:
        return {"transcript": FORMAT, "agreement": self.agreement.to_json()}

    @classmethod
    def from_lines(cls, lines: Iterable[dict[str, Any]]) -> Transcript:
        """Read what `to_lines` gives; raises TranscriptError for anything else."""
        rest = iter(lines)
        first = next(rest, None)
        if not isinstance(first, dict) or first.get("transcript") != FORMAT:
            raise TranscriptError(
                "SFY-RUN-008",
                f"this is not a transcript of format {FORMAT}: give the transcript.jsonl of a run",
            )
        try:
            header = convert(first, TranscriptHeader, "it")
            origin = Origin.from_json(header.consortium)
            transcript = cls(Agreement.from_json(header.agreement), origin=origin)
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
        """Add one line of a file."""
        if self.result is not None:
            raise Malformed("nothing may follow the result")
        if isinstance(line, dict) and "result" in line:
            last, asked = convert(line, LastLine, "it"), self.agreement.asked
            if any(len(each) != len(asked.fitted) for each in last.result.values()):
                raise Malformed("a result of another number of features")
            if (last.points is UNSET) == asked.ranked.any():
                raise Malformed("quantiles are missing, or were not agreed on")
            self.result = from_object(Result, last.result, "the result")
            if last.points is not UNSET:
                self.points = from_object(Points, last.points, "the quantiles")
        else:
            self.reveals.append(read_reveal(line, self.n_features))


class _Encodable:
    """A reveal as a line of the file, equal to any other of the same content."""

    def __init__(self, reveal: Reveal) -> None:
        self.reveal = reveal
        parts: tuple[Any, ...] = reveal
        self._content = (
            type(reveal),
            *(
                part.tobytes()
                if isinstance(part, np.ndarray)
                else tuple(part)
                if isinstance(part, list)
                else part
                for part in parts
            ),
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Encodable) and self._content == other._content

    def __hash__(self) -> int:
        return hash(self._content)


@lru_cache(maxsize=4)
def _encoded(line: _Encodable) -> bytes:
    """A line in the file. Parties in one process ask for the same one after the other."""
    return json.dumps(to_line(line.reveal)).encode()


def _parsed(lines: Iterable[bytes]) -> Iterator[Any]:
    for number, line in enumerate(lines):
        if number == MOST_LINES:
            raise TooLarge("SFY-RUN-009", f"it has more than {MOST_LINES} lines")
        if line.strip():
            yield parse(line)

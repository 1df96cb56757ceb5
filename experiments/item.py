"""What an item is: what the paper claims, how it is computed again, drawn and judged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from matplotlib.figure import Figure

Results = dict[str, Any]
"""What an item computes, in types that JSON can hold: it is cached and published."""

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Settings:
    """How much to compute, and where data that do not come with a package are."""

    quick: bool = False
    data: Path | None = None

    def choose(self, full: Any, quick: Any) -> Any:
        return quick if self.quick else full


class Verdict(Enum):
    CONFIRMED = "confirmed"
    BETTER = "better"
    PARTLY = "confirmed in part"
    DIFFERS = "differs"
    NOT_CONFIRMED = "not confirmed"


class Row(NamedTuple):
    """One quantity: what the paper says of it, and what this run found."""

    quantity: str
    paper: str
    ours: str


class Table(NamedTuple):
    """A larger table; it is written as CSV too."""

    name: str
    caption: str
    header: list[str]
    rows: list[list[Any]]


@dataclass(frozen=True)
class Finding:
    """The judgement of an item. `reason` completes the verdict: one or two sentences."""

    verdict: Verdict
    reason: str
    rows: list[Row]
    notes: list[str] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)


class Panel(NamedTuple):
    """One picture and what is to be seen in it."""

    name: str
    figure: Figure
    caption: str


class Item(Protocol):
    """What each module of an item provides."""

    TITLE: str
    SOURCE: str  # where in the paper
    CLAIM: str  # what the paper says there, in one sentence

    def parameters(self, settings: Settings) -> Results:
        """All that the results depend on, apart from the code."""

    def compute(self, settings: Settings, progress: Progress) -> Results: ...

    def draw(self, results: Results) -> list[Panel]: ...

    def judge(self, results: Results) -> Finding: ...

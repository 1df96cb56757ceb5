"""The cost of a run, and the forecast next to it: one column of a table each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from securefedyj import strict
from securefedyj.errors import InputError, code_of
from securefedyj.files import TooLarge, read_within
from securefedyj.network.consortium import Consortium
from securefedyj.network.crossing import Crossing
from securefedyj.network.forecast import DELAY_MS, MBIT, Forecast, bytes_per_second, forecast
from securefedyj.protocol.transcript import Transcript

T = TypeVar("T")

_LARGEST = 2**63 - 1  # bytes or seconds, far more than any run takes
_Count: TypeAlias = Annotated[int, Meta(ge=0, le=_LARGEST)]
_Amount: TypeAlias = Annotated[float, Meta(ge=0, le=_LARGEST)]
_Bytes: TypeAlias = _Count | dict[str, _Count | dict[str, _Count]]
"""By party and peer, by party, or one number: that of the party itself."""


class _CostFile(strict.Record, frozen=True, forbid_unknown_fields=False):
    """A cost.json (docs/parameters.md), or the cost of several parties."""

    bytes_sent: _Bytes
    bytes_received: _Bytes = msgspec.field(default_factory=dict)
    party: str = "this party"
    rounds: _Count | None = None
    seconds: _Amount | UnsetType = UNSET
    seconds_local: _Amount | UnsetType = UNSET
    seconds_secure: _Amount | UnsetType = UNSET
    seconds_waiting: _Amount | UnsetType = UNSET


class _Plan(strict.Record, frozen=True, forbid_unknown_fields=False):
    levels: _Count
    rounds: _Count
    megabytes: _Amount
    seconds: _Amount


class _PlanFile(strict.Record, frozen=True, forbid_unknown_fields=False):
    """What `securefedyj plan --json` prints."""

    levels: list[_Plan]


@dataclass(frozen=True)
class CostColumn:
    """A column of the table of costs. None, or a missing party, means not known."""

    rounds: int | None
    sent_by: dict[str, int]  # bytes, by party
    most_sent: int | None  # bytes, by the party that sends most
    seconds: float | None
    received_by: dict[str, int] = field(default_factory=dict)  # bytes, by party
    seconds_spent_on: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of_forecast(cls, forecast: Forecast | _Plan) -> CostColumn:
        return cls(forecast.rounds, {}, round(1e6 * forecast.megabytes), forecast.seconds)


def planned(consortium: Consortium, transcript: Transcript) -> CostColumn:
    """What `securefedyj plan` prints for this number of rows, without the hub's time.

    Measuring that takes a hub with keys, which a party should not start during a run.
    """
    outlook = forecast(
        consortium,
        rows=max(1, int(transcript.counts().max()) // len(consortium.silos)),
        delay=DELAY_MS / 1e3,
        bytes_per_second=bytes_per_second(MBIT),
        levels=[consortium.levels_per_exchange],
        crossing=Crossing(0.0, 0.0),
    )
    return CostColumn.of_forecast(*outlook.forecasts)


def read_cost(path: Path | str) -> CostColumn:
    """The cost of a run, from a cost.json or from a file with the cost of several parties."""
    words = (
        "the cost of a run, an object with the fields rounds, bytes_sent, and seconds or "
        "seconds_local and seconds_secure"
    )
    cost = _read(path, _CostFile, "SFY-REP-003", words)
    counts = cost.bytes_sent, cost.bytes_received
    sent, received = (_by_party(count, cost.party) for count in counts)
    # The bytes of one party do not show whether it sent most.
    most_sent = max(sent.values()) if len(sent) > 1 else None
    parts = {
        "sums of own rows": cost.seconds_local,
        "secure computation": cost.seconds_secure,
        "waiting for others": cost.seconds_waiting,
    }
    known = {part: seconds for part, seconds in parts.items() if seconds is not UNSET}
    times = [*known.values(), *([] if cost.seconds is UNSET else [cost.seconds])]
    seconds = sum(times) if times else None
    return CostColumn(cost.rounds, sent, most_sent, seconds, received, known)


def read_plan(path: Path | str, levels_per_exchange: int) -> CostColumn:
    """The cost that `securefedyj plan --json` printed for this number of levels per exchange."""
    words = "the output of `securefedyj plan --json`"
    for plan in _read(path, _PlanFile, "SFY-REP-004", words).levels:
        if plan.levels == levels_per_exchange:
            return CostColumn.of_forecast(plan)
    raise InputError(
        "SFY-REP-001", f"{path}: the plan has no cost for {levels_per_exchange} levels"
    )


def table(columns: Mapping[str, CostColumn]) -> list[tuple[str, list[str]]]:
    """The rows of the table: what was counted, and a cell for each column."""
    every = columns.values()
    return [
        _row("rounds of messages", "{:,}".format, [column.rounds for column in every]),
        _row("sent by the party that sends most", _size, [column.most_sent for column in every]),
        *_row_of_each("sent by", _size, [column.sent_by for column in every]),
        *_row_of_each("received by", _size, [column.received_by for column in every]),
        _row("time", _time, [column.seconds for column in every]),
        *_row_of_each("time:", _time, [column.seconds_spent_on for column in every]),
    ]


def _row(
    what: str, shown: Callable[[float], str], values: Sequence[float | None]
) -> tuple[str, list[str]]:
    return what, ["–" if value is None else shown(value) for value in values]


def _row_of_each(
    what: str, shown: Callable[[float], str], columns: Sequence[Mapping[str, float]]
) -> list[tuple[str, list[str]]]:
    """A row for each name that occurs in a column."""
    names = dict.fromkeys(name for column in columns for name in column)
    return [_row(f"{what} {name}", shown, [one.get(name) for one in columns]) for name in names]


def _by_party(count: int | dict[str, int | dict[str, int]], own: str) -> dict[str, int]:
    counts = count if isinstance(count, dict) else {own: count}
    return {party: sum(to.values()) if isinstance(to, dict) else to for party, to in counts.items()}


def _read(path: Path | str, kind: type[T], code: str, words: str) -> T:
    try:
        data = strict.parse(read_within(path, strict.MOST_BYTES))
    except (strict.Malformed, TooLarge) as error:
        raise InputError(code_of(error, "SFY-REP-005"), f"{path}: {error}") from None
    try:
        return strict.convert(data, kind, "it")
    except strict.Malformed as error:
        raise InputError(code, f"{path}: this is not {words}: {error}") from None


def _size(count: float) -> str:
    return f"{count / 1e6:,.2f} MB" if count >= 1e5 else f"{count / 1e3:,.1f} kB"


def _time(seconds: float) -> str:
    return f"{seconds:,.1f} s"

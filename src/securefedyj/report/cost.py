"""The cost of a run, and the forecast next to it: one column of a table each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from msgspec import UNSET, Meta, UnsetType

from securefedyj import strict
from securefedyj.errors import InputError, code_of
from securefedyj.files import TooLarge, read_within
from securefedyj.network.consortium import Consortium
from securefedyj.network.crossing import Crossing
from securefedyj.network.forecast import DELAY_MS, MBIT, Forecast, bytes_per_second, forecast
from securefedyj.protocol.transcript import Transcript

_LARGEST = 2**63 - 1  # bytes or seconds; no run takes as many
_Count: TypeAlias = Annotated[int, Meta(ge=0, le=_LARGEST)]
_Amount: TypeAlias = Annotated[float, Meta(ge=0, le=_LARGEST)]
_Bytes: TypeAlias = _Count | dict[str, _Count | dict[str, _Count]]
"""By party and peer, by party, or one number: that of the party itself."""


class _CostFile(strict.Record, frozen=True, forbid_unknown_fields=False):
    """A cost.json (docs/parameters.md), or the cost of several parties."""

    bytes_sent: _Bytes
    bytes_received: _Bytes | UnsetType = UNSET
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
    sent_by: dict[str, int]
    """Bytes, by party."""
    most_sent: int | None
    """Bytes, by the party that sends most."""
    seconds: float | None
    received_by: dict[str, int] = field(default_factory=dict)
    """Bytes, by party."""
    seconds_spent_on: dict[str, float] = field(default_factory=dict)
    """The parts of the time."""

    @classmethod
    def of_forecast(cls, forecast: Forecast) -> CostColumn:
        """The expected cost of a run."""
        return cls(forecast.rounds, {}, round(1e6 * forecast.megabytes), forecast.seconds)


def planned(consortium: Consortium, transcript: Transcript) -> CostColumn:
    """The plan that `plan` would have printed with this number of rows, without the hub's time.

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
    (plan,) = outlook.forecasts
    return CostColumn.of_forecast(plan)


def read_cost(path: Path | str) -> CostColumn:
    """The cost of a run, from a cost.json or from a file with the cost of several parties."""
    data = _read(path)
    try:
        cost = strict.convert(data, _CostFile, "it")
    except strict.Malformed as error:
        raise InputError(
            "SFY-REP-003",
            f"{path}: this is not the cost of a run, an object with the fields rounds, bytes_sent, "
            f"and seconds or seconds_local and seconds_secure: {error}",
        ) from None
    sent = _by_party(cost.bytes_sent, cost.party)
    parts = {
        "sums of own rows": cost.seconds_local,
        "secure computation": cost.seconds_secure,
        "waiting for others": cost.seconds_waiting,
    }
    known = {words: seconds for words, seconds in parts.items() if seconds is not UNSET}
    seconds = [*known.values(), *([] if cost.seconds is UNSET else [cost.seconds])]
    return CostColumn(
        cost.rounds,
        sent,
        # From the bytes of one party nobody knows whether it sent most.
        max(sent.values()) if len(sent) > 1 else None,
        sum(seconds) if seconds else None,
        {} if cost.bytes_received is UNSET else _by_party(cost.bytes_received, cost.party),
        known,
    )


def read_plan(path: Path | str, levels_per_exchange: int) -> CostColumn:
    """The cost that `securefedyj plan --json` printed for this number of levels per exchange."""
    data = _read(path)
    try:
        plans = strict.convert(data, _PlanFile, "it").levels
    except strict.Malformed as error:
        raise InputError(
            "SFY-REP-004", f"{path}: this is not the output of `securefedyj plan --json`: {error}"
        ) from None
    for plan in plans:
        if plan.levels == levels_per_exchange:
            return CostColumn(plan.rounds, {}, round(1e6 * plan.megabytes), plan.seconds)
    raise InputError(
        "SFY-REP-001", f"{path}: the plan has no cost for {levels_per_exchange} levels"
    )


def table(columns: Mapping[str, CostColumn]) -> list[tuple[str, list[str]]]:
    """The rows of the table: what was counted, and a cell for each column."""
    every = columns.values()
    senders = dict.fromkeys(party for column in every for party in column.sent_by)
    receivers = dict.fromkeys(party for column in every for party in column.received_by)
    purposes = dict.fromkeys(purpose for column in every for purpose in column.seconds_spent_on)
    rows = [
        ("rounds of messages", [_count(column.rounds) for column in every]),
        ("sent by the party that sends most", [_size(column.most_sent) for column in every]),
    ]
    for party in senders:
        rows.append((f"sent by {party}", [_size(column.sent_by.get(party)) for column in every]))
    for party in receivers:
        received = [_size(column.received_by.get(party)) for column in every]
        rows.append((f"received by {party}", received))
    rows.append(("time", [_time(column.seconds) for column in every]))
    for purpose in purposes:
        spent = [_time(column.seconds_spent_on.get(purpose)) for column in every]
        rows.append((f"time: {purpose}", spent))
    return rows


def _by_party(count: int | dict[str, int | dict[str, int]], own: str) -> dict[str, int]:
    counts = count if isinstance(count, dict) else {own: count}
    return {party: sum(to.values()) if isinstance(to, dict) else to for party, to in counts.items()}


def _read(path: Path | str) -> Any:
    try:
        return strict.parse(read_within(path, strict.MOST_BYTES))
    except (strict.Malformed, TooLarge) as error:
        raise InputError(code_of(error, "SFY-REP-005"), f"{path}: {error}") from None


def _count(count: int | None) -> str:
    return "–" if count is None else f"{count:,}"


def _size(count: int | None) -> str:
    if count is None:
        return "–"
    return f"{count / 1e6:,.2f} MB" if count >= 1e5 else f"{count / 1e3:,.1f} kB"


def _time(seconds: float | None) -> str:
    return "–" if seconds is None else f"{seconds:,.1f} s"

"""The cost of a run, and the forecast next to it: a column each of the table on the page."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from securefedyj import strict
from securefedyj.errors import InputError, code_of
from securefedyj.files import TooLarge, read_within
from securefedyj.network.consortium import Consortium
from securefedyj.network.forecast import DELAY_MS, MBIT, Forecast, bytes_per_second, forecast
from securefedyj.network.local import Crossing
from securefedyj.protocol.transcript import Transcript

T = TypeVar("T")

_LARGEST = 2**63 - 1  # bytes or seconds, far more than any run takes
_Count: TypeAlias = Annotated[int, Meta(ge=0, le=_LARGEST)]
_Amount: TypeAlias = Annotated[float, Meta(ge=0, le=_LARGEST)]
_Bytes: TypeAlias = _Count | dict[str, _Count | dict[str, _Count]]
"""By party and peer, by party, or one number: that of the party itself."""
_PARTS = {
    "seconds_local": "sums of own rows",
    "seconds_secure": "secure computation",
    "seconds_waiting": "waiting for others",
}


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
    """What `securefedyj plan --json` prints for a number of levels per exchange."""

    levels: _Count
    rounds: _Count
    megabytes: _Amount
    seconds: _Amount


class _PlanFile(strict.Record, frozen=True, forbid_unknown_fields=False):
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
    given = msgspec.to_builtins(cost)  # without what is not set
    parts = {words: given[name] for name, words in _PARTS.items() if name in given}
    times = [given[name] for name in ("seconds", *_PARTS) if name in given]
    return CostColumn(cost.rounds, sent, most_sent, sum(times) if times else None, received, parts)


def read_plan(path: Path | str, levels_per_exchange: int) -> CostColumn:
    """The cost that `securefedyj plan --json` printed for this number of levels per exchange."""
    words = "the output of `securefedyj plan --json`"
    for plan in _read(path, _PlanFile, "SFY-REP-004", words).levels:
        if plan.levels == levels_per_exchange:
            return CostColumn.of_forecast(plan)
    raise InputError(
        "SFY-REP-001", f"{path}: the plan has no cost for {levels_per_exchange} levels"
    )


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

"""What the run cost, and beside it what was forecast: one column each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from securefedyj import strict
from securefedyj.errors import InputError, code_of
from securefedyj.files import TooLarge, read_within
from securefedyj.report.markup import text

if TYPE_CHECKING:
    from securefedyj.network.forecast import Forecast

_SPENT_ON = {
    "seconds_local": "sums of own rows",
    "seconds_secure": "secure computation",
    "seconds_waiting": "waiting for others",
}
_LARGEST = 2**63  # bytes or seconds; no run takes as many


@dataclass(frozen=True)
class Column:
    """A column of the table of costs. None, or a party that is not there, means not known."""

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


def of_forecast(forecast: Forecast) -> Column:
    """What a run was expected to cost."""
    return _expected(forecast.rounds, forecast.megabytes, forecast.seconds)


def read_cost(path: Path | str) -> Column:
    """The cost of a run, from a cost.json (docs/parameters.md) or of several parties.

    Bytes may be given by party and peer, by party, or as one number: that of `party`.
    """
    data = _read_object(path)
    own = str(data.get("party", "this party"))
    try:
        rounds, sent = data.get("rounds"), _by_party(data["bytes_sent"], own)
        seconds = {key: float(_number(data[key])) for key in data if key.startswith("seconds")}
        return Column(
            None if rounds is None else int(_number(rounds)),
            sent,
            # Of one party alone nobody knows whether it sent most.
            max(sent.values()) if len(sent) > 1 else None,
            sum(seconds.values()) if seconds else None,
            _by_party(data.get("bytes_received", {}), own),
            {words: seconds[key] for key, words in _SPENT_ON.items() if key in seconds},
        )
    except (KeyError, TypeError):
        raise InputError(
            "SFY-REP-003",
            f"{path}: this is not the cost of a run; it must be an object with the fields rounds, "
            "bytes_sent, and seconds or seconds_local and seconds_secure",
        ) from None


def read_plan(path: Path | str, levels_per_exchange: int) -> Column:
    """What `securefedyj plan --json` said about a run with so many levels per exchange."""
    data = _read_object(path)
    try:
        for plan in data["levels"]:
            if plan["levels"] == levels_per_exchange:
                numbers = (_number(plan[key]) for key in ("rounds", "megabytes", "seconds"))
                rounds, megabytes, seconds = numbers
                return _expected(int(rounds), megabytes, float(seconds))
    except (KeyError, TypeError):
        raise InputError(
            "SFY-REP-004", f"{path}: this is not what `securefedyj plan --json` prints"
        ) from None
    raise InputError(
        "SFY-REP-001", f"{path}: the plan does not say what {levels_per_exchange} levels cost"
    )


def table(columns: Mapping[str, Column] | None) -> str:
    """The section of the page; nothing if there is no column."""
    if not columns:
        return ""
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
    head = "".join(f"<th>{text(title)}</th>" for title in columns)
    body = "".join(
        f"<tr><td>{text(name)}</td>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
        for name, cells in rows
    )
    return (
        '<h2>What it cost</h2>\n<div class="scroll"><table class="plain">'
        f"<thead><tr><th></th>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _expected(rounds: int, megabytes: float, seconds: float) -> Column:
    return Column(rounds, {}, round(1e6 * megabytes), seconds)


def _by_party(count: Any, own: str) -> dict[str, int]:
    counts = count if isinstance(count, dict) else {own: count}
    return {
        party: sum(int(_number(part)) for part in (to.values() if isinstance(to, dict) else [to]))
        for party, to in counts.items()
    }


def _number(value: Any) -> float:
    # In Python True is a number, in a file it is not; and 1e999 is read as infinite.
    if type(value) not in strict.NUMBER or not 0 <= value < _LARGEST:
        raise TypeError
    number: float = value
    return number


def _read_object(path: Path | str) -> dict[str, Any]:
    try:
        data = strict.parse(read_within(path, strict.MOST_BYTES))
    except (strict.Malformed, TooLarge) as error:
        raise InputError(code_of(error, "SFY-REP-005"), f"{path}: {error}") from None
    if not isinstance(data, dict):
        raise InputError("SFY-REP-002", f"{path}: this is not a JSON object")
    return data


def _count(count: int | None) -> str:
    return "–" if count is None else f"{int(count):,}"


def _size(count: int | None) -> str:
    if count is None:
        return "–"
    return f"{count / 1e6:,.2f} MB" if count >= 1e5 else f"{count / 1e3:,.1f} kB"


def _time(seconds: float | None) -> str:
    return "–" if seconds is None else f"{seconds:,.1f} s"

"""The journal: what a party remembers of a run, line by line on disk (docs/protocol.md, 12.5)."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import msgspec

from securefedyj import strict
from securefedyj.errors import code_of
from securefedyj.network.bounds import largest_record
from securefedyj.network.errors import EndOfRun, OwnTrouble
from securefedyj.network.lines import LineFile
from securefedyj.network.session.memory import NEW_RUN, Memory, digest_of
from securefedyj.protocol.agreement import Agreement
from securefedyj.protocol.transcript import Origin
from securefedyj.strict import Malformed, hexadecimal, parse

FILE = "state.jsonl"
FORMAT = 3
_KEY_BYTES = 32


class JournalError(OwnTrouble):
    """A journal that no run can resume from."""


class _FirstLine(strict.Record, frozen=True):
    """What the run is about; all other lines are reveals and `memory.JournalNote`s."""

    state: int  # the format
    file: str  # the digest of the agreed file
    key: Annotated[str, hexadecimal(_KEY_BYTES)]  # of the digest of the rows; secret
    rows: str  # the digest of the rows under this key; empty without data
    agreement: dict[str, Any]


def open_journal(
    folder: Path,
    agreement: Agreement,
    digest: str,
    name: str,
    rows: Callable[[bytes], str] | None = None,
    consortium: str = "",
) -> Memory:
    """The memory of a run in the output folder of a party; a new one if there is none yet.

    `digest` is that of the agreed file; `rows` gives the digest of the rows under a key, and is
    None for a party without data. The result names the consortium unless that is empty. If a
    session was running when the last process ended, the party itself has interrupted it.
    """
    of_rows = rows or (lambda key: "")
    origin = Origin(consortium, digest) if consortium else None
    lines = LineFile(folder / FILE)
    memory = Memory(agreement, member=name in agreement.committee, origin=origin, lines=lines)
    try:
        _lock(lines)
        if lines.size > 4 * largest_record(agreement):
            raise JournalError(
                "SFY-JOIN-023",
                f"{lines.path} is larger than a run can make it; choose another output folder.",
            )
        known = lines.read(mend=True)  # nothing was sent after a line that a crash has cut short
        try:
            _check_format(known, lines.path)
            if len(known) > 1:
                _replay(memory, known, lines.path, digest, of_rows)
            else:  # nothing has begun here
                lines.clear()
                key = secrets.token_bytes(_KEY_BYTES)
                first = _FirstLine(FORMAT, digest, key.hex(), of_rows(key), agreement.to_json())
                memory.write(msgspec.to_builtins(first))
        except (Malformed, UnicodeDecodeError) as error:
            raise JournalError(
                code_of(error, "SFY-JOIN-026"),
                f"{lines.path} cannot be read: {error}. Choose another output folder.",
            ) from None
        if memory.running and not memory.finished:
            memory.interrupt(name)
    except BaseException:
        lines.close()
        raise
    return memory


def _lock(lines: LineFile) -> None:
    """One process at a time: two could send the same opening twice."""
    try:
        lines.lock(wait=False)
    except BlockingIOError:
        raise JournalError(
            "SFY-JOIN-024",
            f"Another process takes part with {lines.path}; wait until it ends, or stop it.",
        ) from None
    except OSError as error:
        raise JournalError(
            "SFY-JOIN-025",
            f"cannot lock {lines.path}: {error.strerror}. Choose another output folder, on a file "
            "system that has locks.",
        ) from None


def _check_format(lines: list[bytes], path: Path) -> None:
    first = parse(lines[0]) if lines else {"state": FORMAT}
    version = first.get("state") if isinstance(first, dict) else None
    if type(version) is int and version < FORMAT:
        raise JournalError(
            "SFY-JOIN-019",
            f"{path}: an older release wrote it, and only that release can resume this run. "
            + NEW_RUN,
        )
    if version != FORMAT:
        raise Malformed(f"this is not a state of format {FORMAT}")


def _replay(
    memory: Memory, lines: list[bytes], path: Path, digest: str, of_rows: Callable[[bytes], str]
) -> None:
    """Take all lines; refuse those of another agreed file, of other rows, or of a run that is over.

    Where all parties have confirmed the result, the lines must still lead to it.
    """
    first = strict.convert(parse(lines[0]), _FirstLine, "line 1")
    if first.file != digest:
        raise JournalError(
            "SFY-JOIN-020",
            f"{path} is from a run with another agreed file; choose another output folder.",
        )
    if first.rows != of_rows(bytes.fromhex(first.key)):
        raise JournalError(
            "SFY-JOIN-021",
            f"The rows are not those that this run began with ({path}): two results over "
            "rows that differ a little can reveal the difference. Use the same table again, or "
            "agree on a new run for the new rows: with a new name in the agreed file and a new "
            "output folder.",
        )
    for number, line in enumerate(lines[1:], start=2):
        try:
            memory.replay(parse(line))
        except (ValueError, OverflowError) as error:
            raise Malformed(f"line {number}: {error}") from None
    if memory.failed:
        raise EndOfRun("SFY-JOIN-018", memory.failed)
    result = ""
    if memory.confirmed and memory.finished:
        with contextlib.suppress(EndOfRun):  # it does not pass the audit
            result = digest_of(memory, memory.outcome())
    if memory.confirmed != result:
        raise JournalError(
            "SFY-JOIN-022",
            f"{path} is not as it was when all parties confirmed the result; choose "
            "another output folder.",
        )

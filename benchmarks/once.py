"""Reads what the parties of one run keep on disk: was any value opened twice?

Before a party sends its part of an opening, it notes the number of the opening in its state, a file
of JSON lines; when it has been opened, the reveal follows. An opening that was sent and that too
few have may be repeated, once in the whole run, and a note of that comes first. So over one run

- no party may have noted an opening more than twice, or two openings twice, or one without saying
  before the second time that it is a repeat;
- the parties may have repeated one opening only, all the same;
- the final opening of a verified run is another matter. A member notes what it holds of it before
  anybody sends anything, and may send the same bytes any number of times. But once it was sent it
  may not be computed again, and all members must have sent what they hold of one computation;
- what two parties have of the reveals must be the same, and the result that they have confirmed.

    python -m benchmarks.once FOLDER/*/state.jsonl
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

FILE = "state.jsonl"


class Journal(NamedTuple):
    """What one party has noted, in order."""

    openings: list[int]
    """The numbers of the openings that it was about to send."""
    reveals: list[str]
    """What was opened, as lines."""
    repeats: list[int]
    """The numbers of the openings that it was about to send again."""
    accepted: dict[int, str]
    """Of final openings: the session that computed what it holds of them."""
    sent: dict[int, set[str]]
    """Of final openings: the sessions that computed what it has sent."""
    confirmed: set[str]
    """Digests of results, as all parties have them."""
    wrong: list[str]
    """What cannot have come about by the rules, seen by itself."""


def read_journal(text: str) -> Journal:
    """The notes of a state file; its last line may have been cut by a power failure."""
    journal = Journal([], [], [], {}, {}, set(), [])
    whole = text.endswith("\n")
    lines = [line for line in text.splitlines() if line.strip()]
    for number, line in enumerate(lines, start=1):
        try:
            content = json.loads(line)
        except ValueError:
            if whole or number < len(lines):
                journal.wrong.append(f"line {number} is not JSON")
            continue
        if isinstance(content, dict):
            _note(content, number, journal)
        else:
            journal.wrong.append(f"line {number} is no object")
    return journal


def _note(content: dict[str, Any], number: int, journal: Journal) -> None:
    if "reveal" in content:
        journal.reveals.append(json.dumps(content, sort_keys=True))
    elif "confirmed" in content:
        journal.confirmed.add(str(content["confirmed"]))
    elif "accepted" in content:
        journal.wrong.extend(_wrong_part(content["accepted"], number, journal))
    elif "repeat" in content:
        if not _is_count(content["repeat"]):
            journal.wrong.append(f"line {number} has a repeat without a number")
        elif content["repeat"] in journal.accepted:
            journal.wrong.append(f"opening {content['repeat']} was accepted, and made again")
        else:
            journal.repeats.append(content["repeat"])
    elif "opening" in content:
        if _is_count(content["opening"]):
            journal.wrong.extend(_wrong_opening(content["opening"], journal))
            journal.openings.append(content["opening"])
        else:
            journal.wrong.append(f"line {number} has an opening without a number")


def _wrong_part(part: Any, number: int, so_far: Journal) -> list[str]:
    """What is wrong with the next part of a final opening that is kept."""
    fields: dict[str, Any] = part if isinstance(part, dict) else {}
    opening: Any = fields.get("opening")
    session, bits = fields.get("session"), fields.get("bits")
    if not (_is_count(opening) and isinstance(session, str) and isinstance(bits, str)):
        return [f"line {number} has no part of an opening"]
    if opening in so_far.openings:
        return [f"opening {opening} was computed again after it was sent"]
    so_far.accepted[opening] = session
    return []


def _wrong_opening(opening: int, so_far: Journal) -> list[str]:
    """What is wrong with the next opening; a repeat may be of what only we have."""
    if opening in so_far.accepted:
        so_far.sent.setdefault(opening, set()).add(so_far.accepted[opening])
        return []
    if opening in so_far.repeats:
        return []
    if opening < len(so_far.reveals):
        return [f"opening {opening} was sent when it was known already"]
    if opening in so_far.openings:
        return [f"opening {opening} was sent again without a note that it is a repeat"]
    return []


def _is_count(number: Any) -> bool:
    return type(number) is int and number >= 0


def violations(journals: Mapping[str, str], strangers: Iterable[str] = ()) -> list[str]:
    """What the states of a run's parties have against the rules; nothing, if all is well.

    Parameters
    ----------
    journals
        The content of each party's state file.
    strangers
        Parties whose own notes do not count, because they do not play by the rules.
    """
    read = {n: read_journal(text) for n, text in journals.items() if n not in set(strangers)}
    found = [f"{name}: {wrong}" for name, journal in read.items() for wrong in journal.wrong]
    repeated: dict[int, set[str]] = {}
    for name, journal in read.items():
        for opening in journal.repeats:
            repeated.setdefault(opening, set()).add(name)
        for opening, times in sorted(Counter(journal.openings).items()):
            if opening in journal.accepted:
                continue
            if times > 1:
                repeated.setdefault(opening, set()).add(name)
            if times > 2:
                found.append(f"{name}: opening {opening} was sent {times} times")
    if len(repeated) > 1:
        found.append(
            "more than one opening was repeated: "
            + "; ".join(f"{n} by {', '.join(sorted(who))}" for n, who in sorted(repeated.items()))
        )
    confirmed = set().union(*(journal.confirmed for journal in read.values()))
    if len(confirmed) > 1:
        found.append("parties have confirmed different results")
    return found + _computations(read.values()) + _differences(read)


def _computations(read: Iterable[Journal]) -> list[str]:
    """Final openings of which more than one computation was sent."""
    sent: dict[int, set[str]] = {}
    for journal in read:
        for opening, sessions in journal.sent.items():
            sent.setdefault(opening, set()).update(sessions)
    return [
        f"opening {opening} was sent of {len(sessions)} computations"
        for opening, sessions in sorted(sent.items())
        if len(sessions) > 1
    ]


def _differences(read: Mapping[str, Journal]) -> list[str]:
    """Reveals that two parties have, and that are not the same."""
    longest = max(read, key=lambda name: len(read[name].reveals), default="")
    found = []
    for name, journal in read.items():
        for number, (own, other) in enumerate(
            zip(journal.reveals, read[longest].reveals, strict=False)
        ):
            if own != other:
                found.append(f"{name} and {longest} have different reveals {number}")
                break
    return found


def journals_in(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """The states below a folder, one folder per party; who has none is left out."""
    states = {name: folder / name / FILE for name in names}
    return {
        name: path.read_text(encoding="utf-8") for name, path in states.items() if path.exists()
    }


def check_folder(folder: Path, names: Iterable[str]) -> list[str]:
    """What the states below a folder have against the rules."""
    return violations(journals_in(folder, names))


def main(arguments: list[str]) -> int:
    found = violations({path: Path(path).read_text(encoding="utf-8") for path in arguments})
    print("\n".join(found) or f"Nothing was opened twice, by {len(arguments)} states.")
    return 1 if found or not arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

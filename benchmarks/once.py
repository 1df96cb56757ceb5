"""Reads what the parties of one run keep on disk: was any value opened twice?

Before a party sends its part of an opening, it notes the number of the opening in its state, a file
of JSON lines; when it has been opened, the reveal follows. An opening that was sent and that nobody
has may be repeated, once in the whole run. So over one run

- no party may have noted an opening more than twice, or two openings twice;
- the parties may have repeated one opening only, all the same;
- what two parties have of the reveals must be the same.

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
    known: list[int]
    """Openings that it sent though it had them."""
    wrong: list[str]
    """What cannot have come about by the rules, seen by itself."""


def read_journal(text: str) -> Journal:
    """The notes of a state file; its last line may have been cut by a power failure."""
    openings: list[int] = []
    reveals: list[str] = []
    known: list[int] = []
    wrong: list[str] = []
    whole = text.endswith("\n")
    lines = [line for line in text.splitlines() if line.strip()]
    for number, line in enumerate(lines, start=1):
        try:
            content = json.loads(line)
        except ValueError:
            if whole or number < len(lines):
                wrong.append(f"line {number} is not JSON")
            continue
        if not isinstance(content, dict):
            wrong.append(f"line {number} is no object")
        elif "reveal" in content:
            reveals.append(json.dumps(content, sort_keys=True))
        elif "opening" in content:
            opening = content["opening"]
            if not _is_count(opening):
                wrong.append(f"line {number} has an opening without a number")
                continue
            if opening < len(reveals):
                # The last one may have reached us alone, and then it is made again with us.
                known.append(opening)
                if opening < len(reveals) - 1:
                    wrong.append(f"opening {opening} was sent when more was known already")
            openings.append(opening)
    return Journal(openings, reveals, known, wrong)


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
        for opening, times in sorted(Counter(journal.openings).items()):
            if times > 1 or opening in journal.known:
                repeated.setdefault(opening, set()).add(name)
            if times > 2:
                found.append(f"{name}: opening {opening} was sent {times} times")
    if len(repeated) > 1:
        found.append(
            "more than one opening was repeated: "
            + "; ".join(f"{n} by {', '.join(sorted(who))}" for n, who in sorted(repeated.items()))
        )
    return found + _differences(read)


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


def check_folder(folder: Path, names: Iterable[str]) -> list[str]:
    """The same for the states below a folder, one folder per party; who has none has no say."""
    states = {name: folder / name / FILE for name in names}
    return violations(
        {name: path.read_text(encoding="utf-8") for name, path in states.items() if path.exists()}
    )


def main(arguments: list[str]) -> int:
    found = violations({path: Path(path).read_text(encoding="utf-8") for path in arguments})
    print("\n".join(found) or f"Nothing was opened twice, by {len(arguments)} states.")
    return 1 if found or not arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

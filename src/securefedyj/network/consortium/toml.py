"""The little of TOML that the agreed file needs, beyond what the standard library reads.

Tables are read strictly: what is missing, unknown or of another type is refused with a sentence.
Before that the text is looked over: the standard library takes any number of tables, on any number
of levels, and keeps notes about each that are a hundred times longer than its name.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from securefedyj.files import read_within
from securefedyj.printable import printable, shown
from securefedyj.strict import MOST_LISTS, Malformed, check_depth

MOST_BYTES = 1 << 22
"""Of a file; 20,000 features with units and notes take about 2 MB."""
MOST_TABLES = 100
"""Kinds of tables; we have three."""
MOST_DOTS = 1000
"""In keys, such as a.b.c; we have none."""

_WORDS = {str: "a text", dict: "a table", list: "a list", int: "a number", bool: "true or false"}


def read(path: Path | str) -> dict[str, Any]:
    """What a file holds; Malformed, or one of TOML's and UTF-8's own errors, if that cannot be."""
    text = read_within(path, MOST_BYTES).decode()
    _look_over(text)
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise
    except RecursionError:
        raise Malformed("it is nested too deeply.") from None
    except ValueError as error:  # such as a number that Python does not read
        raise Malformed(f"it is not a TOML file: {printable(str(error), 200)}.") from None
    check_depth(data)
    _check_numbers(data)
    return data


def _look_over(text: str) -> None:
    """Refuse what would take much time or memory to read, and cannot be an agreed file."""
    heads, dots, lists = set(), 0, 0
    for line in text.split("\n"):
        bare = line.strip()
        if bare.startswith("["):
            heads.add(bare)
            dots += bare.count(".")
        elif not bare.startswith("#"):
            lists += bare.count("[") + bare.count("{")
            # The last piece is a value.
            dots += sum(piece.count(".") for piece in bare.split("=")[:-1])
    if len(heads) > MOST_TABLES or dots > MOST_DOTS or lists > MOST_LISTS:
        raise Malformed(
            "it has tables within tables that no agreed file has; ask for the file that "
            "`securefedyj new` wrote."
        )


def _check_numbers(data: Any) -> None:
    """Refuse whole numbers that TOML does not promise: beyond 64 bits."""
    if isinstance(data, int) and not -(2**63) <= data < 2**63:
        raise Malformed(f"{shown(data)} is too large for this file.")
    if isinstance(data, list | dict):
        for value in data.values() if isinstance(data, dict) else data:
            _check_numbers(value)


def get(data: Mapping[str, Any], key: str, kind: type | tuple[type, ...], where: str) -> Any:
    """The value of a key that must be there, and of that type."""
    if key not in data:
        raise Malformed(f"{where} has no {key!r}; add it.")
    value = data[key]
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        raise Malformed(f"{key!r} of {where} must be {_WORDS[kinds[0]]}, not {shown(value)}.")
    return value


def refuse_unknown(where: str, data: Any, known: set[str]) -> None:
    """Refuse a table with keys that nobody would look at, such as misspelt ones."""
    if not isinstance(data, dict):
        raise Malformed(f"{where} must be a table, not {shown(data)}.")
    unknown = sorted(set(data) - known)
    if unknown:
        raise Malformed(
            f"{where} has an unknown key {shown(unknown[0])}; known are {', '.join(sorted(known))}."
        )


def write_table(head: str, entries: Mapping[str, Any]) -> str:
    """A table under its head, or the top of the file if that is empty."""
    lines = [head] if head else []
    lines += [f"{key} = {_value(value)}" for key, value in entries.items()]
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, str):
        if value.startswith("-----BEGIN") and value.isascii() and "\\" not in value:
            return f'"""\n{value.strip()}\n"""'
        return _text(value)
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _text(text: str) -> str:
    """A basic string of TOML: JSON's escapes, and characters beyond ASCII as they are."""
    escaped = json.dumps(text, ensure_ascii=False)
    return escaped.replace("\x7f", "\\u007f")

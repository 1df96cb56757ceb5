"""The little of TOML that the agreed file needs, beyond what the standard library reads.

Tables are read strictly: what is missing, unknown or of another type is refused with a sentence.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from securefedyj.strict import Malformed

_WORDS = {str: "a text", dict: "a table", list: "a list", int: "a number"}


def get(data: Mapping[str, Any], key: str, kind: type | tuple[type, ...], where: str) -> Any:
    """The value of a key that must be there, and of that type."""
    if key not in data:
        raise Malformed(f"{where} has no {key!r}; add it.")
    value = data[key]
    if not isinstance(value, kind) or isinstance(value, bool):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        raise Malformed(f"{key!r} of {where} must be {_WORDS[kinds[0]]}, not {value!r}.")
    return value


def refuse_unknown(where: str, data: Any, known: set[str]) -> None:
    """Refuse a table with keys that nobody would look at, such as misspelt ones."""
    if not isinstance(data, dict):
        raise Malformed(f"{where} must be a table, not {data!r}.")
    unknown = sorted(set(data) - known)
    if unknown:
        raise Malformed(
            f"{where} has an unknown key {unknown[0]!r}; known are {', '.join(sorted(known))}."
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
    return repr(value)


def _text(text: str) -> str:
    """A basic string of TOML: JSON's escapes, and characters beyond ASCII as they are."""
    escaped = json.dumps(text, ensure_ascii=False)
    return escaped.replace("\x7f", "\\u007f")

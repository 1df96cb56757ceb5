"""JSON from files and from peers, read strictly.

What is missing, unknown, there twice or of another type is refused with a sentence: whoever reads
on would take the content for something that it is not.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NoReturn

NUMBER = (int, float)
"""The type of a field that holds any number."""

_WORDS = {str: "a text", dict: "an object", list: "a list", int: "a whole number",
          float: "a number", bool: "true or false"}  # fmt: skip


class Malformed(ValueError):
    """Content that is not what it should be; the sentence says where and why."""


def parse(text: str | bytes) -> Any:
    """What a JSON text holds; NaN, infinities and repeated keys are not JSON."""
    try:
        return json.loads(text, parse_constant=_not_finite, object_pairs_hook=_once)
    except Malformed:
        raise
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise Malformed(f"this is not JSON: {reason}") from None


def check_fields(
    data: Any, fields: Mapping[str, type | tuple[type, ...]], where: str
) -> dict[str, Any]:
    """The object itself, if it has exactly these fields with values of these types."""
    if not isinstance(data, dict):
        raise Malformed(f"{where} must be an object with the fields {', '.join(fields)}")
    if missing := [name for name in fields if name not in data]:
        raise Malformed(f"{where} lacks {', '.join(missing)}")
    if unknown := [repr(name) for name in data if name not in fields]:
        raise Malformed(f"{where} has unknown fields: {', '.join(unknown)}")
    for name, kind in fields.items():
        kinds = kind if isinstance(kind, tuple) else (kind,)
        # In Python True is a whole number; in a file it is not.
        if type(data[name]) not in kinds:
            raise Malformed(f"{where}: {name} must be {_WORDS[kinds[-1]]}, not {data[name]!r}")
    return data


def _not_finite(text: str) -> NoReturn:
    raise Malformed(f"{text} is not a number that JSON knows")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise Malformed(f"the field {twice!r} is there more than once")
    return data

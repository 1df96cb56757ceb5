"""JSON from files and from peers, read strictly.

What is missing, unknown, there twice or of another type is refused with a sentence: whoever reads
on would take the content for something that it is not.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import isfinite
from typing import Any, NoReturn, TypeAlias

Types: TypeAlias = type | tuple[type, ...]
"""The type of a value, or those that it may have."""

NUMBER = (int, float)
"""The types of any number; it must be finite, which in JSON 1e999 is not."""

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


def check_fields(data: Any, fields: Mapping[str, Types], where: str) -> dict[str, Any]:
    """The object itself, if it has exactly these fields with values of these types."""
    if not isinstance(data, dict):
        raise Malformed(f"{where} must be an object with the fields {', '.join(fields)}")
    if missing := [name for name in fields if name not in data]:
        raise Malformed(f"{where} lacks {', '.join(missing)}")
    if unknown := [repr(name) for name in data if name not in fields]:
        raise Malformed(f"{where} has unknown fields: {', '.join(unknown)}")
    for name, types in fields.items():
        _check_type(data[name], types, f"{where}: {name}")
    return data


def check_items(data: Any, types: Types, where: str) -> list[Any]:
    """The list itself, if all its values are of these types."""
    if not isinstance(data, list):
        raise Malformed(f"{where} must be a list, not {data!r}")
    for value in data:
        _check_type(value, types, f"{where}: each of the list")
    return data


def _check_type(value: Any, types: Types, where: str) -> None:
    known = types if isinstance(types, tuple) else (types,)
    # In Python True is a whole number; in a file it is not.
    if type(value) not in known:
        raise Malformed(f"{where} must be {_WORDS[known[-1]]}, not {value!r}")
    if float in known and not _is_finite(value):
        raise Malformed(f"{where} must be a finite number, not {value!r}")


def _is_finite(value: float) -> bool:
    try:
        return isfinite(value)
    except OverflowError:  # an integer that no float64 can hold
        return False


def _not_finite(text: str) -> NoReturn:
    raise Malformed(f"{text} is not a number that JSON knows")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise Malformed(f"the field {twice!r} is there more than once")
    return data

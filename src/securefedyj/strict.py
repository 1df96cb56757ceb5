"""JSON from files and from peers, read strictly.

Missing, unknown or repeated fields and values of another type are errors. Neither the size nor the
form of a text can make the reader hold much more than the text itself; the limits are far beyond
what 20,000 features need.
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import fields, is_dataclass
from typing import Annotated, Any, NoReturn, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

from securefedyj.errors import CodedError
from securefedyj.printable import printable, shown

T = TypeVar("T")


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Data from a file or a peer, declared by annotations."""


Finite: TypeAlias = Annotated[float, Meta(ge=-sys.float_info.max, le=sys.float_info.max)]
"""A finite float64; in JSON it may be a whole number."""


def hexadecimal(size: int) -> Meta:
    """The annotation of a text that encodes `size` bytes."""
    return Meta(pattern=rf"\A[0-9a-f]{{{2 * size}}}\Z")


MOST_BYTES = 1 << 24
"""Of a text. The largest are a parameters.json (about 7 MB for 20,000 features) and a transcript's
last line."""
MOST_VALUES = 800_000
"""In lists and objects of one text; 20,000 features take some 350,000."""
MOST_LISTS = 100_000
"""And objects, of one text; 20,000 features take some 20,000."""
MOST_FIELDS = 1000
"""Of one object."""
MOST_DEPTH = 16
MOST_DIGITS = 4300
"""Of one number; Python reads no longer whole numbers."""

_KINDS = {"str": "a text", "int": "a whole number", "float": "a number", "bool": "true or false",
          "array": "a list", "object": "an object", "null": "nothing"}  # fmt: skip
_UNKNOWN = object()
_TOO_DEEP = "this is not of our form: it is nested too deeply"
_SMALL = 1 << 16  # bytes
# A text of our own has no such digits after one of these characters.
_LONG_NUMBER = re.compile(rf"(?:\A|[\[:,\s])-?[0-9]{{{MOST_DIGITS + 1}}}")


class Malformed(ValueError):
    """Content of another form; the message says where and why."""


def parse(text: str | bytes, most: int = MOST_BYTES) -> Any:
    """Parse a JSON text of at most `most` bytes; NaN, infinities and repeated keys are errors."""
    if len(text) > most:
        raise Malformed(f"{len(text)} bytes are too many; {most} are possible here")
    # We write ASCII only. One other character can make a whole text take four times its size.
    if len(text) > max(most // 16, _SMALL) and not text.isascii():
        raise Malformed(f"{len(text)} bytes that are not all ASCII are too many")
    try:
        decoded = text if isinstance(text, str) else text.decode()
        _check_extent(decoded)
        value = json.loads(decoded, parse_constant=_not_finite, object_pairs_hook=_once)
    except Malformed:
        raise
    except RecursionError:
        raise Malformed(_TOO_DEEP) from None
    except ValueError as error:
        raise Malformed(f"this is not JSON: {printable(str(error), 200)}") from None
    check_depth(value)
    return value


def convert(data: Any, kind: type[T], where: str) -> T:
    """Convert parsed data to a `Record`, a dataclass or another type, without coercion."""
    if is_dataclass(kind) and isinstance(data, dict):
        known = [field.name for field in fields(kind)]
        if unknown := [name for name in data if name not in known]:
            raise Malformed(
                f"{where} has an unknown field {shown(unknown[0])}; it may have {', '.join(known)}"
            )
    try:
        return msgspec.convert(data, kind, strict=True)
    except UnicodeEncodeError:
        raise Malformed(f"{where} has an escape that is half of a character") from None
    except msgspec.ValidationError as error:
        if isinstance(error.__cause__, CodedError):  # of the class's own checks
            raise error.__cause__ from None
        raise Malformed(f"{where}{_in_words(str(error), data)}") from None


def _in_words(text: str, data: Any) -> str:
    """msgspec's error in words, with the wrong value."""
    reason, _, place = text.rpartition(" - at ") if " - at " in text else (text, "", "`$`")
    field = re.sub(r"^`\$\.?|`$", "", place)
    value: Any = data
    for name, number in re.findall(r"([^.\[\]]+)|\[(\d+)\]", field.replace("[...]", ".?")):
        try:
            value = value[int(number)] if number else value[name]
        except (KeyError, IndexError, TypeError):
            value = _UNKNOWN
    expected, _, got = reason.removeprefix("Expected ").partition(", got ")
    start = f": {field}" if field else ""
    if reason.startswith("Object "):
        verb = "lacks" if "missing" in reason else "has an unknown field"
        return f"{start} {verb} {shown(reason.split('`')[1])}"
    if reason.startswith(("Invalid enum value", "Invalid value")):
        return f"{start} has the unknown value {shown(value)}"
    if not reason.startswith("Expected "):
        return f"{start or ':'} {reason[0].lower()}{reason[1:]}"
    words = re.sub(r"`([^`]+)`", lambda found: _kinds(found[1]), expected, count=1)
    secret = isinstance(value, str) and not got  # the text itself may be one
    said = "" if value is _UNKNOWN or secret else f", not {shown(value)}"
    return f"{start} must be {words}{said}"


def _kinds(names: str) -> str:
    return " or ".join(_KINDS.get(name, name) for name in names.split(" | "))


def check_depth(value: Any, left: int = MOST_DEPTH) -> None:
    """Refuse lists and objects that are nested too deeply to be shown."""
    if isinstance(value, list | dict):
        if left < 0:
            raise Malformed(_TOO_DEEP)
        for inner in value.values() if isinstance(value, dict) else value:
            check_depth(inner, left - 1)


def _not_finite(text: str) -> NoReturn:
    raise Malformed(f"{text} is not a number that JSON knows")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(pairs) > MOST_FIELDS:
        raise Malformed(f"an object has {len(pairs)} fields; {MOST_FIELDS} are possible")
    data = dict(pairs)
    if len(data) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise Malformed(f"the field {shown(twice)} is there more than once")
    return data


def _check_extent(text: str) -> None:
    """Refuse a text of many small values, which would take many times its size in memory."""
    # Those within strings are counted as well, and honest texts have few of them there.
    if text.count(",") > MOST_VALUES or text.count("[") + text.count("{") > MOST_LISTS:
        raise Malformed(f"this has more than {MOST_VALUES} values, or {MOST_LISTS} lists")
    if _LONG_NUMBER.search(text):
        raise Malformed(f"this has a number of more than {MOST_DIGITS} digits")

"""TOML read within bounds, and written."""

from __future__ import annotations

import json
import re
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
MOST_COMMAS = 200_000
"""Between values and in texts; a committee and the notes of 20,000 features have fewer."""


def parsed(path: Path | str) -> dict[str, Any]:
    """What a file contains; raises Malformed, or an error of TOML or UTF-8.

    The standard library reads any number of tables, on any number of levels, and keeps notes about
    each that are a hundred times longer than its name. So the text is checked before it is parsed.
    """
    text = read_within(path, MOST_BYTES).decode()
    _check_extent(text)
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


def _check_extent(text: str) -> None:
    """Refuse what would take much time or memory to read; no agreed file does."""
    heads, dots, lists, commas = set(), 0, 0, text.count(",")
    for line in re.finditer("[^\n]+", text):  # all lines at once would take many times the text
        bare = line[0].strip()
        if bare.startswith("["):
            heads.add(bare)
            dots += bare.count(".")
        elif not bare.startswith("#"):
            lists += bare.count("[") + bare.count("{")
            # The last piece is a value.
            dots += bare.rpartition("=")[0].count(".")
        if (
            len(heads) > MOST_TABLES
            or dots > MOST_DOTS
            or lists > MOST_LISTS
            or commas > MOST_COMMAS
        ):
            raise Malformed(
                "it has tables or lists that no agreed file has; ask for the file that "
                "`securefedyj new` wrote."
            )


def _check_numbers(data: Any) -> None:
    """Refuse whole numbers of more than 64 bits, which TOML does not guarantee."""
    if isinstance(data, int) and not -(2**63) <= data < 2**63:
        raise Malformed(f"{shown(data)} is too large for this file.")
    if isinstance(data, list | dict):
        for value in data.values() if isinstance(data, dict) else data:
            _check_numbers(value)


def write_table(head: str, entries: Mapping[str, Any]) -> str:
    """A table under its head, or the top of the file if that is empty."""
    lines = [head] if head else []
    lines += [f"{key} = {_value(value)}" for key, value in entries.items()]
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    """JSON's form, which TOML reads except for one character; a certificate has several lines."""
    text = json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    several = text.startswith('"-----BEGIN') and text.isascii() and "\\" not in value
    return f'"""\n{value.strip()}\n"""' if several else text

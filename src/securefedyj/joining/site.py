"""A site's own file, `securefedyj.toml`: options that stay at the site (docs/site.md).

Its keys are those of `joining.options`. Relative paths start at the folder of the file.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from securefedyj.errors import InputError, code_of
from securefedyj.files import read_within
from securefedyj.joining.options import DECLARED, JoinOptions, dialect_of
from securefedyj.printable import shown
from securefedyj.strict import Malformed, convert

FILE = "securefedyj.toml"
_MOST_BYTES = 1 << 24


class SiteError(InputError):
    """A site's file that cannot be used; the message is for the site alone."""


def read_site(path: Path) -> JoinOptions:
    """The options in the file of a site; SiteError says what to do about an unusable file."""
    entries = read_entries(path)
    for one in DECLARED.values():
        if one.required and one.name not in entries:
            raise SiteError("SFY-SITE-001", f"{path}: the file has no {one.name!r}; add it.")
    return JoinOptions.of(entries)


def read_entries(path: Path) -> dict[str, Any]:
    """The entries of a file, checked; paths do not depend on the current folder."""
    try:
        data = tomllib.loads(read_within(path, _MOST_BYTES).decode())
        return checked(data, path.parent, "the file")
    except FileNotFoundError:
        raise SiteError(
            "SFY-SITE-002",
            f"There is no {path}. This file names the agreed file, key and data of this site; "
            "docs/site.md describes it.",
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SiteError(
            "SFY-SITE-003",
            f"{path} is not a TOML file: {error}. Write paths of Windows in single quotes, such as "
            "'C:\\data\\rows.csv'; names with characters other than A-Z, 0-9, - and _ need quotes, "
            'such as "Größe".',
        ) from None
    except RecursionError:
        raise SiteError("SFY-SITE-004", f"{path}: it is nested too deeply.") from None
    except ValueError as error:
        raise SiteError(code_of(error, "SFY-SITE-005"), f"{path}: {error}") from None


def checked(data: Mapping[str, Any], folder: Path, where: str) -> dict[str, Any]:
    """Options of their types; `where` names the place that they come from."""
    entries = {}
    for key, value in data.items():
        if key not in DECLARED:
            known = ", ".join(sorted(DECLARED))
            raise Malformed(f"{where} has an unknown key {shown(key)}; it may have {known}.")
        one = DECLARED[key]
        if one.kind is dict and isinstance(value, dict):  # else the error would not name the entry
            for name, text in value.items():
                convert(text, str, f"{where}: {key}: {shown(name)}")
        entries[key] = convert(value, one.annotation, f"{where}: {key}")
        if one.kind is Path:
            if any(sign < " " for sign in value):  # "C:\temp" has a tab
                raise SiteError(
                    "SFY-SITE-006",
                    f"{where}: {key}: {shown(value)} has a character that no path has. In double "
                    "quotes \\ begins such a character; write paths of Windows in single quotes, "
                    "such as 'C:\\temp\\rows.csv'.",
                )
            entries[key] = folder / value
    dialect_of(entries)
    return entries

"""A site's own file, `securefedyj.toml`: what stays there, and nobody else can name (docs/site.md).

consortium = "/srv/securefedyj/consortium.toml"
key = "/srv/securefedyj/north.key"
certificate = "/srv/securefedyj/north.pem"
data = "/srv/securefedyj/north.csv"     # a helper has none
output = "/srv/securefedyj/result"      # one folder for each agreed file
missing = ["?"]                         # optional, as is all below
decimal = ","                           # how the table is written, as are the next three
thousands = "."
delimiter = ";"
encoding = "windows-1252"
own_minimum = 10
cache_mb = 2000
ledger = "/srv/securefedyj/ledger.jsonl"
timeout = 60                            # seconds
wait = 600
proxy = "http://proxy.example.org:3128" # on the way to the hub

[columns]                               # those that have other names here
"Alter" = "age"

Paths may be relative to the folder of the file.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from securefedyj.errors import InputError, code_of
from securefedyj.files import TooLarge, read_within
from securefedyj.network.consortium import toml
from securefedyj.network.session.peers import TIMEOUT, WAIT
from securefedyj.printable import shown
from securefedyj.strict import Malformed
from securefedyj.tables.dialect import Dialect

FILE = "securefedyj.toml"
_MOST_BYTES = 1 << 24

_REQUIRED = ("consortium", "key", "certificate", "output")
_PATHS = (*_REQUIRED, "data", "ledger")
_DIALECT = ("decimal", "thousands", "delimiter", "encoding")
_KINDS: dict[str, Any] = {
    **dict.fromkeys((*_PATHS, *_DIALECT, "proxy"), str),
    "missing": list,
    "own_minimum": int,
    "cache_mb": int,
    "timeout": (int, float),
    "wait": (int, float),
    "columns": dict,
}


class SiteError(InputError):
    """A site's file that cannot be used; the sentence is for the site alone."""


@dataclass(frozen=True)
class Site:
    """What a site has settled for itself."""

    consortium: Path
    key: Path
    certificate: Path
    output: Path
    data: Path | None = None
    ledger: Path | None = None
    missing: tuple[str, ...] = ()
    dialect: Dialect = field(default_factory=Dialect)
    cache_mb: int | None = None
    own_minimum: int = 0
    timeout: float = TIMEOUT
    wait: float = WAIT
    proxy: str | None = field(default=None, repr=False)

    def arguments(self) -> dict[str, Any]:
        """For `join` and `join_async`: ``await join_async(**site.arguments())``."""
        return dict(vars(self))


def read_site(path: Path) -> Site:
    """The file of a site; SiteError says what to do about one that cannot be used."""
    entries = read_entries(path)
    for key in _REQUIRED:
        if key not in entries:
            raise SiteError("SFY-SITE-001", f"{path}: the file has no {key!r}; add it.")
    entries["dialect"] = Dialect(**_dialect_of(entries))
    return Site(**{key: value for key, value in entries.items() if key in Site.__annotations__})


def read_entries(path: Path) -> dict[str, Any]:
    """What a file says, and no more: paths are whole, and everything has been checked."""
    try:
        return _checked(tomllib.loads(read_within(path, _MOST_BYTES).decode()), path.parent)
    except FileNotFoundError:
        raise SiteError(
            "SFY-SITE-002",
            f"There is no {path}, which says where this site has its agreed file, key and data; "
            "docs/site.md describes it.",
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SiteError(
            code_of(error, "SFY-SITE-003"),
            f"{path} is not a TOML file: {error}. Names with other signs than A-Z, 0-9, - and _ "
            'need quotes, such as "Größe".',
        ) from None
    except RecursionError:
        raise SiteError("SFY-SITE-004", f"{path}: it is nested too deeply.") from None
    except (TooLarge, ValueError) as error:
        raise SiteError(code_of(error, "SFY-SITE-005"), f"{path}: {error}") from None


def _checked(data: dict[str, Any], folder: Path) -> dict[str, Any]:
    toml.refuse_unknown("the file", data, set(_KINDS))
    entries = {key: toml.get(data, key, _KINDS[key], "the file") for key in data}
    entries |= {key: folder / entries[key] for key in _PATHS if key in entries}
    missing = entries["missing"] = tuple(entries.get("missing", ()))
    if not all(isinstance(text, str) for text in missing):
        raise Malformed("""'missing' must be a list of texts, such as ["?", "-999"].""")
    for here, agreed in entries.get("columns", {}).items():
        if not isinstance(agreed, str):
            raise Malformed(f'{shown(here)} needs a name in quotes, such as "age".')
    if not (entries.get("timeout", TIMEOUT) > 0 and entries.get("wait", WAIT) > 0):
        raise Malformed("timeout and wait must be positive.")
    if entries.get("own_minimum", 0) < 0 or entries.get("cache_mb", 0) < 0:
        raise Malformed("own_minimum and cache_mb must not be negative.")
    Dialect(**_dialect_of(entries))
    return entries


def _dialect_of(entries: Mapping[str, Any]) -> dict[str, Any]:
    """How the table is written, and which columns have other names, for `Dialect`."""
    said = {key: entries[key] for key in _DIALECT if key in entries}
    return {**said, "rename": entries.get("columns", {})}

"""A site's own file, `local/securefedyj.toml`: what stays there, and no job can name.

consortium = "/srv/securefedyj/consortium.toml"
key = "/srv/securefedyj/north.key"
certificate = "/srv/securefedyj/north.pem"
data = "/srv/securefedyj/north.csv"     # a helper has none
output = "/srv/securefedyj/result"      # one folder for each agreed file
missing = ["?"]                         # optional, as is all below
own_minimum = 0
ledger = "/srv/securefedyj/ledger.jsonl"
timeout = 60                            # seconds, as of `securefedyj join`
wait = 600

Paths may be relative to the folder of the file.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from securefedyj.files import TooLarge
from securefedyj.network import toml
from securefedyj.network.patience import TIMEOUT, WAIT
from securefedyj.strict import Malformed

FILE = "securefedyj.toml"

_PATHS = ("consortium", "key", "certificate", "output")
_OPTIONAL_PATHS = ("data", "ledger")
_OTHERS: dict[str, Any] = {"missing": [], "own_minimum": 0, "timeout": TIMEOUT, "wait": WAIT}
_KINDS: dict[str, Any] = {"missing": list, "own_minimum": int}


class SiteError(ValueError):
    """A site's file that cannot be used; the sentence is for the site alone."""


@dataclass(frozen=True)
class Site:
    """What a site has settled for itself."""

    consortium: Path
    key: Path
    certificate: Path
    output: Path
    data: Path | None
    ledger: Path | None
    missing: tuple[str, ...]
    own_minimum: int
    timeout: float
    wait: float


def read_site(folder: Path, name: str) -> Site:
    """The file of a site: `securefedyj.toml` in its folder `local`.

    Sites of FLARE's simulator have the same folder `local`; theirs are in `local/NAME`.
    """
    path = folder / name / FILE if (folder / name / FILE).exists() else folder / FILE
    try:
        return _from_toml(toml.read(path), path.parent)
    except FileNotFoundError:
        raise SiteError(
            f"There is no {path}, which says where this site has its agreed file, key and data; "
            "docs/flare.md describes it."
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SiteError(f"{path} is not a TOML file: {error}.") from None
    except (Malformed, TooLarge) as error:
        raise SiteError(f"{path}: {error}") from None


def _from_toml(data: dict[str, Any], folder: Path) -> Site:
    toml.refuse_unknown("the file", data, {*_PATHS, *_OPTIONAL_PATHS, *_OTHERS})
    entries: dict[str, Any] = dict.fromkeys(_OPTIONAL_PATHS)
    for key in (*_PATHS, *(key for key in _OPTIONAL_PATHS if key in data)):
        entries[key] = folder / toml.get(data, key, str, "the file")
    others = {
        key: toml.get({**_OTHERS, **data}, key, _KINDS.get(key, (int, float)), "the file")
        for key in _OTHERS
    }
    if not all(isinstance(text, str) for text in others["missing"]):
        raise Malformed("'missing' must be a list of texts.")
    if not (others["timeout"] > 0 and others["wait"] > 0 and others["own_minimum"] >= 0):
        raise Malformed("timeout and wait must be positive, and own_minimum not negative.")
    return Site(**entries, **others | {"missing": tuple(others["missing"])})

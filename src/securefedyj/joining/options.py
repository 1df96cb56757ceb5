"""The options of `securefedyj join`, declared once: name, type, default, bounds and help.

From `JoinOptions` follow the arguments of `securefedyj.join`, the keys of the site's own file
(`joining.site`) and the options of the command line (`cli.options`). To add an option, add a field
here and the argument to `join_async`; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from msgspec import Meta

from securefedyj.errors import InputError
from securefedyj.network.consortium import Consortium
from securefedyj.network.session.peers import TIMEOUT, WAIT
from securefedyj.strict import Malformed, convert
from securefedyj.tables.dialect import Dialect


@dataclass(frozen=True)
class Option:
    """What the help shows, and the code of the error about a value out of bounds.

    The other fields follow from the field of `JoinOptions` that has this annotation.
    """

    metavar: str = ""
    help: str = ""
    code: str = ""
    name: str = ""
    kind: type = str  # Path, str, int, float, tuple or dict
    annotation: Any = str  # type and bounds of the value in a file, where a path is a text
    required: bool = False
    default: Any = None

    @property
    def flag(self) -> str:
        """The name on the command line."""
        return f"--{self.name.replace('_', '-')}"


_SECONDS = "SFY-JOIN-001"

AtLeast0 = Annotated[int, Meta(ge=0)]
Seconds = Annotated[float, Meta(gt=0)]


@dataclass(frozen=True)
class JoinOptions:
    """What a party decides about its part in a run. Only the first four are required."""

    consortium: Annotated[Path | Consortium, Option("FILE", "agreed file, consortium.toml")]
    key: Annotated[Path, Option("KEY", "private key of the certificate; its mode must be 600")]
    certificate: Annotated[
        Path, Option("CERT.pem", "certificate of this party, as in the agreed file")
    ]
    output: Annotated[
        Path,
        Option("FOLDER", "folder for the result; to resume an interrupted run, give the same one"),
    ]
    data: Annotated[
        Path | Any,
        Option("TABLE", "table of this silo: CSV, Excel, Parquet (docs/tables.md), or a folder"),
    ] = field(default=None, repr=False)  # it may hold the rows
    missing: Annotated[
        tuple[str, ...],
        Option(
            "TEXT",
            "another text for a missing value, besides an empty cell, NA, N/A, NaN and null, for "
            'example --missing "?" or --missing=-999',
        ),
    ] = ()
    without: Annotated[
        tuple[str, ...],
        Option(
            "COLUMN",
            "take part without the values of this column, as if all were missing here",
        ),
    ] = ()
    dialect: Dialect = field(default_factory=Dialect)
    cache_mb: Annotated[
        AtLeast0 | None,
        Option(
            "N",
            "memory in MB for keeping rows between passes over the table; with less memory, a "
            "run takes longer (default: a quarter of the machine's memory)",
            "SFY-JOIN-003",
        ),
    ] = None
    own_minimum: Annotated[
        AtLeast0, Option("N", "ignore features with fewer than N local values", "SFY-JOIN-002")
    ] = 0
    ledger: Annotated[
        Path | None,
        Option(
            "FILE",
            "local list of runs, for warnings before another run over the same columns; it is "
            "never sent (default: ~/.securefedyj/ledger.jsonl)",
        ),
    ] = None
    submissions: Annotated[
        Path | None,
        Option("FOLDER", "folder with submissions that came by another way than the hub's mailbox"),
    ] = None
    timeout: Annotated[
        Seconds, Option("SECONDS", "silence after which a party counts as lost", _SECONDS)
    ] = TIMEOUT
    wait: Annotated[
        Seconds, Option("SECONDS", "how long to wait for parties without any progress", _SECONDS)
    ] = WAIT
    proxy: Annotated[
        str | None,
        Option(
            "URL",
            "HTTP proxy between this machine and the hub, such as http://proxy.example.org:3128 "
            "(default: the variable https_proxy, except for hosts in no_proxy); its user name and "
            "password belong in SECUREFEDYJ_PROXY_AUTH=USER:PASSWORD",
        ),
    ] = field(default=None, repr=False)
    report: bool = True

    def __post_init__(self) -> None:
        for one in DECLARED.values():
            value = getattr(self, one.name, None)
            if one.kind is Path and isinstance(value, str | PathLike):
                object.__setattr__(self, one.name, Path(value))
            if one.code and value is not None:
                try:
                    convert(one.kind(value), one.annotation, one.flag)
                except Malformed as error:
                    raise InputError(one.code, f"{error}.") from None

    @classmethod
    def of(cls, values: Mapping[str, Any], dialect: Dialect | None = None) -> JoinOptions:
        """The options of these values by their names; None counts as left out."""
        own = {name: values[name] for name in cls.__annotations__ if values.get(name) is not None}
        return cls(**own | {"dialect": dialect or dialect_of(values)})

    def agreed(self) -> Consortium:
        given = self.consortium
        return given if isinstance(given, Consortium) else Consortium.read(given)

    def arguments(self) -> dict[str, Any]:
        """For `join` and `join_async`: ``await join_async(**options.arguments())``."""
        return dict(vars(self))


def _declared() -> Iterator[Option]:
    for name, hint in get_type_hints(JoinOptions, include_extras=True).items():
        for option in (one for one in getattr(hint, "__metadata__", ()) if type(one) is Option):
            kind = hint
            while (origin := get_origin(kind)) not in (None, tuple):
                kind = get_args(kind)[0]  # X of Annotated[X, ...] and of X | None
            yield replace(
                option,
                name=name,
                kind=origin or kind,
                annotation=str if kind is Path else hint,
                required=not hasattr(JoinOptions, name),
                default=getattr(JoinOptions, name, None),
            )


DIALECT = {
    "decimal": Option("CHARACTER", "decimal separator in CSV (default: point)"),
    "thousands": Option("CHARACTER", "digit group separator in CSV, such as the comma in 10,286"),
    "delimiter": Option(
        "CHARACTER", 'cell separator in CSV, or "tab" (default: detected in the file)'
    ),
    "encoding": Option(
        "NAME", "encoding of CSV, such as windows-1252 (default: by byte order mark, or UTF-8)"
    ),
    "sheet": Option("NAME", "sheet of an Excel workbook, if it has several"),
    "below_limit": Option(
        "WAY",
        "what a cell such as <0.5, below a limit of detection, stands for: half of the limit "
        "(half), zero, or missing; docs/tables.md compares them",
    ),
    "columns": Option(
        help="columns that have other names in the table: one HERE=AGREED in each line",
        kind=dict,
        annotation=dict[str, str],
    ),
}
"""`JoinOptions.dialect` in a file and on the command line."""

DECLARED = {one.name: one for one in _declared()}
DECLARED |= {name: replace(one, name=name) for name, one in DIALECT.items()}
"""All options that a file or a command line can give."""


def dialect_of(values: Mapping[str, Any]) -> Dialect:
    """The dialect that some of these values give; None counts as left out."""
    given = {name: values[name] for name in DIALECT if values.get(name) is not None}
    return Dialect(rename=given.pop("columns", {}), **given)

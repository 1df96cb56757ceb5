"""The site's own file, `securefedyj.toml`: it has the options that were not given."""

from __future__ import annotations

import argparse
from pathlib import Path

from securefedyj.printable import printable


def add_site(parser: argparse.ArgumentParser) -> None:
    """Add the option --site, which `fill_from_site` reads."""
    parser.add_argument(
        "--site",
        type=Path,
        metavar="FILE.toml",
        help="your own file with the options that are not given (default: securefedyj.toml beside "
        "the data, or in this folder without --data; docs/site.md)",
    )


def fill_from_site(options: argparse.Namespace) -> str:
    """Fill in what was not given; return a sentence about the file, if there is one."""
    from securefedyj.joining.site import FILE, read_entries

    path: Path = options.site or (options.data or Path(FILE)).parent / FILE
    if options.site is None and not path.exists():
        return ""
    entries = read_entries(path)
    options.own_columns = entries.pop("columns", {})
    options.missing = [*entries.pop("missing"), *options.missing]
    options.file = options.file or entries.get("consortium")
    for key in entries.keys() & vars(options).keys():
        if getattr(options, key) is None:
            setattr(options, key, entries[key])
    return f"What is not given here is read from {printable(str(path))}."


def refuse_unless_given(options: argparse.Namespace, *names: str) -> None:
    """End with the usage if something was given neither here nor in the site's own file."""
    lacking = [name for name in names if getattr(options, name) is None]
    if lacking:
        words = ", ".join("FILE" if name == "file" else f"--{name}" for name in lacking)
        options.wrong_usage(f"the following arguments are required: {words}")

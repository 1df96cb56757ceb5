"""The report of a run: a page, its charts, and the other files of a result."""

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined

from securefedyj.printable import printable, printable_lines


@cache
def templates(package: str) -> Environment:
    """The folder `templates` of a package. What they insert is escaped, except in plain text."""
    environment = Environment(
        loader=PackageLoader(package),
        autoescape=lambda name: name is None or not name.endswith(".txt"),
        # Applied to all that is inserted, before it is escaped.
        finalize=lambda x: printable_lines(x) if type(x) is str else x,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["printable"] = printable
    return environment

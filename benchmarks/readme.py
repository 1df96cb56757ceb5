"""Write the measured tables into the pages, from the JSON files that `make bench` saves.

Each table stands between two comments that name its file and its heading is left alone:

    <!-- table: bench.json -->
    ...
    <!-- end -->
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import engines, network, pooled, relay, secure

TABLES: dict[str, Callable[[dict[str, Any]], str]] = {
    "bench.json": lambda data: pooled.table(data["results"]),
    "secure.json": lambda data: "\n\n".join(
        (secure.paper_table(data), secure.cost_table(data), secure.caption(data))
    ),
    "network.json": lambda data: f"{network.table(data)}\n\n{network.caption(data)}",
    "engines.json": lambda data: "\n\n".join(
        (engines.table(data["results"]), engines.caption(data["results"]))
    ),
    "relay.json": lambda data: relay.table(data["results"]),
}


def fill(text: str, folder: Path) -> str:
    """Return the text with each table replaced whose file is in the folder."""

    def replaced(match: re.Match[str]) -> str:
        path = folder / match["name"]
        if not path.exists():
            return match[0]
        body = TABLES[match["name"]](json.loads(path.read_text()))
        return f"<!-- table: {match['name']} -->\n{body}\n<!-- end -->"

    return re.sub(r"<!-- table: (?P<name>\S+) -->\n.*?<!-- end -->", replaced, text, flags=re.S)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, default=Path("out"))
    pages = [Path("docs/benchmarks.md"), Path("docs/hub.md")]
    parser.add_argument("--pages", type=Path, nargs="+", default=pages, metavar="FILE")
    arguments = parser.parse_args()
    for page in arguments.pages:
        text = page.read_text(encoding="utf-8")
        page.write_text(fill(text, arguments.results), encoding="utf-8")


if __name__ == "__main__":
    main()

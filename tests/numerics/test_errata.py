"""docs/paper.md: every demonstration prints what the page shows.

`python tests/test_errata.py` writes the outputs into the page anew.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "paper.md"
_BLOCK = re.compile(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```)?", re.DOTALL)


def demonstrations() -> tuple[str, list[tuple[str, str, str]]]:
    """What all share, then heading, code and shown output of each."""
    shared, *sections = PAGE.read_text(encoding="utf-8").partition("## Errata")[2].split("\n### ")
    blocks = [(section.split("\n")[0], _BLOCK.search(section)) for section in sections]
    found = [(title, block[1], block[2]) for title, block in blocks if block]
    return _BLOCK.search(shared)[1], found  # type: ignore[index]


def output(code: str, namespace: dict[str, object]) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, str(PAGE), "exec"), namespace)
    return printed.getvalue()


def run_until(title: str) -> str:
    """Run one demonstration after those before it, which it may build on."""
    shared, found = demonstrations()
    namespace: dict[str, object] = {}
    output(shared, namespace)
    for name, code, _ in found:
        printed = output(code, namespace)
        if name == title:
            return printed
    raise KeyError(title)


@pytest.mark.parametrize(
    ("title", "shown"), [(title, shown) for title, _, shown in demonstrations()[1]]
)
@pytest.mark.filterwarnings("ignore")
def test_demonstration_prints_what_the_page_shows(title: str, shown: str) -> None:
    assert run_until(title) == shown


def test_every_erratum_has_a_demonstration() -> None:
    headings = re.findall(r"^### \d+\.", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(demonstrations()[1]) == len(headings) >= 6


def main() -> None:
    sys.path.insert(0, str(PAGE.parents[1]))
    text = PAGE.read_text(encoding="utf-8")
    for title, code, shown in demonstrations()[1]:
        fresh = f"```python\n{code}```\n\n```text\n{run_until(title)}```"
        text = text.replace(f"```python\n{code}```\n\n```text\n{shown}```", fresh)
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

"""The documents: their links lead somewhere, and they quote messages as the program says them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "securefedyj"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
TROUBLESHOOTING = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")

# What users of the network's commands meet. Errors of parties that do not follow the protocol are
# described there in one place.
MODULES = (
    "cli/network", "files", "parameters", "tables/files",
    "network/channels", "network/checkpoint", "network/consortium", "network/hub",
    "network/identity", "network/link", "network/participant", "network/patience", "network/peers",
    "network/progress", "network/records", "network/run", "network/session", "network/sessions",
    "network/states", "network/tls",
)  # fmt: skip
INTERNAL = (
    "A party does not send ", " names do not fit an array of shape ",
    # Of a record that cannot be read, the user is told only that.
    " has no content", "a clock shows a finite number", "nobody has revealed less than nothing",
    " bytes are ", " hexadecimal digits",
)  # fmt: skip


def constants(tree: ast.AST) -> Iterator[str]:
    """The fixed parts of all texts, as Python joins them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
            yield node.value if isinstance(node.value, str) else node.value.decode("latin-1")


def errors(module: str) -> Iterator[list[str]]:
    """The fixed parts of the sentences of each message that a module raises."""
    for node in ast.walk(ast.parse((SOURCE / f"{module}.py").read_text(encoding="utf-8"))):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
            texts = constants(node.exc.args[0])
            parts = [piece for text in texts for piece in re.split(r"`|(?<=\.) ", text)]
            parts = [part.strip(" .;:(") for part in parts if part not in INTERNAL]
            if max(map(len, parts), default=0) > 8:
                yield [part for part in parts if len(part) > 8]


def heading(line: str) -> str:
    """The anchor that a heading of Markdown gets."""
    return re.sub(r"[^\w\- ]", "", line.lstrip("# ").lower()).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"\w+:", target):
            continue  # another site
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        assert file.exists(), f"{page.name} links to {target}"
        if anchor:
            lines = file.read_text(encoding="utf-8").splitlines()
            assert anchor in [heading(line) for line in lines if line.startswith("#")], target


def test_messages_are_quoted_as_the_program_says_them():
    texts = [
        part
        for path in SOURCE.rglob("*.py")
        for part in constants(ast.parse(path.read_text(encoding="utf-8")))
    ]
    quoted = re.findall(r"`([^`]+)`", TROUBLESHOOTING)
    for message in (quote for quote in quoted if "…" in quote or quote.count(" ") > 3):
        for fixed in (part.strip() for part in message.split("…")):
            assert any(fixed in text for text in texts), f"nothing says {fixed!r} of {message!r}"


@pytest.mark.parametrize("module", MODULES)
def test_every_error_of_the_network_is_explained(module):
    for fixed in errors(module):
        assert any(part in TROUBLESHOOTING for part in fixed), f"{module} says {fixed}"

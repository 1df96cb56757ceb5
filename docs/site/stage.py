"""Put together the pages of the site, from those of the repository, for Sphinx to build.

The pages of the repository are plain Markdown that stands alone. Here they get what only the site
can have: one folder for all, a list of all pages (in the order of docs/index.md, whose headings are
its captions), the docstrings after docs/api.md and the help of each command after docs/commands.md.
"""

from __future__ import annotations

import importlib
import os
import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

# Pages of the repository that are not in docs/, and what they are called in the site.
FROM_ROOT = {"README.md": "overview.md", "CHANGELOG.md": "changelog.md",
             "CONTRIBUTING.md": "contributing.md", "SECURITY.md": "reporting.md"}  # fmt: skip
GALLERY = "gallery/index.rst"  # which sphinx-gallery makes from docs/examples

_LINK = re.compile(r"(\]\()([^)\s#:]+)(#[^)\s]*)?\)")
_CODE = re.compile(r"(^```.*?^```$|`[^`\n]+`)", flags=re.M | re.S)


def stage(folder: Path) -> None:
    """Write the pages of the site into the folder, which is made again."""
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("images", "r"):
        shutil.copytree(DOCS / name, folder / name)
    notebooks = shutil.ignore_patterns("*.py", "*.rst", "__pycache__", ".*")
    shutil.copytree(DOCS / "examples", folder / "examples", ignore=notebooks)
    sources = [*DOCS.glob("*.md"), *(ROOT / name for name in FROM_ROOT)]
    for source in sources:
        page = with_links_of_site(source.read_text(encoding="utf-8"), source)
        if source == DOCS / "index.md":
            page += list_of_pages(page)
        elif source == DOCS / "api.md":
            page = with_docstrings(page)
        elif source == DOCS / "commands.md":
            page += help_of_commands()
        (folder / name_in_site(source)).write_text(page, encoding="utf-8")


def name_in_site(path: Path) -> str:
    """Where a file of the repository is in the site."""
    if path.parent == ROOT and path.name in FROM_ROOT:
        return FROM_ROOT[path.name]
    if path == DOCS / "examples" / "README.rst":
        return GALLERY
    if path.parent == DOCS / "examples" and path.suffix == ".py":
        return f"gallery/{path.stem}.rst"
    if DOCS in path.parents:
        return path.relative_to(DOCS).as_posix()
    raise ValueError(f"the site has no {path}: do not link to it from its pages")


def with_links_of_site(page: str, source: Path) -> str:
    """The page with its links between files as they are in the site."""

    def link(match: re.Match[str]) -> str:
        path = Path(os.path.normpath(source.parent / match[2]))
        return f"{match[1]}{name_in_site(path)}{match[3] or ''})"

    parts = _CODE.split(page)
    return "".join(part if k % 2 else _LINK.sub(link, part) for k, part in enumerate(parts))


def list_of_pages(index: str) -> str:
    """The pages that the start page links to, under its headings."""
    seen, text = set(), ""
    for section in re.split(r"^## ", index, flags=re.M):
        caption, _, body = section.partition("\n")
        pages = [match[2].rpartition(".")[0] for match in _LINK.finditer(body)]
        pages = [page for page in dict.fromkeys(pages) if page not in seen]
        seen.update(pages)
        caption = caption if not caption.startswith("# ") else "Overview"
        text += "\n".join(["", "```{toctree}", ":hidden:", f":caption: {caption}", *pages, "```\n"])
    return text


def with_docstrings(page: str) -> str:
    """The page with a table, and a page of their own, for the names that it lists."""

    def table(match: re.Match[str]) -> str:
        names = re.findall(r"`([\w.]+)`", match[0])
        lines = [line for name in names for line in _names(name)]
        directive = [".. autosummary::", "   :toctree: api", "   :nosignatures:", "",
                     *(f"   ~{line}" for line in lines)]  # fmt: skip
        # autosummary looks for what it has to write in reStructuredText alone.
        return "\n".join(["```{eval-rst}", *directive, "```", ""])

    return re.sub(r"(^- `[\w.]+`\n)+", table, page, flags=re.M)


def _names(name: str) -> list[str]:
    module, _, last = name.rpartition(".")
    if last != "__all__":
        return [name]
    return [f"{module}.{public}" for public in importlib.import_module(module).__all__]


def help_of_commands() -> str:
    """What `--help` prints, for each command."""
    from securefedyj.cli.main import parsers

    os.environ["COLUMNS"] = "80"
    text = ""
    for command, parser in parsers()[1].items():
        text += f"\n## {command}\n\n```text\n{parser.format_help()}```\n"
    return text


if __name__ == "__main__":
    stage(Path(sys.argv[1]))

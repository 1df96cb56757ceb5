"""The site: every page has its place in it, its links lead somewhere, and its examples run."""

from __future__ import annotations

import io
import re
import runpy
from contextlib import redirect_stdout
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
EXAMPLES = sorted((DOCS / "examples").glob("*.py"))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages that Sphinx builds the site from."""
    folder = tmp_path_factory.mktemp("site") / "pages"
    runpy.run_path(str(DOCS / "site" / "stage.py"))["stage"](folder)
    return folder


def listed(site: Path) -> list[str]:
    """The pages in the site's list of pages."""
    trees = re.findall(r"```\{toctree\}\n(.*?)```", (site / "index.md").read_text(), flags=re.S)
    return [line for tree in trees for line in tree.splitlines() if line[0] != ":"]


def test_every_page_is_listed_once(site):
    pages = [path.stem for path in site.glob("*.md") if path.stem != "index"]
    assert sorted(listed(site)) == sorted([*pages, "gallery/index"])
    assert len(pages) >= len(list(DOCS.glob("*.md")))


def test_links_of_the_site_lead_somewhere(site):
    for page in site.glob("*.md"):
        text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)
        for target in re.findall(r"\]\(([^)\s#:]+)[)#]", text):
            if not target.startswith("gallery/"):
                assert (site / target).exists(), f"{page.name} links to {target}"


def test_all_that_is_public_is_in_the_api_page(site):
    import securefedyj

    text = (site / "api.md").read_text()
    for name in securefedyj.__all__:
        assert re.search(rf"^   ~securefedyj\.{name}$", text, flags=re.M)


def test_every_command_is_on_its_page(site):
    from securefedyj.cli.main import parsers

    text = (site / "commands.md").read_text()
    for command in parsers()[1]:
        assert f"\n| `{command}` | " in text
        assert f"\n```text\nusage: securefedyj {command} " in text


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(example, tmp_path, monkeypatch):
    """Each checks what it says by assertions of its own."""
    matplotlib = pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    matplotlib.use("Agg")
    shown = io.StringIO()
    with redirect_stdout(shown):
        runpy.run_path(str(example))
    assert shown.getvalue()
    assert not list(tmp_path.iterdir())
    matplotlib.pyplot.close("all")


def test_the_gallery_has_its_eight_examples():
    assert len(EXAMPLES) == 8

"""docs/python.md and the notebook run as they stand, one block after the other."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from securefedyj.joining.site import read_site

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "python.md").read_text(encoding="utf-8")
NOTEBOOK = json.loads((DOCS / "examples" / "join.ipynb").read_text(encoding="utf-8"))
SITE = (DOCS / "site.md").read_text(encoding="utf-8")


def executed(blocks: list[str]) -> tuple[dict[str, Any], str]:
    """The names that blocks leave, and what they print; `await` may stand where it may in cells."""
    names: dict[str, Any] = {"__name__": "__main__"}

    async def run() -> None:
        for block in blocks:
            code = compile(block, "block", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            waiting = eval(code, names)
            if inspect.isawaitable(waiting):
                await waiting

    with contextlib.redirect_stdout(io.StringIO()) as shown:
        asyncio.run(run())
    return names, shown.getvalue()


@pytest.mark.processes
def test_the_page_runs_and_prints_what_it_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names, shown = executed(re.findall(r"^```python\n(.*?)^```$", PAGE, flags=re.M | re.S))
    (last,) = re.findall(r"The last line printed is `(.*?)`", PAGE)
    assert last in shown.splitlines()
    assert re.search("(?m)crp.*CRP", shown)  # the error
    for fitted in (*names["fitted"], *names["results"], names["resumed"]):
        np.testing.assert_array_equal(fitted.lambdas_, names["fitted"][0].lambdas_)


@pytest.mark.processes
def test_the_notebook_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cells = [cell for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]
    assert not any(cell["outputs"] or cell["execution_count"] for cell in cells)
    names, shown = executed(["".join(cell["source"]) for cell in cells])
    assert "The result is here." in shown
    assert "exchange 1/" in shown
    np.testing.assert_allclose(names["south"].lambdas_, names["pooled"].lambdas_, atol=1e-6)


def test_the_script_of_a_hospital_names_what_is_there():
    from securefedyj import join

    (script,) = re.findall(r"^```python at a hospital\n(.*?)^```$", PAGE, flags=re.M | re.S)
    (call,) = (
        node
        for node in ast.walk(ast.parse(script))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "securefedyj.join"
    )
    inspect.signature(join).bind(*call.args, **{str(word.arg): word for word in call.keywords})


def test_the_file_of_a_site_is_as_the_page_shows_it(tmp_path):
    (words,) = re.findall(r"^```toml\n(.*?)^```$", SITE, flags=re.M | re.S)
    (tmp_path / "securefedyj.toml").write_text(words)
    site = read_site(tmp_path / "securefedyj.toml")
    assert site.data == tmp_path / "north.csv"
    assert (site.dialect.decimal, site.dialect.thousands) == (",", ".")
    assert site.dialect.rename == {"Alter": "age", "Laktat": "lactate"}

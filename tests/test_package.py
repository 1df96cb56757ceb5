"""The package itself: what `import securefedyj` offers, and what it does not load."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import securefedyj
from securefedyj import kernel
from tests.protocol.small_run import small_run

PROGRAM = """
import sys
import securefedyj
assert not {"sklearn", "numpy"} & sys.modules.keys(), "loaded before anybody asks"
assert {*securefedyj.__all__, "parameters"} <= set(dir(securefedyj))
securefedyj.parameters.save
assert all(hasattr(securefedyj, name) for name in securefedyj.__all__)
assert not hasattr(securefedyj, "no_such_name")
"""


def test_what_is_public_is_there_and_loaded_when_it_is_asked_for():
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)


def test_the_wheel_contains_all_files_of_the_package():
    """Templates, style sheets and sources in C; an editable installation would not miss them."""
    root = Path(securefedyj.__file__).parent
    settings = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())
    patterns = settings["tool"]["setuptools"]["package-data"]["securefedyj"]
    listed = {path for pattern in patterns for path in root.glob(pattern)}
    files = {path for path in root.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert {path for path in files if path.suffix not in (".py", ".so")} == listed


ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = PROJECT["project"]["optional-dependencies"]
LOCKS = {
    "run": PROJECT["project"]["dependencies"],
    "dev": PROJECT["project"]["dependencies"] + EXTRAS["dev"] + EXTRAS["excel"] + EXTRAS["dask"],
    "docs": PROJECT["project"]["dependencies"] + EXTRAS["docs"] + EXTRAS["plot"],
    "dist": PROJECT["dependency-groups"]["dist"],
    "build": PROJECT["build-system"]["requires"],
}


@pytest.mark.parametrize("lock", LOCKS)
def test_locks_have_what_pyproject_asks_for_each_with_hashes(lock):
    """After a change of pyproject.toml, `make lock` writes them."""
    text = (ROOT / "locks" / f"{lock}.txt").read_text(encoding="utf-8").replace("\\\n", " ")
    entries = [line for line in text.splitlines() if line.strip() and line.strip()[0] != "#"]
    assert all(re.search(r" --hash=sha256:[0-9a-f]{64}", entry) for entry in entries)
    locked = {}
    for name, version in re.findall(r"^([\w.-]+)==([\w.]+)", text, flags=re.M):
        locked.setdefault(canonicalize_name(name), []).append(version)
    for requirement in map(Requirement, LOCKS[lock]):
        if requirement.name != "securefedyj":
            versions = locked[canonicalize_name(requirement.name)]
            assert all(version in requirement.specifier for version in versions), requirement


REPORT = """
import sys
from securefedyj.cli import main
assert main(["report", *sys.argv[1:]]) == 0
assert not {"pandas", "scipy.stats", "sklearn"} & sys.modules.keys(), "they take seconds to load"
"""


def test_a_report_needs_no_scikit_learn(tmp_path: Path) -> None:
    transcript = tmp_path / "transcript.jsonl"
    lines = small_run().to_lines()
    transcript.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    page = tmp_path / "report.html"
    command = [sys.executable, "-c", REPORT, str(transcript), "--output", str(page)]
    subprocess.run(command, check=True)
    assert page.stat().st_size > 10_000


def test_the_program_runs_as_a_module() -> None:
    told = subprocess.check_output([sys.executable, "-m", "securefedyj", "--version"], text=True)
    assert told == f"securefedyj {securefedyj.__version__} ({kernel.described()})\n"

"""The documents: their links lead somewhere, and commands and messages are those of the program."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from securefedyj.cli.main import parsers

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "securefedyj"
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    *sorted((ROOT / "docs").glob("*.md")),
]


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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_tests_and_modules_that_a_page_names_are_there(page):
    """By a path from the root or from the package, or by a name alone."""
    folders = [ROOT / name for name in ("src", "tests", "benchmarks", "experiments")]
    files = [path for folder in folders for path in folder.rglob("*.py")]
    known = {path.relative_to(ROOT).as_posix() for path in files}
    known |= {path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py")}
    names = {Path(path).name for path in known}
    for named in re.findall(r"`([\w/]+\.py)`", page.read_text(encoding="utf-8")):
        assert named in (known if "/" in named else names), f"{page.name} names {named}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_programs_that_a_page_names_are_there_and_take_what_they_are_given(page):
    """By `make` and by `python -m`."""
    text = page.read_text(encoding="utf-8")
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    assert set(re.findall(r"`make ([\w-]+)", text)) <= set(targets)
    ours = r"python -m ((?:tests|benchmarks|experiments)[\w.]*)([^`|#)\n]*)"
    for module, arguments in re.findall(ours, text):
        path = ROOT / module.replace(".", "/")
        program = (path / "__main__.py" if path.is_dir() else path.with_suffix(".py")).read_text()
        for option in re.findall(r"--[\w-]+", arguments):
            assert f'"{option}"' in program, f"{module} has no {option}"
        if words := re.sub(r"--[\w-]+( \S+)?", "", arguments).split():
            assert re.search(r'add_argument\(\s*"(?!--)', program), f"{module} takes no {words}"


@pytest.fixture(scope="module")
def options() -> dict[str, set[str]]:
    """The options of each command, from its help."""
    return {
        command: set(re.findall(r"--[a-z][a-z-]+", parser.format_help()))
        for command, parser in parsers()[1].items()
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_are_given_options_that_they_have(page, options):
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    for command, rest in re.findall(r"securefedyj ([a-z]+)\b([^`|\n]*)", text):
        for option in re.findall(r"(?<=\s)--[a-z][a-z-]+", rest):
            assert option in options.get(command, [option]), f"{command} has no {option}"


def test_the_codes_of_errors_on_the_page_are_those_of_the_program_and_in_order():
    page = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    sources = [path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py")]
    known = {code for text in sources for code in re.findall(CODE, text)}
    assert set(re.findall(CODE, page)) <= known
    assert {code[:-3] for code in re.findall(CODE, page)} == {code[:-3] for code in known}
    for section in page.split("\n## "):
        entries = re.findall(rf"^- \*\*({CODE})\*\*", section, flags=re.M)
        assert entries == sorted(set(entries))


CODE = r"SFY-[A-Z]+-\d{3}"


def test_every_extra_is_on_the_page_about_installing():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \|", page, flags=re.M)
    assert set(rows) == set(project["optional-dependencies"])


CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_the_map_has_every_room():
    rooms = [path for path in SOURCE.iterdir() if path.suffix in ("", ".py")]
    rooms = [path for path in rooms if not path.name.startswith("__")]
    rooms += [ROOT / name for name in ("experiments", "benchmarks", "tests", "docs")]
    for room in rooms:
        assert re.search(rf"`{room.stem}(/|\.py)?`", CONTRIBUTING), f"{room.name} is not on the map"


def test_the_walk_of_a_value_leads_through_what_is_there():
    steps = re.findall(r"^\| `([\w/]+\.py)`: (`[^|]+`) \|", CONTRIBUTING, flags=re.M)
    assert len(steps) > 10
    for file, names in steps:
        tree = ast.parse((SOURCE / file).read_text(encoding="utf-8"))
        there = set(definitions(tree))
        for name in re.findall(r"`([\w.]+)`", names):
            assert name in there, f"{file} has no {name}"


def definitions(tree: ast.AST, within: str = "") -> Iterator[str]:
    """Names of functions and classes, and of methods after their class."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield within + node.name
            if isinstance(node, ast.ClassDef):
                yield from definitions(node, f"{node.name}.")


def test_pre_commit_runs_what_make_lint_runs():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (recipe,) = re.findall(r"^lint:.*\n((?:\t.*\n)+)", makefile, flags=re.M)
    commands = [line.strip().replace("$(BIN)", ".venv/bin") for line in recipe.splitlines()]
    hooks = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    assert re.findall(r"^ +entry: (.*)$", hooks, flags=re.M) == commands


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.stem)
def test_the_first_sentence_of_a_page_says_for_whom_it_is(page):
    _, paragraph, *_ = page.read_text(encoding="utf-8").split("\n\n", 2)
    # The start page begins like the README, and then sends each reader on.
    assert paragraph.startswith("For ") or page.stem == "index"


@pytest.mark.parametrize(("page", "most"), [("security", 3500), ("data-protection", 1500)])
def test_what_deciders_read_is_short(page, most):
    assert len((ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8").split()) <= most


def test_an_entry_about_an_error_has_at_most_three_lines():
    page = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    for entry in re.findall(r"^- \*\*SFY.*(?:\n  .*)*", page, flags=re.M):
        assert entry.count("\n") < 3, entry

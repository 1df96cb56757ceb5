"""The rooms of the package: imports go downward only, and no room is too large to be read.

The map is in CONTRIBUTING.md. Every import counts, also those inside of functions and those that
only a type checker sees.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = "securefedyj"
SOURCE = ROOT / "src" / PACKAGE

# From the bottom up. A room may import from its own floor and from those below.
FLOORS = (
    ("errors", "files", "printable", "strict"),
    ("kernel",),
    ("numerics",),
    ("pooled",),
    ("tables",),
    ("party",),
    ("engines",),
    ("protocol",),
    ("estimators", "parameters"),
    ("network",),
    ("report",),
    ("joining",),
    ("integrations",),
    ("demo",),
    ("cli",),
)
HEIGHT = {room: height for height, floor in enumerate(FLOORS) for room in floor}
# What `import securefedyj` offers, and where it lives.
OFFERED = {
    **dict.fromkeys(["ExpYJ", "FrozenYJ", "PowerTransformDisplay", "SecureFedYJ"], "estimators"),
    **dict.fromkeys(["SecureColumnTransformer", "SecureQuantiles"], "estimators"),
    **dict.fromkeys(["SecureRobustScaler", "SecureStandardScaler"], "estimators"),
    **dict.fromkeys(["Cancelled", "join", "join_async", "submit", "submit_async"], "joining"),
    **dict.fromkeys(["load", "save"], "parameters"),
}
OUTSIDE = {"benchmarks", "experiments", "tests"}

LONGEST_MODULE, LONGEST_CLASS = 400, 250  # lines
# Modules and classes that may be longer, each with the reason.
EXCUSED: dict[str, str] = {}

MODULES = sorted(SOURCE.rglob("*.py"))


def name_of(path: Path) -> str:
    """A module's name as it is imported; that of a package for its __init__."""
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(tree: ast.AST, module: str, is_package: bool) -> Iterator[str]:
    """The full name of everything that a module imports, anywhere in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = module.split(".")
                own = parents[: len(parents) - node.level + is_package]
                base = ".".join([*own, *filter(None, [base])])
            yield from (f"{base}.{alias.name}" for alias in node.names)


def room_of(name: str) -> str | None:
    """The room that a full name belongs to; None for other packages and for the version."""
    package, _, rest = name.partition(".")
    first = rest.partition(".")[0]
    if package != PACKAGE or not first or first.startswith("__"):
        return None
    return OFFERED.get(first, first)


def wrong_imports(source: str, module: str, is_package: bool = False) -> list[str]:
    """What a module imports and should not, in sentences."""
    own = room_of(module)
    if own is None:
        return []  # the package itself offers what is in its rooms
    wrong = []
    for name in imported(ast.parse(source), module, is_package):
        room = room_of(name)
        if name.partition(".")[0] in OUTSIDE:
            wrong.append(f"{module} imports {name}, which is not part of the package")
        elif room is not None and HEIGHT[room] > HEIGHT[own]:
            wrong.append(f"{module} imports {name}: {own} is below {room}")
    return wrong


def too_long(source: str, module: str) -> list[str]:
    """The module itself, and those of its classes, that have too many lines."""
    found = [module] if len(source.splitlines()) > LONGEST_MODULE else []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef):
            lines = (node.end_lineno or 0) - node.lineno + 1
            if lines > LONGEST_CLASS:
                found.append(f"{module}.{node.name}")
    return found


def test_every_module_has_a_room():
    rooms = {room_of(name_of(path)) for path in MODULES} - {None}
    assert rooms <= set(HEIGHT)


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_go_downward(path):
    source = path.read_text(encoding="utf-8")
    assert wrong_imports(source, name_of(path), path.name == "__init__.py") == []


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_reader_can_take_in_each_module_and_class(path):
    long = too_long(path.read_text(encoding="utf-8"), name_of(path))
    assert [name for name in long if name not in EXCUSED] == []


def test_nobody_is_excused_without_need():
    long = {
        name
        for path in MODULES
        for name in too_long(path.read_text(encoding="utf-8"), name_of(path))
    }
    assert set(EXCUSED) <= long


def test_the_package_leaves_the_search_path_alone():
    for path in MODULES:
        assert "sys.path" not in path.read_text(encoding="utf-8"), path


def test_tests_do_not_import_benchmarks():
    for path in (ROOT / "tests").rglob("*.py"):
        names = imported(ast.parse(path.read_text(encoding="utf-8")), "tests", True)
        assert not [name for name in names if name.partition(".")[0] == "benchmarks"], path


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("numerics.sums", "from securefedyj.protocol import program"),
        ("party.machine", "def run():\n    import securefedyj.engines.clear"),
        ("engines.clear", "if TYPE_CHECKING:\n    from securefedyj.protocol.agreement import A"),
        ("protocol.program", "from securefedyj import ExpYJ"),
        ("tables.files", "from ..cli.main import main"),
        ("network.hub", "from securefedyj import report"),
        ("cli.paper", "from experiments import runner"),
        ("demo.run", "import tests.oracle"),
    ],
)
def test_an_import_that_goes_upward_is_noticed(module, source):
    assert wrong_imports(source, f"{PACKAGE}.{module}") != []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("cli.main", "from securefedyj import __version__"),
        ("protocol.program", "from securefedyj.protocol.agreement import Agreement"),
        ("demo.run", "from securefedyj import ExpYJ, SecureFedYJ"),
        ("engines.mpyc.engine", "from ...numerics import wide"),
        ("numerics.sums", "import numpy.testing"),
    ],
)
def test_an_import_that_stays_or_goes_downward_is_fine(module, source):
    assert wrong_imports(source, f"{PACKAGE}.{module}") == []


def test_what_is_too_long_is_noticed():
    lines = ["class Long:", *["    x = 1"] * LONGEST_CLASS]
    assert too_long("\n".join(lines), "a") == ["a.Long"]
    assert too_long("\n".join(lines[:-1]), "a") == []
    assert too_long("x = 1\n" * (LONGEST_MODULE + 1), "a") == ["a"]
    assert too_long("x = 1\n" * LONGEST_MODULE, "a") == []


def test_the_picture_of_the_house_has_all_rooms_in_order():
    """It is drawn from the ground up, each floor from the left."""
    picture = (ROOT / "docs" / "images" / "house.svg").read_text(encoding="utf-8")
    boxes = re.findall('class="room"[^>]*>([^<]+)<', picture)
    rooms = [room.split()[0] for box in boxes for room in box.split(" · ")]
    assert sorted(rooms) == sorted(HEIGHT)
    assert [HEIGHT[room] for room in rooms] == sorted(HEIGHT.values())

"""Every error for a user has one code, which names one place in the source."""

from __future__ import annotations

import ast
import copy
import pickle
import re
from collections import Counter
from pathlib import Path

from securefedyj.errors import InputError
from securefedyj.tables.cells import BadCellsError

SOURCE = Path(__file__).parents[1] / "src" / "securefedyj"
CODE = re.compile(r"SFY-[A-Z]{2,6}-\d{3}")


def test_every_code_stands_in_one_place():
    codes = Counter(
        node.value
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and CODE.fullmatch(node.value)
    )
    assert len(codes) > 200
    assert [code for code, places in codes.items() if places > 1] == []


def test_no_error_for_users_is_raised_without_a_code():
    bare = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Raise)
        and isinstance(node.exc, ast.Call)
        and isinstance(node.exc.func, ast.Name)
        and node.exc.func.id == "ValueError"
    ]
    assert bare == []


def test_an_error_keeps_its_code_on_its_way_between_processes():
    for error in (
        InputError("SFY-TEST-001", "It is not a number."),
        BadCellsError("a.csv", {"age": "x"}),
    ):
        for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
            assert type(again) is type(error)
            assert (again.code, str(again)) == (error.code, str(error))

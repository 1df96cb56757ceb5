"""The ledger: warns of what two runs tell together, keeps every line, and is its owner's alone."""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from securefedyj.network.ledger import (
    BEGAN,
    FAILED,
    FINISHED,
    Ledger,
    LedgerError,
    RunEntry,
    default_path,
)
from securefedyj.network.repeats import note_on_unfinished, warnings
from securefedyj.tables.digest import column_digests

FEATURES = ("lactate", "age")
ROWS = np.random.default_rng(0).lognormal(size=(30, 2))
DAY = datetime.datetime(2026, 5, 3, 12, tzinfo=datetime.UTC)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    ledger = Ledger(tmp_path / "deep" / "ledger.jsonl")
    ledger.prepare()
    return ledger


def run(
    ledger: Ledger,
    number: int,
    rows: np.ndarray = ROWS,
    silos: tuple[str, ...] = ("north", "east", "south"),
    party: str = "north",
    features: tuple[str, ...] = FEATURES,
) -> RunEntry:
    columns = column_digests(rows, features, ledger.key)
    return RunEntry(
        f"{number:016x}", "d" * 64, f"sepsis-{number}", party, (*silos, "helper"), silos, features,
        f"/results/{number}", columns,
    )  # fmt: skip


def after(ledger: Ledger, *events: tuple[str, RunEntry]) -> Ledger:
    """The ledger as another process reads it after these events."""
    for event, one in events:
        ledger.note(event, one, DAY)
    return Ledger(ledger.path)


def test_same_rows_with_the_same_parties_are_no_cause_for_a_warning(ledger):
    first = run(ledger, 1)
    again = after(ledger, (BEGAN, first), (FINISHED, first))
    shuffled = np.random.default_rng(1).permutation(ROWS)
    assert warnings(again, run(ledger, 2, shuffled)) == []
    other_columns = run(ledger, 3, ROWS + 1, features=("x", "y"))
    assert warnings(again, other_columns) == []


def test_other_rows_are_told_with_run_and_date_and_what_that_means(ledger):
    first = run(ledger, 1)
    again = after(ledger, (BEGAN, first), (FINISHED, first))
    changed = ROWS.copy()
    changed[3, 0] += 0.5
    (words,) = warnings(again, run(ledger, 2, changed))
    assert words == (
        "In run 'sepsis-1' of 2026-05-03, with north, east and south, column lactate had other "
        "values here. Two results over nearly the same rows can tell the rows that differ, such "
        "as those of a patient who came or left. Ask your data protection officer before you go "
        "on, or use the rows of that run."
    )
    (words,) = warnings(again, run(ledger, 2, ROWS[1:]))
    assert "columns lactate and age had other values" in words


def test_column_that_had_values_and_has_none_is_another(ledger):
    first = run(ledger, 1)
    again = after(ledger, (BEGAN, first))
    without = ROWS.copy()
    without[:, 1] = np.nan
    (words,) = warnings(again, run(ledger, 2, without))
    assert "column age had other values" in words
    back = after(ledger, (BEGAN, run(ledger, 2, without)))
    assert "column age had other values" in warnings(back, run(ledger, 3))[0]


@pytest.mark.parametrize(
    ("silos", "who"),
    [
        (("north", "east"), "This run lacks south."),
        (("north", "east", "south", "west"), "This run has west besides."),
        (("north", "east", "west"), "This run has west besides and lacks south."),
    ],
)
def test_other_parties_are_told_with_what_subtraction_gives(silos, who, ledger):
    first = run(ledger, 1)
    again = after(ledger, (BEGAN, first), (FINISHED, first))
    renamed = run(ledger, 2, ROWS[:, :1], silos, features=("Laktat",))
    (words,) = warnings(again, renamed)
    assert who in words
    assert "column Laktat had the same values here as now" in words
    assert "the number, mean and variance of the values that came or left" in words


def test_another_helper_is_no_other_party(ledger):
    first = run(ledger, 1)
    again = after(ledger, (BEGAN, first))
    assert warnings(again, replace(run(ledger, 2), parties=("north", "east", "south"))) == []


def test_tables_of_several_parties_on_one_machine_are_not_mixed_up(ledger):
    first = run(ledger, 1)
    again = after(ledger, (BEGAN, first))
    assert warnings(again, run(ledger, 2, ROWS + 1, party="east")) == []
    assert warnings(again, run(ledger, 2, ROWS + 1, party="")) != []
    # `check` does not know whose table it has, unless that has had a part in a run before.
    both = after(ledger, (BEGAN, run(ledger, 2, ROWS + 1, party="east")))
    assert warnings(both, run(ledger, 3, party="")) == []
    assert warnings(both, run(ledger, 3, ROWS + 1, party="")) == []
    assert len(warnings(both, run(ledger, 3, ROWS + 2, party=""))) == 1
    # The same values are the same, whoever brings them.
    assert warnings(again, run(ledger, 2, silos=("east", "west"), party="east")) != []


def test_latest_runs_come_first_and_many_are_not_all_told(ledger):
    events = [
        (BEGAN, run(ledger, k, ROWS + k, silos=("north", "east", f"silo-{k}"))) for k in range(1, 7)
    ]
    words = warnings(after(ledger, *events), run(ledger, 9))
    assert [f"'sepsis-{k}'" in one for k, one in zip((6, 5, 4), words, strict=False)] == [True] * 3
    assert words[3] == f"3 more warnings are about runs before these: see {ledger.path}."


def test_what_is_to_be_said_of_several_runs_is_said_once(ledger):
    events = [(BEGAN, run(ledger, k, ROWS + k)) for k in range(1, 4)]
    (words,) = warnings(after(ledger, *events), run(ledger, 9))
    assert words.startswith("In run 'sepsis-3' of 2026-05-03 and 2 earlier ones, with north, ")


def test_runs_that_did_not_finish_count_if_they_had_the_same_values(ledger):
    stopped, failed, finished, other = (run(ledger, k) for k in range(1, 5))
    other = replace(other, columns={"lactate": "0" * 32})
    again = after(
        ledger,
        (BEGAN, stopped),
        (BEGAN, failed), (FAILED, failed),
        (BEGAN, finished), (FAILED, finished), (BEGAN, finished), (FINISHED, finished),
        (BEGAN, other),
    )  # fmt: skip
    now = run(ledger, 9)
    assert again.unfinished(now) == [
        replace(one, date=DAY.isoformat()) for one in (failed, stopped)
    ]
    assert note_on_unfinished(again, now, 5) == (
        "2 earlier runs over the same values did not finish; the last was run 'sepsis-2' of "
        "2026-05-03, in /results/2. They count as interruptions; the file allows 5."
    )
    assert "So no run can begin; when you know why" in note_on_unfinished(again, now, 1)
    # A run that goes on is not an earlier one, and neither is it warned of.
    assert again.unfinished(stopped) == [replace(failed, date=DAY.isoformat())]
    assert note_on_unfinished(again, run(ledger, 9, ROWS + 1), 5) == ""


def test_a_run_goes_on_under_its_id_and_begins_anew_under_another(ledger):
    first, second = run(ledger, 1), run(ledger, 2)
    second = replace(second, folder=first.folder)
    again = after(ledger, (BEGAN, first), (BEGAN, second))
    assert again.id_of(first.digest, first.folder) == second.id
    for digest, folder in (("e" * 64, first.folder), (first.digest, "/elsewhere")):
        new = again.id_of(digest, folder)
        assert new not in (first.id, second.id)
        assert len(new) == 16
    assert again.is_open(second)
    assert not after(ledger, (FINISHED, second)).is_open(second)


def test_ledger_is_readable_by_its_owner_alone(ledger):
    assert ledger.path.stat().st_mode & 0o777 == 0o600
    assert ledger.path.parent.stat().st_mode & 0o777 == 0o700
    ledger.path.chmod(0o644)
    Ledger(ledger.path)
    assert ledger.path.stat().st_mode & 0o777 == 0o600


def test_ledger_holds_no_value_and_no_bare_digest(ledger):
    after(ledger, (BEGAN, run(ledger, 1)))
    text = ledger.path.read_text()
    assert not any(repr(float(value)) in text for value in ROWS.flat)
    for digest in column_digests(ROWS, FEATURES, b"").values():
        assert digest not in text
    assert Ledger(ledger.path.with_name("other.jsonl")).key == b""


def test_reading_makes_no_file(tmp_path):
    ledger = Ledger(tmp_path / "none" / "ledger.jsonl")
    assert warnings(ledger, run(ledger, 1)) == []
    assert not ledger.path.parent.exists()


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda text: text.replace('"key"', '"kee"'), "line 1: the first line of a ledger lacks"),
        (lambda text: "\n" + text, "line 1: this is not JSON"),
        (lambda text: text[:-20], "line 3: this is not JSON"),
        (lambda text: text + "x\n", "line 4: this is not JSON"),
        (lambda text: text + "[" * 100_000 + "\n", "line 4: this is not of our form: it is nested"),
        (lambda text: text.replace('"finished"', '"fnished"'), "line 3: an event must be began"),
        (lambda text: text.replace('"version": 1', '"version": 2'), "line 1: this is not a"),
        (lambda text: text.replace('"silos": [', '"silos": [7, '), "line 2: silos"),
        (lambda text: text.replace('"columns": [', '"columns": [7, '), "line 2: columns"),
        (lambda text: text.replace('"features": [', '"features": ["x", '), "line 2: an event must"),
        (lambda text: text.replace('"key": "', '"key": "z'), "line 1: the key must have 64"),
    ],
)
def test_damaged_ledger_gives_a_sentence_and_keeps_its_lines(damage, sentence, ledger):
    first = run(ledger, 1)
    after(ledger, (BEGAN, first), (FINISHED, first))
    damaged = damage(ledger.path.read_text())
    ledger.path.write_text(damaged)
    with pytest.raises(LedgerError) as error:
        Ledger(ledger.path)
    assert f"{ledger.path}, {sentence}" in str(error.value)
    assert "name another file with --ledger" in str(error.value)
    assert "\n" not in str(error.value)
    assert ledger.path.read_text() == damaged


def test_line_without_its_end_is_not_run_into_the_next(ledger):
    first = run(ledger, 1)
    after(ledger, (BEGAN, first))
    ledger.path.write_bytes(ledger.path.read_bytes().rstrip())
    assert not after(ledger, (FINISHED, first)).is_open(first)


def test_ledger_that_cannot_be_opened_gives_a_sentence(tmp_path):
    with pytest.raises(LedgerError, match="cannot be kept there; name another file"):
        Ledger(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(LedgerError, match="Not a directory"):
        Ledger(tmp_path / "file" / "ledger.jsonl").prepare()


def test_full_disk_leaves_the_lines_that_were_there(ledger, monkeypatch):
    first = run(ledger, 1)
    after(ledger, (BEGAN, first))
    before, write = ledger.path.read_bytes(), os.write
    monkeypatch.setattr(os, "write", lambda handle, data: write(handle, data[:10]))
    with pytest.raises(LedgerError, match="No space left on device"):
        ledger.note(FINISHED, first)
    assert ledger.path.read_bytes() == before


_WRITER = """
import sys
from pathlib import Path
from securefedyj.network.ledger import BEGAN, Ledger, RunEntry
name = sys.argv[2]
for k in range(20):
    ledger = Ledger(Path(sys.argv[1]))
    columns = {f"column {j}": name * 8 for j in range(2000)}
    run = RunEntry(f"{name}{k}", "d", "c", name, (name,), (name,), tuple(columns), "f", columns)
    ledger.note(BEGAN, run)
"""


@pytest.mark.processes
def test_processes_at_once_lose_no_line_and_agree_on_the_key(tmp_path):
    path = tmp_path / "new" / "ledger.jsonl"
    names = ("a", "b", "c")
    writers = [subprocess.Popen([sys.executable, "-c", _WRITER, str(path), name]) for name in names]
    assert [writer.wait(120) for writer in writers] == [0, 0, 0]
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert "key" in lines[0]
    assert sorted(line["id"] for line in lines[1:]) == sorted(
        f"{name}{k}" for name in names for k in range(20)
    )
    Ledger(path)


def test_tests_do_not_touch_the_home_of_their_user(monkeypatch):
    assert Path.home() not in default_path().parents
    monkeypatch.delenv("SECUREFEDYJ_LEDGER")
    monkeypatch.setenv("HOME", "/somewhere")
    assert default_path() == Path("/somewhere/.securefedyj/ledger.jsonl")

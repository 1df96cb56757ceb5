"""The ledger: warns of what two runs tell together, keeps every line, and is its owner's alone."""

from __future__ import annotations

import datetime
import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import UNSET
from msgspec.structs import replace

from securefedyj.network.ledger import (
    BEGAN,
    FAILED,
    FINISHED,
    Ledger,
    LedgerError,
    RunEntry,
    RunTerms,
    default_path,
)
from securefedyj.network.repeats import (
    note_on_result,
    note_on_unfinished,
    quantiles_too_close,
    warnings,
)
from securefedyj.numerics.encoding import Domain, choose_encoding
from securefedyj.protocol.agreement import Agreement
from securefedyj.protocol.reveals import lowest_opened
from securefedyj.protocol.simulation import simulate
from securefedyj.strict import Malformed
from securefedyj.tables.digest import column_digests

FEATURES = ("lactate", "age")
ROWS = np.random.default_rng(0).lognormal(size=(30, 2))
TERMS = RunTerms(30, 24, True, (0.0, 0.0), (40.0, 120.0))
RESULT = f', "result": "{"a" * 64}"'
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
    digest: str = "d" * 64,
    terms: RunTerms | None = TERMS,
) -> RunEntry:
    columns = column_digests(rows, features, ledger.key)
    if terms is not None:
        lower, upper = terms.lower[: len(features)], terms.upper[: len(features)]
        terms = replace(terms, lower=lower, upper=upper)
    return RunEntry(
        id=f"{number:016x}", digest=digest, consortium=f"sepsis-{number}", date="", party=party,
        parties=(*silos, "helper"), silos=silos, features=features, folder=f"/results/{number}",
        columns=tuple(columns.get(name, "") for name in features), terms=terms or UNSET,
    )  # fmt: skip


def another(ledger: Ledger, number: int, **terms: Any) -> RunEntry:
    """A run by an agreed file of its own over the same rows."""
    return run(ledger, number, digest=f"{number:064x}", terms=replace(TERMS, **terms))


def after(ledger: Ledger, *events: tuple[str, RunEntry]) -> Ledger:
    """The ledger as another process reads it after these events."""
    for event, one in events:
        ledger.note(event, one, DAY)
    return Ledger(ledger.path)


def test_other_columns_are_no_cause_for_a_warning(ledger):
    first = run(ledger, 1)
    again = after(ledger, (BEGAN, first), (FINISHED, first))
    assert warnings(again, run(ledger, 3, ROWS + 1, features=("x", "y"))) == []


def test_same_run_over_the_same_rows_is_told_as_a_repetition(ledger):
    first = run(ledger, 1)
    again = after(ledger, (BEGAN, first), (FINISHED, first))
    told = (
        "This run repeats run 'sepsis-1' of 2026-05-03, with the same values of columns lactate "
        "and age here. If the other silos' rows are the same too, the result is the same. But a "
        "party that cheats can learn something new in each run. Repeat it only if you must."
    )
    shuffled = np.random.default_rng(1).permutation(ROWS)
    assert warnings(again, run(ledger, 2, shuffled)) == [told]
    # Also by a file that asks the same under another name.
    assert warnings(again, another(ledger, 2)) == [told]
    assert warnings(again, run(ledger, 2, terms=None)) == [told]
    # What began and did not finish has a note of its own.
    unfinished = after(ledger, (BEGAN, another(ledger, 3, max_steps=40)))
    assert warnings(unfinished, run(ledger, 2)) == [told]


def test_each_of_six_runs_over_the_same_rows_is_warned_of_those_before(ledger):
    wider, narrower = (80.0, 120.0), (39.0, 120.0)
    runs = [
        another(ledger, 1),
        another(ledger, 2, max_steps=29),
        another(ledger, 3, upper=wider),
        another(ledger, 4, upper=narrower, max_steps=31),
        another(ledger, 5, result_bits=44),
        another(ledger, 6, verified=False),
    ]
    told = []
    for one in runs:
        told.append(warnings(Ledger(ledger.path), one))
        after(ledger, (BEGAN, one), (FINISHED, one))
    precise = "MORE PRECISION than in any finished run over the same columns: "
    bounds = "other bounds, which can open further digits, for column lactate."
    assert [words[:-1] for words in told] == [
        [],
        [],
        [precise + bounds],
        [f"{precise}max_steps = 31 (at most 30 before) for columns lactate and age; "
         + bounds],
        [f"{precise}result_bits = 44 (at most 24 before) for columns lactate and age."],
        ["NOT VERIFIED, unlike run 'sepsis-5' of 2026-05-03 and 4 earlier ones over the same "
         "columns: one cheating member of the committee can falsify the result."],
    ]  # fmt: skip
    assert told[0] == []
    rest = (
        ", columns lactate and age had the same values here as now. This run asks for other "
        "numbers about the same rows. Together the results can reveal single values where there "
        "are few rows, and how often each value occurs where few are distinct. Ask your data "
        "protection officer before you continue, or use the result that you have."
    )
    assert told[1][-1] == "In run 'sepsis-1' of 2026-05-03" + rest
    assert told[2][-1] == "In run 'sepsis-2' of 2026-05-03 and 1 earlier one" + rest
    # The last asks what the first has asked, but for the verification.
    assert told[5][-1] == "In run 'sepsis-5' of 2026-05-03 and 4 earlier ones" + rest


def test_narrower_and_wider_bounds_can_open_further_digits():
    """Which is why the ledger warns of either."""

    def last_opened(upper: float) -> tuple[float, int, int]:
        """lambda, and the places of the last bits of V and S_y, at the same precision."""
        names = ("north", "east", "south")
        agreement = Agreement(
            features=("lactate",), domain=Domain.from_bounds((0.0, upper), 1), parties=names,
            committee=names, engine="clear", max_steps=30, levels_per_exchange=4, result_bits=24,
            minimum_values=0, verified=False,
        )  # fmt: skip
        transcript, _ = simulate(agreement, np.array_split(ROWS[:, :1], 3))
        lmbda = transcript.search_state().value
        (grid,) = choose_encoding(agreement.domain, transcript.counts(), lmbda).grid
        V_low, y_low = lowest_opened(transcript.magnitudes(), agreement.result_bits)
        return lmbda[0], V_low[0] - 2 * grid, y_low[0] - grid

    narrow, middle, wide = (last_opened(upper) for upper in (64, 400, 10_000))
    assert narrow[0] == middle[0] == wide[0]
    assert (middle[1] - narrow[1], middle[2] - narrow[2]) == (-4, -2)
    assert (middle[1] - wide[1], middle[2] - wide[2]) == (-6, -3)


def test_precision_is_compared_column_by_column_and_under_other_names(ledger):
    age = replace(
        another(ledger, 1, result_bits=44),
        features=("age",), columns=run(ledger, 1, ROWS[:, 1:], features=("age",)).columns,
        terms=RunTerms(30, 44, True, (0.0,), (120.0,)),
    )  # fmt: skip
    both = another(ledger, 2)
    again = after(ledger, (BEGAN, age), (FINISHED, age), (BEGAN, both), (FINISHED, both))
    loud, *_ = warnings(again, another(ledger, 3, result_bits=44))
    assert loud.endswith(": result_bits = 44 (at most 24 before) for column lactate.")
    renamed = replace(
        run(ledger, 3, features=("Laktat", "Alter"), digest="e" * 64),
        terms=replace(TERMS, result_bits=25),
    )
    loud, *_ = warnings(again, renamed)
    assert loud.endswith(": result_bits = 25 (at most 24 before) for column Laktat.")


def test_precision_is_told_before_other_rows_and_other_silos_too(ledger):
    first = run(ledger, 1)
    again = after(ledger, (BEGAN, first), (FINISHED, first))
    more = replace(TERMS, result_bits=25)
    loud, words = warnings(again, run(ledger, 2, ROWS[1:], terms=more))
    assert loud.startswith("MORE PRECISION")
    assert "had other values here" in words
    loud, words = warnings(again, run(ledger, 2, silos=("north", "west"), terms=more))
    assert loud.startswith("MORE PRECISION")
    assert "This run adds west" in words
    # What has not finished has not told its result.
    unfinished = after(Ledger(ledger.path.with_name("other.jsonl")), (BEGAN, first))
    assert not any("PRECISION" in one for one in warnings(unfinished, run(ledger, 2, terms=more)))


def test_runs_that_were_never_verified_are_told_each_time(ledger):
    first = another(ledger, 1, verified=False)
    again = after(ledger, (BEGAN, first), (FINISHED, first))
    loud, words = warnings(again, replace(first, id="f" * 16))
    assert loud == ("NOT VERIFIED: one cheating member of the committee can falsify the result.")
    assert words.startswith("This run repeats run 'sepsis-1'")


def test_another_result_of_the_same_file_and_rows_is_told(ledger):
    first, second = run(ledger, 1), run(ledger, 2)
    ledger.note(BEGAN, first, DAY)
    ledger.note(FINISHED, first, DAY, result="a" * 64)
    again = after(ledger, (BEGAN, second))
    assert note_on_result(again, second, "a" * 64) == ""
    assert note_on_result(again, second, "b" * 64) == (
        "The result is NOT THE SAME as that of run 'sepsis-1' of 2026-05-03, in /results/1. The "
        "agreed file and your own rows are the same, so another silo's rows have changed, or "
        "a party has cheated. Ask the other silos whether their rows have changed, before anybody "
        "uses this result."
    )
    # A later run that agrees with one of them still contradicts the other.
    again.note(FINISHED, second, DAY, result="b" * 64)
    for result, other in (("a", 2), ("b", 1)):
        words = note_on_result(Ledger(ledger.path), run(ledger, 3), result * 64)
        assert f"that of run 'sepsis-{other}' of" in words
    others = (
        run(ledger, 3, ROWS[1:]), run(ledger, 3, digest="e" * 64), run(ledger, 3, party="east"),
    )  # fmt: skip
    for other_run in others:
        assert note_on_result(Ledger(ledger.path), other_run, "c" * 64) == ""


OLD = """\
{"format": "securefedyj ledger", "version": 1, "key": "%s"}
{"event": "began", "id": "5d1ac0b6d1f6f0aa", "run": "dddd", "consortium": "sepsis", \
"date": "2026-05-03T12:00:00+00:00", "party": "north", "parties": ["north", "east"], \
"silos": ["north", "east"], "features": ["lactate", "age"], "folder": "/then", \
"columns": ["ef5a65dc7c54b3a8bb4616f5459d7a17", "2434692b3b4f872ec88bf958d42cf111"]}
{"event": "finished", "id": "5d1ac0b6d1f6f0aa", "run": "dddd", "consortium": "sepsis", \
"date": "2026-05-03T12:01:00+00:00", "party": "north"}
""" % ("ab" * 32)


def test_file_of_version_0_2_is_read_and_goes_on(tmp_path):
    """It knows neither what a run has asked for nor the digest of its result."""
    path = tmp_path / "ledger.jsonl"
    path.write_text(OLD)
    ledger = Ledger(path)
    later = run(ledger, 1, silos=("north", "east"), terms=replace(TERMS, result_bits=44))
    (words,) = warnings(ledger, later)
    assert words.startswith("In run 'sepsis' of 2026-05-03, columns lactate and age had the same")
    unverified = replace(later, terms=replace(TERMS, verified=False))
    assert warnings(ledger, unverified)[0].startswith("NOT VERIFIED: one cheating")
    repeated = replace(later, digest="dddd")
    assert "This run repeats run 'sepsis' of" in warnings(ledger, repeated)[0]
    assert note_on_result(ledger, repeated, "a" * 64) == ""
    ledger.note(BEGAN, later, DAY)
    ledger.note(FINISHED, later, DAY, result="a" * 64)
    assert path.read_text().startswith(OLD)
    once_more = replace(later, id="0" * 16)
    assert Ledger(path).earlier(once_more)[0].terms == later.terms
    assert "NOT THE SAME" in note_on_result(Ledger(path), once_more, "b" * 64)


def test_other_rows_are_told_with_run_and_date_and_what_that_means(ledger):
    first = run(ledger, 1)
    again = after(ledger, (BEGAN, first), (FINISHED, first))
    changed = ROWS.copy()
    changed[3, 0] += 0.5
    (words,) = warnings(again, run(ledger, 2, changed))
    assert words == (
        "In run 'sepsis-1' of 2026-05-03, with north, east and south, column lactate had other "
        "values here. Two results over nearly the same rows can reveal the rows that differ, such "
        "as those of a patient who came or left. Ask your data protection officer before you "
        "continue, or use the rows of that run."
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
        (("north", "east", "south", "west"), "This run adds west."),
        (("north", "east", "west"), "This run adds west and lacks south."),
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
    assert words[3] == f"3 more warnings are about earlier runs: see {ledger.path}."


def test_what_is_to_be_said_of_several_runs_is_said_once(ledger):
    events = [(BEGAN, run(ledger, k, ROWS + k)) for k in range(1, 4)]
    (words,) = warnings(after(ledger, *events), run(ledger, 9))
    assert words.startswith("In run 'sepsis-3' of 2026-05-03 and 2 earlier ones, with north, ")


def test_runs_that_did_not_finish_count_if_they_had_the_same_values(ledger):
    stopped, failed, finished, other = (run(ledger, k) for k in range(1, 5))
    other = replace(other, columns=("0" * 32, ""))
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
    assert "So no run can start. Find out why" in note_on_unfinished(again, now, 1)
    # A run that goes on is not an earlier one, and neither is it warned of.
    assert again.unfinished(stopped) == [replace(failed, date=DAY.isoformat())]
    assert note_on_unfinished(again, run(ledger, 9, ROWS + 1), 5) == ""


def test_a_run_goes_on_under_its_id_and_begins_anew_under_another(ledger):
    first, second = run(ledger, 1), run(ledger, 2)
    second = replace(second, folder=first.folder)
    again = after(ledger, (BEGAN, first), (BEGAN, second))
    assert again.id_of(first.digest, first.folder, first.party) == second.id
    for digest, folder in (("e" * 64, first.folder), (first.digest, "/elsewhere")):
        new = again.id_of(digest, folder, first.party)
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
        (
            lambda text: text.replace('"key"', '"kee"'),
            "line 1: the head has an unknown field 'kee'",
        ),
        (lambda text: "\n" + text, "line 1: this is not JSON"),
        (lambda text: text[:-20], "line 3: this is not JSON"),
        (lambda text: text + "x\n", "line 4: this is not JSON"),
        (lambda text: text + "[" * 100_000 + "\n", "line 4: this is not of our form: it is nested"),
        (
            lambda text: text.replace('"finished"', '"fnished"').replace(RESULT, ""),
            "line 3: the event: event has the unknown value 'fnished'",
        ),
        (
            lambda text: text.replace('"version": 1', '"version": 2'),
            "line 1: the head: version has the unknown value 2",
        ),
        (
            lambda text: text.replace('"silos": [', '"silos": [7, '),
            "line 2: the event: silos[0] must be a text",
        ),
        (
            lambda text: text.replace('"columns": [', '"columns": [7, '),
            "line 2: the event: columns[0] must be a text",
        ),
        (
            lambda text: text.replace('"features": [', '"features": ["x", '),
            "line 2: the event: there must be as many columns",
        ),
        (lambda text: text.replace('"key": "', '"key": "z'), "line 1: the head: key must be"),
        (
            lambda text: text.replace('"result": "a', '"result": "'),
            "line 3: the event: result must be",
        ),
        (
            lambda text: text.replace('"result": "', '"x": "'),
            "line 3: the event has an unknown field",
        ),
        (
            lambda text: text.replace('"finished"', '"failed"'),
            "line 3: the event has an unknown field",
        ),
        (lambda text: text + "7\n", "line 4: the event must be an object"),
        (lambda text: text + '{"event": []}\n', "line 4: the event: event must be a text"),
        (
            lambda text: text.replace('"finished"', '["finished"]'),
            "line 3: the event: event must be a text",
        ),
        (lambda text: text.replace('"verified"', '"x"'), "line 2: the event: terms"),
        (
            lambda text: text.replace('"verified": true', '"verified": 1'),
            "line 2: the event: terms.verified",
        ),
        (
            lambda text: text.replace('"lower": [', '"lower": ["x", '),
            "line 2: the event: terms.lower[0]",
        ),
        (
            lambda text: text.replace('"lower": [', '"lower": [1e999, '),
            "line 2: the event: terms.lower[0]",
        ),
        (
            lambda text: text.replace('"lower": [', '"lower": [0, '),
            "line 2: the event: there must be as many bounds",
        ),
        (
            lambda text: text.replace('"terms": {', '"terms": [{').replace("}}", "}]}"),
            "line 2: the event: terms must be an object",
        ),
    ],
)
def test_damaged_ledger_gives_a_sentence_and_keeps_its_lines(damage, sentence, ledger):
    first = run(ledger, 1)
    ledger.note(BEGAN, first, DAY)
    ledger.note(FINISHED, first, DAY, result="a" * 64)
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

    def full(handle: int, data: bytes) -> int:
        if len(data) < 100:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(handle, data[:10])

    monkeypatch.setattr(os, "write", full)
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
    run = RunEntry(id=f"{name}{k}", digest="d", consortium="c", date="", party=name,
                   parties=(name,), silos=(name,), features=tuple(columns), folder="f",
                   columns=tuple(columns.values()))
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


def with_quantiles(ledger: Ledger, number: int, *quantiles: str) -> RunEntry:
    return another(ledger, number, methods=({"quantiles": quantiles}, {"yeo-johnson": ()}))


@pytest.mark.parametrize(
    ("n", "before", "now", "refused"),
    [
        (1000, "0.5", "0.5", False),  # the same again
        (1000, "0.5", "0.501", True),  # the next row: one value between two results
        (1000, "0.5", "0.529", True),
        (1000, "0.5", "0.53", False),  # 30 ranks away
        (1000, "0.5", "0.471", True),
        (10, "0.51", "0.6", False),  # another quantile of the same rank is the same value
    ],
)
def test_quantiles_stay_apart_from_those_of_finished_runs(ledger, n, before, now, refused):
    """The attack: run after run, each asks for the value of the next row."""
    first = with_quantiles(ledger, 1, before)
    ledger.note(BEGAN, first, DAY)
    ledger.note(FINISHED, first, DAY, result="a" * 64, n=(n, n))
    again, second = Ledger(ledger.path), with_quantiles(ledger, 2, now)
    assert bool(list(quantiles_too_close(again, second, 30))) == refused


def test_after_a_run_that_did_not_finish_only_its_quantiles_are_allowed(ledger):
    """It may have opened them, and its ranks are not known."""
    again = after(ledger, (BEGAN, with_quantiles(ledger, 1, "0.1", "0.9")))
    assert not list(quantiles_too_close(again, with_quantiles(ledger, 2, "0.9"), 30))
    assert list(quantiles_too_close(again, with_quantiles(ledger, 3, "0.5"), 30))


def test_quantiles_of_another_column_do_not_matter(ledger):
    again = after(ledger, (BEGAN, with_quantiles(ledger, 1, "0.1")))
    other = another(ledger, 2, methods=({"yeo-johnson": ()}, {"quantiles": ("0.11",)}))
    assert not list(quantiles_too_close(again, other, 30))
    assert not list(quantiles_too_close(again, another(ledger, 3), 30))


def test_a_ledger_with_as_many_methods_as_features_only(ledger):
    with pytest.raises(Malformed):
        another(ledger, 1, methods=({"quantiles": ("0.5",)},))

"""What `new`, `check` and `join` tell a silo before a run: what results could tell of its rows."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import UNSET
from msgspec.structs import replace

from securefedyj.cli import check
from securefedyj.cli.main import main
from securefedyj.network import local
from securefedyj.network.consortium import Feature
from securefedyj.network.errors import JoinError, NotVerified
from securefedyj.network.forecast import Forecast, Outlook
from securefedyj.network.ledger import BEGAN, FAILED, FINISHED, Ledger, RunEntry, RunTerms
from securefedyj.network.session import participant
from securefedyj.tables.digest import column_digests
from securefedyj.tables.files import write_table
from tests.cli.messages import one_sentence
from tests.report.runs import fit

NAMES = ("lactate", "age")
FEATURES = [Feature("lactate", 0.0, 1000.0), Feature("age", 0.0, 1000.0)]
TERMS = RunTerms(30, 24, True, (0.0, 0.0), (1000.0, 1000.0))
ROWS = np.random.default_rng(3).lognormal(size=(90, 2))
THREE = {"north": ROWS[:30], "east": ROWS[30:60], "south": ROWS[60:]}
TWO = {"north": ROWS[:30], "east": ROWS[30:], "helper": None}


class Stage:
    """A party in a folder, whose command runs until it would connect."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, tables: Any = THREE) -> None:
        self.folder, self.silo = folder, None
        self.settings: participant.Settings
        self.course: Callable[[participant.Settings], object] = lambda settings: None
        self.consortium = local.prepare(folder, tables, FEATURES, name="sepsis")
        self.ledger = folder / "ledger.jsonl"

        async def stop(settings: participant.Settings, silo: Any) -> None:
            self.silo, self.settings = silo, settings
            (settings.output / "state.jsonl").touch()
            self.course(settings)
            raise JoinError("SFY-TEST-001", "As far as this.")

        monkeypatch.setattr(participant, "participate", stop)

    def check(self, party: str = "north", *options: str) -> int:
        table = str(self.folder / f"{party}.csv")
        return main(["check", str(self.folder / "consortium.toml"), "--data", table,
                     "--ledger", str(self.ledger), *options])  # fmt: skip

    def join(self, party: str = "north", *options: str) -> int:
        files = [str(self.folder / f"{party}{ending}") for ending in (".key", ".pem", ".csv")]
        data = ["--data", files[2]] if Path(files[2]).exists() else []
        return main(["join", str(self.folder / "consortium.toml"), "--key", files[0],
                     "--certificate", files[1], *data, "--ledger", str(self.ledger),
                     "--output", str(self.folder / "result"), *options])  # fmt: skip

    def note_run(
        self,
        rows: np.ndarray,
        silos: tuple[str, ...],
        *events: str,
        terms: RunTerms | None = None,
    ) -> None:
        ledger = Ledger(self.ledger)
        ledger.prepare()
        columns = column_digests(rows, NAMES, ledger.key)
        run = RunEntry(
            id="1" * 16, digest="d" * 64, consortium="earlier", date="", party="north",
            parties=silos, silos=silos, features=NAMES, folder="/then",
            columns=tuple(columns.get(name, "") for name in NAMES), terms=terms or UNSET,
        )  # fmt: skip
        for event in events:
            ledger.note(event, run)


@pytest.fixture
def three(tmp_path, monkeypatch) -> Stage:
    return Stage(tmp_path, monkeypatch)


def test_right_table_and_no_earlier_run_are_nothing_to_report(three, capsys):
    assert three.check() == 0
    shown = capsys.readouterr().out.replace("\n", " ")
    assert shown.endswith("consortium.toml: nothing to report. ")
    assert not three.ledger.exists()
    assert three.join() == 1
    said = "Read 30 rows of 2 features.\nsecurefedyj: As far as this. [SFY-TEST-001]\n"
    assert capsys.readouterr().err == said


@pytest.mark.parametrize("command", ["check", "join"])
def test_earlier_run_with_other_rows_or_parties_is_told(command, three, capsys):
    three.note_run(ROWS[:29], ("north", "east", "south"), BEGAN, FINISHED)
    before = three.ledger.read_bytes()
    assert getattr(three, command)() == (command == "join")
    shown = "".join(capsys.readouterr()).replace("\n", " ")
    assert "Warning: In run 'earlier' of 20" in shown
    assert "columns lactate and age had other values here" in shown
    assert "Ask your data protection officer" in shown
    assert three.ledger.read_bytes() == before
    three.ledger.unlink()
    three.note_run(ROWS[:30], ("north", "east", "west"), BEGAN, FINISHED)
    getattr(three, command)()
    shown = "".join(capsys.readouterr()).replace("\n", " ")
    assert "This run adds south and lacks west." in shown


@pytest.mark.parametrize("command", ["check", "join"])
def test_finished_run_over_the_same_rows_is_told_and_more_precision_first(command, three, capsys):
    silos = ("north", "east", "south")
    three.note_run(ROWS[:30], silos, BEGAN, FINISHED, terms=replace(TERMS, result_bits=23))
    getattr(three, command)()
    shown = "".join(capsys.readouterr()).replace("\n", " ")
    loud = (
        "Warning: MORE PRECISION than in any finished run over the same columns: result_bits = 24"
    )
    rest = "Warning: In run 'earlier' of 20"
    assert 0 < shown.index(loud) < shown.index(rest)
    assert "columns lactate and age had the same values here as now" in shown
    # The same terms by another file, and then without verification.
    three.ledger.unlink()
    three.note_run(ROWS[:30], silos, BEGAN, FINISHED, terms=TERMS)
    getattr(three, command)()
    shown = "".join(capsys.readouterr()).replace("\n", " ")
    assert "Warning: This run repeats run 'earlier' of 20" in shown
    assert "PRECISION" not in shown
    path = three.folder / "consortium.toml"
    path.write_text(path.read_text().replace("verified = true", "verified = false"))
    getattr(three, command)()
    shown = "".join(capsys.readouterr()).replace("\n", " ")
    assert shown.index("Warning: NOT VERIFIED, unlike run 'earlier' of 20") < shown.index(rest)


def test_warnings_fit_80_columns_and_are_in_the_json(three, capsys):
    three.note_run(ROWS[:29], ("north", "east", "south"), BEGAN, FINISHED)
    three.check()
    lines = capsys.readouterr().out.replace(str(three.folder), "").splitlines()
    assert max(map(len, lines)) < 80
    assert three.check("north", "--json") == 0
    assert "other values" in json.loads(capsys.readouterr().out)["warnings"][0]


@pytest.mark.parametrize("cache", ["0", "1000"])
def test_folder_of_parquet_is_a_table_like_any_other(three, cache, capsys):
    (three.folder / "rows").mkdir()
    for k, part in enumerate(np.split(ROWS[:30], [4, 20])):
        write_table(three.folder / "rows" / f"{k}.parquet", NAMES[::-1], part[:, ::-1])
    assert three.check() == 0
    assert three.check("north", "--data", str(three.folder / "rows")) == 0
    assert three.join() == 1
    in_csv, digest = three.silo, three.settings.rows
    capsys.readouterr()
    assert three.join("north", "--data", str(three.folder / "rows"), "--cache-mb", cache) == 1
    assert capsys.readouterr().err.startswith("Read 30 rows of 2 features.\n")
    key = bytes(32)
    assert three.settings.rows(key) == digest(key)
    every = np.arange(2)
    assert three.silo.count.tolist() == in_csv.count.tolist()
    assert three.silo.phi_sum(every, 2).tolist() == in_csv.phi_sum(every, 2).tolist()


def test_memory_must_not_be_negative(three, capsys):
    assert three.join("north", "--cache-mb", "-1") == 1
    assert "[SFY-JOIN-003]" in capsys.readouterr().err


def test_runs_that_did_not_finish_are_told(three, capsys):
    three.note_run(ROWS[:30], ("north", "east", "south"), BEGAN)
    assert three.join() == 1
    shown = capsys.readouterr().err.replace("\n", " ")
    assert "1 earlier run over the same values did not finish" in shown
    assert "It counts as an interruption; the file allows 5." in shown


def test_a_run_that_was_not_verified_is_said_and_counts(three, capsys):
    def course(settings: participant.Settings) -> None:
        settings.started()
        raise NotVerified

    three.course = course
    assert three.join() == 1
    assert f"securefedyj: {NotVerified()}" in capsys.readouterr().err.replace("\n", " ")
    events = [json.loads(line).get("event") for line in three.ledger.read_text().splitlines()]
    assert events[-2:] == [BEGAN, FAILED]
    assert three.join("north", "--output", str(three.folder / "again")) == 1
    shown = capsys.readouterr().err.replace("\n", " ")
    assert "1 earlier run over the same values did not finish" in shown


def test_damaged_ledger_stops_before_anything_is_connected(three, capsys):
    three.ledger.write_text("{}\n")
    assert three.check() == 1
    assert three.join() == 1
    assert three.silo is None
    of_check, read, of_join = capsys.readouterr().err.splitlines(keepends=True)
    assert read == "Read 30 rows of 2 features.\n"
    for error in (of_check, of_join):
        assert one_sentence(error)
        assert "ledger.jsonl, line 1" in error
    assert three.ledger.read_text() == "{}\n"


def test_helper_keeps_no_ledger(tmp_path, monkeypatch):
    stage = Stage(tmp_path, monkeypatch, TWO)
    assert stage.join("helper") == 1
    assert not stage.ledger.exists()


def test_two_silos_are_told_what_subtraction_gives(tmp_path, monkeypatch, capsys):
    stage = Stage(tmp_path, monkeypatch, TWO)
    told = (
        "Note: only north and east have data. Each can subtract its own part from the result, and "
        "then knows of each feature how many values the other has, and their mean and variance."
    )
    for command in (
        stage.check,
        stage.join,
        lambda: main(["check", str(tmp_path / "consortium.toml")]),
    ):
        command()
        assert told in "".join(capsys.readouterr()).replace("\n", " ")
    parties = [f"--silo={name}={tmp_path / name}.pem" for name in ("north", "east")]
    parties.append(f"--helper=helper={tmp_path / 'helper.pem'}")
    assert main(["new", str(tmp_path / "new.toml"), "--name", "n", "--hub", "localhost:1",
                 "--hub-certificate", str(tmp_path / "hub.pem"), *parties,
                 "--feature", "a:0:1"]) == 0  # fmt: skip
    assert told in capsys.readouterr().out.replace("\n", " ")


def test_file_without_a_hub_is_written_and_not_joined_at_one(three, capsys):
    parties = [f"--silo={name}={three.folder / name}.pem" for name in THREE]
    new = ["new", str(three.folder / "new.toml"), "--name", "n", *parties, "--feature", "a:0:1"]
    assert main([*new, "--hub", "localhost:1"]) == 1
    assert "--hub and --hub-certificate go together" in capsys.readouterr().err
    assert main(new) == 0
    assert main(["check", str(three.folder / "new.toml")]) == 0
    assert "'n', without a hub" in capsys.readouterr().out
    key = [
        "--key",
        str(three.folder / "north.key"),
        "--certificate",
        str(three.folder / "north.pem"),
    ]
    join = ["join", str(three.folder / "new.toml"), *key, "--output", str(three.folder / "out")]
    assert main(join) == 1
    error = capsys.readouterr().err
    assert one_sentence(error)
    assert "has no [hub]" in error


def test_one_empty_of_three_is_told_what_subtraction_gives(three, capsys):
    rows = THREE["north"].copy()
    rows[:, 1] = np.nan
    write_table(three.folder / "north.csv", NAMES, rows)
    told = "Note: this table has no values of age, so at most two silos have any. Each of them can"
    for command in (three.check, three.join):
        command()
        assert told in "".join(capsys.readouterr()).replace("\n", " ")
    write_table(three.folder / "north.csv", NAMES, np.empty((0, 2)))
    three.join()
    assert "no values of lactate and age, so" in capsys.readouterr().err.replace("\n", " ")


def test_feature_below_the_own_minimum_counts_as_missing_here(three, capsys):
    rows = THREE["north"].copy()
    rows[9:, 1] = np.nan
    write_table(three.folder / "north.csv", NAMES, rows)
    three.join("north", "--own-minimum", "10")
    assert three.silo.count.tolist() == [30, 0]
    shown = capsys.readouterr().err
    assert "Ignoring age: it has fewer than 10 local values." in shown
    assert "lactate" not in shown
    three.join("north", "--own-minimum", "9")
    assert three.silo.count.tolist() == [30, 9]
    three.join()
    assert three.silo.count.tolist() == [30, 9]
    assert three.join("north", "--own-minimum", "-1") == 1
    assert "[SFY-JOIN-002]" in capsys.readouterr().err


def test_folder_with_a_result_and_no_state_is_refused_before_anything_else(three, capsys):
    result = three.folder / "result"
    result.mkdir()
    (result / "parameters.json").write_text("mine")
    assert three.join() == 1
    assert three.silo is None
    error = capsys.readouterr().err
    assert one_sentence(error)
    assert "has a parameters.json and no state.jsonl" in error
    assert "choose another output folder" in error
    assert (result / "parameters.json").read_text() == "mine"


@pytest.mark.parametrize("verified", [True, False])
def test_whether_the_result_will_be_verified_and_what_that_takes(
    tmp_path, monkeypatch, capsys, verified
):
    path = tmp_path / "consortium.toml"
    local.prepare(tmp_path, THREE, FEATURES, verified=verified)
    with_it, without = (Forecast(4, 157, 1.27, 3.4, 0, 0), Forecast(4, 138, 1.271, 3.0, 0, 0))
    outlook = Outlook((with_it,), (192,), without if verified else None)
    monkeypatch.setattr(check, "forecast", lambda *_, **__: outlook)
    assert main(["check", str(path)]) == 0
    checked = capsys.readouterr().out
    assert main(["plan", str(path)]) == 0
    planned = capsys.readouterr().out
    assert main(["plan", str(path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    if verified:
        assert "\nVerified: all parties reject a result that is wrong" in checked
        assert "verifying the result adds 19 rounds, 0.00 MB and 0.4 seconds." in planned
        assert told["unverified"]["rounds"] == 138
    else:
        for shown in (checked, planned):
            assert "\nNOT verified: one cheating member of the committee can falsify" in shown
        assert told["unverified"] is None
    assert told["verified"] is verified
    assert max(map(len, (checked + planned).replace(str(path), "").splitlines())) < 80


def test_the_plan_of_a_submitted_run_says_who_sends_what(tmp_path, capsys):
    """Members alone take part, and verify every exchange: there is nothing to compare with."""
    points = [
        Feature("age", 0.0, 120.0, resolution="1"),
        Feature("dose", 0.0, 9.0, resolution="0.5"),
    ]
    local.prepare(tmp_path, {**THREE, "clinic": None}, points, submitted=True)
    path = str(tmp_path / "consortium.toml")
    assert main(["plan", path, "--rows", "100"]) == 0
    planned = capsys.readouterr().out
    assert "Every exchange is verified." in planned
    assert "Only the committee connects." in planned
    assert "NOT verified" not in planned
    assert "Rings of  bits" not in planned
    assert max(map(len, planned.splitlines())) < 80


def events_of(ledger: Path) -> list[str]:
    return [json.loads(line)["event"] for line in ledger.read_text().splitlines()[1:]]


def test_run_is_noted_when_its_first_session_begins_and_when_it_fails(three):
    three.join()
    assert events_of(three.ledger) == []
    three.course = lambda settings: settings.started()
    three.join()
    assert events_of(three.ledger) == ["began", "failed"]
    line = json.loads(three.ledger.read_text().splitlines()[1])
    assert line["run"] == three.consortium.digest()
    assert (line["party"], line["silos"]) == ("north", ["north", "east", "south"])


def interrupted(settings: participant.Settings) -> None:
    settings.started()
    raise KeyboardInterrupt


def test_run_that_goes_on_is_no_earlier_one_and_a_new_one_counts_it(three):
    three.course = interrupted
    assert three.join() == 130
    assert events_of(three.ledger) == ["began"]
    three.join()
    assert three.settings.earlier == 0
    ids = {json.loads(line)["id"] for line in three.ledger.read_text().splitlines()[1:]}
    assert len(ids) == 1
    three.join("north", "--output", str(three.folder / "anew"))
    assert three.settings.earlier == 1
    # Another party on this machine has other rows.
    three.join("east", "--output", str(three.folder / "east"))
    assert three.settings.earlier == 0


def test_folder_that_was_emptied_is_another_run(three):
    three.course = interrupted
    three.join()
    (three.folder / "result" / "state.jsonl").unlink()
    three.join()
    assert three.settings.earlier == 1


def test_finished_run_does_not_count(three):
    rng = np.random.default_rng(0)
    transcript = fit(rng.lognormal(size=(60, 2)), NAMES, ("north", "east", "south"))

    def finish(settings: participant.Settings) -> None:
        settings.started()
        settings.done(transcript, None)

    three.course = finish
    three.join()
    assert events_of(three.ledger) == ["began", "finished"]
    three.join("north", "--output", str(three.folder / "anew"))
    assert three.settings.earlier == 0


def test_rows_are_recognized_under_any_key_and_in_any_order(three):
    three.join()
    before = three.settings.rows
    write_table(three.folder / "north.csv", NAMES, THREE["north"][::-1])
    three.join()
    after = three.settings.rows
    assert before is not None
    assert after is not None
    assert before(b"key") == after(b"key") != after(b"other key")
    write_table(three.folder / "north.csv", NAMES, THREE["north"][1:])
    three.join()
    changed = three.settings.rows
    assert changed is not None
    assert changed(b"key") != before(b"key")


def test_helper_has_no_rows_to_recognize(tmp_path, monkeypatch):
    stage = Stage(tmp_path, monkeypatch, TWO)
    stage.course = lambda settings: settings.started()
    stage.join("helper")
    assert stage.settings.rows is None
    assert stage.settings.earlier == 0
    assert not stage.ledger.exists()

"""A site's own file: what it may say, and how the command reads it."""

from __future__ import annotations

import inspect
import os
import stat

import pytest

from securefedyj import join_async
from securefedyj.cli.main import main
from securefedyj.joining.options import DECLARED, JoinOptions
from securefedyj.joining.site import SiteError, read_site
from securefedyj.network.errors import JoinError
from securefedyj.network.log import JoinLog, without_rows
from securefedyj.network.session import participant
from securefedyj.network.session.participant import Progress
from securefedyj.tables.cells import TableError
from tests.joining.stage import Stage
from tests.network import harness
from tests.refusals import refused

NEEDED = 'consortium = "c"\nkey = "k"\ncertificate = "p"\noutput = "o"\n'
OWN = """\
consortium = "consortium.toml"
key = "ana.key"
certificate = "ana.pem"
data = "ana.csv"
output = "result"
ledger = "ana.ledger.jsonl"
missing = ["x"]
decimal = ","
delimiter = ";"
own_minimum = 3
wait = 7

[columns]
"Laktat" = "lactate"
"Alter" = "age"
"""


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_file_gives_the_arguments_of_join(encoding, tmp_path):
    path = tmp_path / "securefedyj.toml"
    path.write_text(OWN, encoding=encoding)
    site = read_site(path)
    assert (site.data, site.ledger) == (tmp_path / "ana.csv", tmp_path / "ana.ledger.jsonl")
    assert (site.missing, site.own_minimum, site.timeout, site.wait) == (("x",), 3, 60.0, 7)
    assert (site.dialect.decimal, site.dialect.delimiter) == (",", ";")
    assert site.dialect.rename == {"Laktat": "lactate", "Alter": "age"}
    inspect.signature(join_async).bind(**site.arguments())


def test_keys_are_the_options_of_the_command(capsys):
    with pytest.raises(SystemExit):
        main(["join", "--help"])
    shown = capsys.readouterr().out
    assert len(DECLARED) == 21
    for one in DECLARED.values():
        assert one.name == "consortium" or f"  {one.flag} " in shown, one.name


def test_rows_are_not_shown():
    files = {name: name for name in ("consortium", "key", "certificate", "output")}
    assert "7.25" not in repr(JoinOptions.of({**files, "data": [[7.25]]}))


def test_password_of_a_proxy_is_not_shown(tmp_path):
    path = tmp_path / "securefedyj.toml"
    path.write_text(NEEDED + 'proxy = "http://ana:s3cret@proxy.example"\n')
    assert "s3cret" not in repr(read_site(path))


def test_what_the_file_leaves_out_is_as_in_a_call(tmp_path):
    path = tmp_path / "securefedyj.toml"
    path.write_text(NEEDED)
    defaults = inspect.signature(join_async).parameters
    for name, value in read_site(path).arguments().items():
        if name not in (*JoinOptions.__match_args__[:4], "dialect"):
            assert value == defaults[name].default, name


@pytest.mark.parametrize(
    ("words", "code", "value"),
    [
        (None, "SFY-SITE-002", "names the agreed file, key and data"),
        ("key =", "SFY-SITE-003", "is not a TOML file"),
        ('[columns]\nGröße = "x"\n', "SFY-SITE-003", "other than A-Z, 0-9, - and _ need quotes"),
        (b"\xff", "SFY-SITE-003", "is not a TOML file"),
        ("x = " + "[" * 5000, "SFY-SITE-004", "nested too deeply"),
        ('keys = "k"\n', "SFY-SITE-005", "unknown key 'keys'"),
        ('key = "k"\n', "SFY-SITE-001", "has no 'consortium'"),
        (NEEDED + "missing = [1]\n", "SFY-SITE-005", "missing: [0] must be a text"),
        (NEEDED + 'missing = "x"\n', "SFY-SITE-005", "missing must be a list"),
        ('data = "C:\\Users\\x.csv"\n', "SFY-SITE-003", "single quotes"),
        ('data = "C:\\temp\\rows.csv"\n', "SFY-SITE-006", "single quotes"),
        (NEEDED + "data = 1\n", "SFY-SITE-005", "data must be a text"),
        (NEEDED + "wait = 0\n", "SFY-SITE-005", "wait must be a number > 0"),
        (NEEDED + "timeout = nan\n", "SFY-SITE-005", "timeout must be a number > 0"),
        (NEEDED + "timeout = true\n", "SFY-SITE-005", "timeout must be a number"),
        (NEEDED + "cache_mb = -1\n", "SFY-SITE-005", "cache_mb must be a whole number >= 0"),
        (NEEDED + "own_minimum = -1\n", "SFY-SITE-005", "own_minimum must be a whole number >= 0"),
        (NEEDED + 'decimal = ";"\n', "SFY-TAB-020", "';'"),
        (NEEDED + 'encoding = "windows"\n', "SFY-TAB-023", "unknown encoding 'windows'"),
        (NEEDED + '[columns]\nA = "x"\nB = "x"\n', "SFY-TAB-022", "'x'"),
        (NEEDED + "[columns]\nA = 1\n", "SFY-SITE-005", "columns: 'A' must be a text"),
        (NEEDED + '[columns.more]\nA = "x"\n', "SFY-SITE-005", "columns: 'more' must be a text"),
    ],
)
def test_other_files_are_refused(tmp_path, words, code, value):
    path = tmp_path / "securefedyj.toml"
    if words is not None:
        path.write_bytes(words if isinstance(words, bytes) else words.encode())
    with refused(code, SiteError) as caught:
        read_site(path)
    assert value in str(caught.value)
    assert str(path) in str(caught.value)


def test_many_columns_may_have_dots_in_their_names(tmp_path):
    path = tmp_path / "securefedyj.toml"
    path.write_text(NEEDED + "[columns]\n" + "".join(f'"a.{k}" = "b.{k}"\n' for k in range(5000)))
    assert len(read_site(path).dialect.rename) == 5000


class Folder:
    """A folder with a site's own file, and a command that runs until it would connect."""

    def __init__(self, stage, monkeypatch):
        self.stage, self.folder = stage, stage.folder
        self.course = lambda settings: None
        rows = "".join(f"{k},5;{k + 1};x\n" for k in range(1, 6))
        (self.folder / "ana.csv").write_text("Laktat;Alter;other\n" + rows)
        (self.folder / "securefedyj.toml").write_text(OWN)

        async def stop(settings, silo):
            self.settings = settings
            self.course(settings)
            raise JoinError("SFY-TEST-001", "As far as this.")

        monkeypatch.setattr(participant, "participate", stop)


@pytest.fixture
def site(tmp_path, monkeypatch):
    return Folder(Stage(tmp_path, dict(harness.THREE)), monkeypatch)


def test_command_reads_the_file_of_the_current_folder(site, monkeypatch, capsys):
    monkeypatch.chdir(site.folder)
    assert main(["join"]) == 1
    assert capsys.readouterr().err.splitlines() == [
        "Options that are not given here are read from securefedyj.toml.",
        "Read 5 rows of 2 features.",
        "securefedyj: As far as this. [SFY-TEST-001]",
    ]
    assert (site.settings.wait, site.settings.timeout) == (7, 60.0)
    assert site.settings.name == "ana"
    assert (site.folder / "result").is_dir()


def test_command_reads_the_file_beside_the_data(site, tmp_path_factory, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert main(["join", "--data", str(site.folder / "ana.csv")]) == 1
    assert "Read 5 rows of 2 features." in capsys.readouterr().err
    assert main(["join", "--site", str(site.folder / "securefedyj.toml")]) == 1
    assert "Read 5 rows of 2 features." in capsys.readouterr().err
    assert main(["join", "--site", "nowhere.toml"]) == 1
    assert "There is no nowhere.toml." in capsys.readouterr().err


def test_what_is_typed_counts_more(site, monkeypatch, capsys):
    monkeypatch.chdir(site.folder)
    typed = ["--wait", "9", "--output", "other", "--own-minimum", "6", "--missing", "1,5"]
    assert main(["join", "consortium.toml", *typed]) == 1
    said = capsys.readouterr().err
    assert "Ignoring age: it has fewer than 6 local values." in said
    assert site.settings.wait == 9
    assert site.settings.output.name == "other"
    assert main(["join", "--decimal", "."]) == 1
    assert "'1,5'" in capsys.readouterr().err
    assert main(["join", "--rename", "other=age"]) == 1
    assert "cannot have the same name 'age'" in capsys.readouterr().err


def test_what_nobody_says_is_wrong_usage(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for command, lacking in {
        "join": "FILE, --key, --certificate, --output",
        "check": "FILE",
    }.items():
        with pytest.raises(SystemExit) as ended:
            main([command])
        assert ended.value.code == 2
        assert f"the following arguments are required: {lacking}\n" in capsys.readouterr().err


def test_check_reads_the_table_as_join_will(site, monkeypatch, capsys):
    monkeypatch.chdir(site.folder)
    assert main(["check"]) == 0
    shown = capsys.readouterr()
    assert "ana.csv: 5 rows, separated by semicolons, UTF-8, decimal comma" in shown.out
    assert shown.err == "Options that are not given here are read from securefedyj.toml.\n"
    assert main(["check", "consortium.toml"]) == 0  # about the agreed file, as always
    shown = capsys.readouterr()
    assert "All parties must see the same digest" in shown.out
    assert shown.err == ""


def test_columns_of_the_file_serve_other_commands(site, monkeypatch, capsys):
    monkeypatch.chdir(site.folder)
    options = ["--columns", "securefedyj.toml", "--decimal", ","]
    assert main(["features", "ana.csv", *options]) == 0
    assert "lactate" in capsys.readouterr().out


def test_other_commands_take_from_it_how_the_table_is_written(site, monkeypatch, capsys):
    monkeypatch.chdir(site.folder)
    assert main(["features", "ana.csv"]) == 0
    out = capsys.readouterr().out
    assert "How the table is written is read from securefedyj.toml." in out
    assert "lactate: 0 to 10" in out
    assert not (site.folder / "result").exists()
    (site.folder / "other.csv").write_text("age|lactate\n63|1.5\n")
    typed = ("--delimiter", "|", "--decimal", ".", "--output", "more.csv")
    assert main(["features", "other.csv", *typed, "--site", os.devnull]) == 0
    assert "is read from" not in capsys.readouterr().out


# The log.


def test_log_has_what_was_shown_with_times(site, monkeypatch, capsys):
    def course(settings):
        settings.say("Party \x1b[2Jbob is there.")
        settings.progress(Progress(1, 9, 2, 5, 1000, 1.0, 3.0))

    monkeypatch.chdir(site.folder)
    site.course = course
    assert main(["join", "--log", "join.log"]) == 1
    assert main(["join", "--log", "join.log"]) == 1
    lines = (site.folder / "join.log").read_text().splitlines()
    shown = capsys.readouterr().err.replace("securefedyj: ", "").splitlines()
    assert [line.partition(" ")[2] for line in lines] == shown
    assert r"Party \x1b[2Jbob is there." in shown
    assert any(line.startswith("exchange 1/9") for line in shown)
    assert all(line[:2] == "20" and line[19] == "Z" for line in lines)
    assert stat.S_IMODE(os.stat("join.log").st_mode) == 0o600


def test_log_has_no_cells(site, monkeypatch, capsys):
    monkeypatch.chdir(site.folder)
    (site.folder / "ana.csv").write_text("Laktat;Alter\n1;seventy\n")
    assert main(["join", "--log", "join.log"]) == 1
    assert "seventy" in capsys.readouterr().err
    kept = (site.folder / "join.log").read_text()
    assert "seventy" not in kept
    assert "Ended by an error that may quote the table: " in kept


@pytest.mark.parametrize(
    "error", [TableError("SFY-TEST-001", "cell 7.5"), ValueError("7.5"), KeyError("7.5")]
)
def test_log_says_of_other_errors_what_kind_they_are(error):
    assert "7.5" not in without_rows(error)
    other = JoinError("SFY-TEST-001", "Party bob did not come")
    assert without_rows(other) == "Party bob did not come [SFY-TEST-001]"


def test_run_goes_on_without_its_log(tmp_path):
    log = JoinLog(tmp_path / "log")
    (tmp_path / "log").unlink()
    (tmp_path / "log").mkdir()
    assert log.note("one").startswith("The run continues without a log: this is a folder")
    assert log.note("two") == ""
    with pytest.raises(OSError, match="log"):
        JoinLog(tmp_path / "log")

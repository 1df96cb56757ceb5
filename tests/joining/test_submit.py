"""`securefedyj submit`: made once for an agreed file, kept, and sent as often as asked for."""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import json
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from dask import dataframe

from securefedyj import Cancelled, files, submit, submit_async
from securefedyj.cli.main import main
from securefedyj.errors import InputError
from securefedyj.joining.options import JoinOptions
from securefedyj.network import local
from securefedyj.network import submission as submissions
from securefedyj.network.consortium import Consortium, Feature
from securefedyj.network.keys import PrivateKeys
from securefedyj.network.ledger import Ledger
from securefedyj.numerics import wide
from securefedyj.protocol.submissions import component
from securefedyj.tables.files import write_table
from tests.network import clock
from tests.network.harness import Loopback
from tests.network.proxies import ConnectProxy
from tests.patience import PATIENCE, wait_until

NAMES = ("ana", "bob", "cem")
FEATURES = (
    Feature("sodium", 120.0, 160.0, resolution="1"),
    Feature("crp", 0.0, 500.0, resolution="0.1", round=True),
    Feature("height", 0.0, 250.0),
)
ROWS = np.array([[140.0, 3.14, 170.2], [139.0, np.nan, 181.0], [140.0, 0.26, 160.5]])


@pytest.fixture
def place(tmp_path, monkeypatch) -> Path:
    """A consortium of three hospitals without a hub, in the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SECUREFEDYJ_LEDGER", str(tmp_path / "ledger.jsonl"))
    with_hub = local.prepare(
        tmp_path, dict.fromkeys(NAMES, ROWS), FEATURES, submitted=True, minimum_values=5
    )
    dataclasses.replace(with_hub, hub=None).write(tmp_path / "usb.toml")
    return tmp_path


def arguments(place: Path, name: str = "ana", **more: Any) -> dict[str, Any]:
    own = {"consortium": place / "usb.toml", "key": place / f"{name}.key",
           "certificate": place / f"{name}.pem", "data": place / f"{name}.csv",
           "say": lambda sentence: None}  # fmt: skip
    return own | more


def command(place: Path, name: str = "ana", *more: str, data: bool = True) -> list[str]:
    own = arguments(place, name)
    table = ["--data", str(own["data"])] if data else []
    return ["submit", str(own["consortium"]), "--key", str(own["key"]), "--certificate",
            str(own["certificate"]), *table, *more]  # fmt: skip


def counts_in(place: Path, path: Path, consortium: Consortium) -> list[int]:
    """What all members together find in a file of three silos, which has no masks."""
    file, shares = submissions.read(path.read_bytes(), consortium), dict[int, bytes]()
    for name in consortium.committee:
        private = PrivateKeys.read(place / f"{name}.key", consortium.party(name).public)
        shares |= submissions.unseal(file, consortium, name, private)
    points = submissions.points_in(consortium.agreement())
    parts = [component(i, shares[i][32:] if i == 2 else shares[i], points) for i in range(3)]
    return wide.to_ints(wide.add(wide.add(*parts[:2]), parts[2]))


def refusal(work: Any, *given: Any, **named: Any) -> str:
    with pytest.raises((InputError, OSError)) as raised:
        work(*given, **named)
    return getattr(raised.value, "code", "")


def test_a_file_has_the_counts_of_the_table(place):
    said: list[str] = []
    path = submit(**arguments(place, say=said.append))
    assert path == place / "ana.submission"
    consortium = Consortium.read(place / "usb.toml")
    counts = counts_in(place, path, consortium)
    expected = [0] * (41 + 5001)
    expected[20], expected[19] = 2, 1  # 140 twice, 139 once
    expected[41 + 31] = expected[41 + 3] = 1  # 3.14 and 0.26, rounded
    assert counts == expected
    text = "\n".join(said)
    assert "Column crp: 2 of 2 values move to the next point, by at most 0.04." in text
    assert "3.14" not in text
    assert "give the file to all members" in text


def test_the_first_file_is_sent_again_and_another_is_never_made(place, capsys):
    assert main(command(place)) == 0
    first = (place / "ana.submission").read_bytes()
    write_table(place / "ana.csv", [one.name for one in FEATURES], ROWS + np.array([1, 0, 0]))
    capsys.readouterr()
    assert main(command(place)) == 0
    assert "A correction needs a new agreed file." in capsys.readouterr().err
    assert main(command(place, data=False)) == 0
    assert (place / "ana.submission").read_bytes() == first
    assert main(command(place, "ana", "--output", "stick.submission")) == 0  # a copy
    assert (place / "stick.submission").read_bytes() == first
    other = dataclasses.replace(Consortium.read(place / "usb.toml"), name="corrected")
    other.write(place / "corrected.toml")
    corrected = submit(**arguments(place, consortium=other, output=place / "2.submission"))
    assert corrected.read_bytes() != first


def test_a_file_that_is_lost_or_changed_is_not_made_again(place):
    path = submit(**arguments(place))
    whole = path.read_bytes()
    for content in (whole[:-1], whole[:-1] + b"x", None):
        if content is None:
            path.unlink()
        else:
            path.write_bytes(content)
        assert refusal(submit, **arguments(place)) == "SFY-SUB-011"
        assert refusal(submit, **arguments(place, output=place / "b")) == "SFY-SUB-011"
    path.write_bytes(whole)  # from a backup
    assert submit(**arguments(place)) == path


@pytest.mark.parametrize("moment", ["written", "noted", "named"])
def test_after_a_crash_there_is_still_one_submission(place, monkeypatch, moment):
    """The machine fails after the file is on the disk, after the note, or after the name."""
    noted, named, seen = Ledger.submit, os.replace, list[bytes]()

    class Failure(BaseException):
        pass

    def fail_at(step: str, now: str) -> None:
        if step == now:
            monkeypatch.setattr(Path, "unlink", lambda *_, **__: None)  # nothing is tidied up
            raise Failure

    def submit_noted(self: Ledger, run: Any, path: Path, sha256: str) -> None:
        (temporary,) = path.parent.glob(".*.ana.submission")
        seen.append(temporary.read_bytes())
        fail_at("written", moment)
        noted(self, run, path, sha256)
        fail_at("noted", moment)

    def replace_file(old: Any, new: Any) -> None:
        named(old, new)
        if Path(new).name == "ana.submission":
            fail_at("named", moment)

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "submit", submit_noted)
        patch.setattr(os, "replace", replace_file)
        with pytest.raises(Failure):
            submit(**arguments(place))
    monkeypatch.undo()
    ledger = {"ledger": place / "ledger.jsonl"}
    path = submit(**arguments(place, output=place / "ana.submission", **ledger))
    made = Ledger(place / "ledger.jsonl").submission(
        Consortium.read(place / "usb.toml").digest(), "ana"
    )
    assert made is not None
    assert hashlib.sha256(path.read_bytes()).hexdigest() == made.sha256
    # What was noted is what is sent; what was not noted has never left the machine.
    assert (path.read_bytes() == seen[0]) == (moment != "written")


def test_two_processes_make_one_submission(place, monkeypatch):
    """Both have seen that there is none; the second one must not make another."""
    monkeypatch.setenv("SECUREFEDYJ_LEDGER", str(place / "ledger.jsonl"))
    noted, others = Ledger.submit, []

    def slow(self: Ledger, run: Any, path: Path, sha256: str) -> None:
        monkeypatch.setattr(Ledger, "submit", noted)
        others.append(submit(**arguments(place, output=place / "other.submission")))
        noted(self, run, path, sha256)

    monkeypatch.setattr(Ledger, "submit", slow)
    assert refusal(submit, **arguments(place)) == "SFY-LED-005"
    assert not (place / "ana.submission").exists()
    again = submit(**arguments(place))
    assert again == others[0]


def test_parties_of_one_machine_submit_each(place):
    paths = [submit(**arguments(place, name)) for name in NAMES]
    assert len({path.read_bytes() for path in paths}) == 3


def test_a_value_that_is_no_point_names_its_line_at_home_and_nothing_is_made(place):
    write_table(place / "ana.csv", [one.name for one in FEATURES], ROWS + np.array([0.5, 0, 0]))
    with pytest.raises(InputError) as raised:
        submit(**arguments(place))
    assert raised.value.code == "SFY-SUB-015"
    assert "Column sodium: 3 of 3 values" in str(raised.value)
    assert "first 140.5 in line 2" in str(raised.value)
    assert not list(place.glob("*.submission"))
    assert not list(place.glob(".*.submission"))
    assert Ledger(place / "ledger.jsonl").submission(
        Consortium.read(place / "usb.toml").digest(), "ana"
    ) is None  # fmt: skip


def test_a_value_outside_its_bounds_is_refused(place):
    write_table(place / "ana.csv", [one.name for one in FEATURES], ROWS + np.array([100, 0, 0]))
    assert refusal(submit, **arguments(place)) == "SFY-NUM-009"
    write_table(place / "ana.csv", [one.name for one in FEATURES], ROWS + np.array([0, 0, 900]))
    assert refusal(submit, **arguments(place)) == "SFY-NUM-009"  # of a live feature, too


def test_features_with_fewer_values_than_the_own_minimum_are_left_out(place):
    said: list[str] = []
    path = submit(**arguments(place, own_minimum=3, say=said.append))
    counts = counts_in(place, path, Consortium.read(place / "usb.toml"))
    assert sum(counts[:41]) == 3
    assert sum(counts[41:]) == 0
    assert "Ignoring crp: it has fewer than 3 local values." in said


def test_an_earlier_run_over_the_same_values_is_warned_of(place):
    submit(**arguments(place))
    other = dataclasses.replace(Consortium.read(place / "usb.toml"), name="next", max_steps=40)
    with pytest.warns(UserWarning, match="did not finish"):
        submit(**arguments(place, consortium=other, output=place / "2.submission", say=None))


def test_frames_and_arrays_are_submitted_as_well(place):
    consortium = Consortium.read(place / "usb.toml")
    frame = pd.DataFrame(ROWS, columns=[one.name for one in FEATURES])
    dask = dataframe.from_pandas(frame, npartitions=2)
    for name, data in (("ana", dask), ("bob", frame), ("cem", ROWS.tolist())):
        path = submit(**arguments(place, name, data=data))
        assert sum(counts_in(place, path, consortium)) == 5


def test_who_has_nothing_to_submit_is_refused(place):
    consortium = Consortium.read(place / "usb.toml")
    live = dataclasses.replace(consortium, submitted=False)
    assert refusal(submit, **arguments(place, consortium=live)) == "SFY-SUB-010"
    parties = tuple(
        dataclasses.replace(one, role="helper" if one.name == "cem" else "silo")
        for one in consortium.parties
    )
    helped = dataclasses.replace(consortium, parties=parties)
    assert refusal(submit, **arguments(place, "cem", consortium=helped)) == "SFY-SUB-010"
    assert refusal(submit, **arguments(place, data=None)) == "SFY-SUB-013"
    (place / "ana.submission").write_bytes(b"of another run")
    assert refusal(submit, **arguments(place)) == "SFY-SUB-012"
    assert (place / "ana.submission").read_bytes() == b"of another run"


def test_keys_that_do_not_fit_are_refused_before_a_file_is_there(place):
    """Another party's file; the right keys for submissions behind another one's certificate key."""
    own, other = ((place / f"{name}.key").read_bytes() for name in ("ana", "bob"))
    wrong, mixed = place / "wrong.key", place / "mixed.key"
    end = b"-----END PRIVATE KEY-----\n"
    wrong.write_bytes(other)
    mixed.write_bytes(other.partition(end)[0] + end + own.partition(end)[2])
    for path, code in ((wrong, "SFY-KEY-006"), (mixed, "SFY-SUB-004")):
        path.chmod(0o600)
        assert refusal(submit, **arguments(place, key=path)) == code
    assert not list(place.glob("*.submission"))
    assert submit(**arguments(place)).exists()


def test_a_disk_that_is_full_leaves_nothing_noted(place, monkeypatch):
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("securefedyj.joining.submit.sync", full)
        assert refusal(submit, **arguments(place)) == ""
    assert not list(place.glob("*.submission"))
    assert submit(**arguments(place)).exists()
    assert files.sync is not full


def test_leaving_while_rows_are_read_makes_nothing(place):
    read, left, threads = threading.Event(), threading.Event(), list[threading.Thread]()

    def rows(*_: Any) -> None:
        threads.append(threading.current_thread())
        read.set()
        left.wait()

    with pytest.raises(Cancelled, match="Rerun the call to submit"):
        submit(**arguments(place, rows=rows, cancelled=read.is_set))
    left.set()
    threads[0].join()
    assert not list(place.glob("*.submission"))
    assert submit(**arguments(place)).exists()


def test_the_calls_that_block_and_that_do_not_have_the_same_arguments():
    assert inspect.signature(submit) == inspect.signature(submit_async)


def test_the_arguments_are_those_of_join(place):
    own = inspect.signature(submit_async).parameters
    for one in dataclasses.fields(JoinOptions):
        if one.name in own and one.name != "output" and one.default is not dataclasses.MISSING:
            assert own[one.name].default == one.default, one.name


def test_what_is_public_about_a_file_is_shown_and_nothing_else(place, capsys):
    path = submit(**arguments(place))
    consortium = Consortium.read(place / "usb.toml")
    assert main(["submission", str(path)]) == 0
    shown = capsys.readouterr().out
    for text in ("ana", consortium.name, consortium.digest(), str(path.stat().st_size)):
        assert text in shown
    assert "Not checked" in shown
    assert main(["submission", str(path), "--consortium", str(place / "usb.toml"), "--json"]) == 0
    public = json.loads(capsys.readouterr().out)
    assert set(public) == {
        "silo",
        "consortium",
        "digest",
        "fingerprint",
        "date",
        "bytes",
        "checked",
    }
    assert public["checked"] is True
    path.write_bytes(path.read_bytes()[:-1])
    assert main(["submission", str(path), "--consortium", str(place / "usb.toml")]) == 1
    assert "[SFY-SUB-006]" in capsys.readouterr().err
    path.write_bytes(os.urandom(1 << 16))
    assert main(["submission", str(path)]) == 1
    assert "[SFY-SUB-001]" in capsys.readouterr().err


def test_the_site_file_serves_but_for_its_output(place, capsys):
    lines = [
        f'{key} = "{value.name}"' for key, value in arguments(place, say=None).items() if value
    ]
    (place / "securefedyj.toml").write_text("\n".join([*lines, 'output = "result"']))
    assert main(["submit"]) == 0
    assert (place / "ana.submission").is_file()
    assert not (place / "result").exists()


@pytest.mark.processes
def test_the_hub_gets_the_file_and_the_same_again_through_a_proxy(place):
    consortium = Consortium.read(place / "consortium.toml")

    async def scenario() -> None:
        async with Loopback(place, consortium, dict.fromkeys(NAMES, ROWS)) as net:
            net.mailbox = place / "mailbox"
            await net.start_hub()
            path = await submit_async(**arguments(place, consortium=consortium))
            async with ConnectProxy() as proxy:
                own = arguments(place, consortium=consortium, data=None, proxy=proxy.url)
                assert await submit_async(**own) == path.resolve()
                assert len(proxy.heads) == 1
            (stored,) = net.mailbox.rglob("ana.submission")
            assert stored.read_bytes() == path.read_bytes()
            submissions.read(stored.read_bytes(), consortium)

    clock.run(scenario())


@pytest.mark.processes
def test_a_silo_that_waits_gets_the_result(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    silos, members = ("ana", "bob", "cem", "dua"), ("ana", "bob", "cem")
    rows = np.rint(np.random.default_rng(1).normal(140, 4, size=(80, 1)))
    tables = {name: rows[20 * j :][:20] for j, name in enumerate(silos)}
    agreed = local.prepare(
        tmp_path, tables, FEATURES[:1], committee=members, submitted=True, max_steps=6
    )
    file, command = str(tmp_path / "consortium.toml"), ("-m", "securefedyj")

    def own(name: str) -> tuple[str, ...]:
        path = tmp_path / name
        return (file, "--key", f"{path}.key", "--certificate", f"{path}.pem",
                "--ledger", f"{path}.ledger.jsonl")  # fmt: skip

    with local.Processes(tmp_path) as running:
        running.start("hub", *command, "hub", *own("hub")[:-2], "--mailbox", str(tmp_path / "mail"),
                      "--listen", agreed.agreed_hub().address)  # fmt: skip
        wait_until(lambda: " listening " in running.log("hub"), lambda: running.log("hub"))
        running.start("dua", *command, "submit", *own("dua"), "--data", str(tmp_path / "dua.csv"),
                      "--result", str(tmp_path / "dua"))  # fmt: skip
        for name in members:
            table = ("--data", str(tmp_path / f"{name}.csv"))
            running.start("other", *command, "submit", *own(name), *table)
            assert running.running.pop("other").wait(PATIENCE) == 0, running.log("other")
            running.start(name, *command, "join", *own(name), "--output", str(tmp_path / name))
        codes = running.wait(PATIENCE)
        assert codes == dict.fromkeys(("dua", *members), 0), running.log("dua")
    results = [(tmp_path / name / "parameters.json").read_bytes() for name in silos]
    assert len(set(results)) == 1
    assert (tmp_path / "dua" / "report.html").is_file()


def test_a_submission_that_is_noted_is_kept_even_if_it_gets_no_name(place, monkeypatch):
    """Such as on a network drive that fails just then: without it, the silo could never submit."""

    def failing(*_: Any) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", failing)
        refusal(submit, **arguments(place))
    later = place / "ana.submission"
    later.write_bytes(b"for another agreed file")
    assert refusal(submit, **arguments(place)) == "SFY-SUB-012"
    assert later.read_bytes() == b"for another agreed file"
    later.unlink()
    path = submit(**arguments(place))
    made = Ledger(place / "ledger.jsonl").submission(
        Consortium.read(place / "usb.toml").digest(), "ana"
    )
    assert made is not None
    assert hashlib.sha256(path.read_bytes()).hexdigest() == made.sha256


def test_a_copy_replaces_no_other_file(place):
    submit(**arguments(place))
    table = (place / "ana.csv").read_bytes()
    assert refusal(submit, **arguments(place, output=place / "ana.csv")) == "SFY-SUB-012"
    assert (place / "ana.csv").read_bytes() == table

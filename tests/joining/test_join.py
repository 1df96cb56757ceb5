"""`securefedyj.join`: what the command does, from Python."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import inspect
import os
import signal
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import securefedyj
from securefedyj import Cancelled, join, join_async
from securefedyj.cli.main import main
from securefedyj.errors import code_of
from securefedyj.joining import call, own
from securefedyj.joining.options import JoinOptions
from securefedyj.joining.run import JoinRun
from securefedyj.network.errors import JoinError
from securefedyj.network.session import participant
from securefedyj.numerics.passes import rows_at_once
from securefedyj.numerics.sums import OutOfBounds
from securefedyj.parameters import Parameters
from securefedyj.protocol.simulation import simulate
from securefedyj.protocol.transcript import Origin
from securefedyj.tables.cells import TableError
from securefedyj.tables.dialect import Dialect
from tests.joining.stage import Stage
from tests.network import clock, harness
from tests.network.clock import until
from tests.patience import PATIENCE, wait_until
from tests.refusals import refused

THREE = harness.THREE
LEFT = "Stopped; the other parties wait. Rerun the call to resume."


def expected(stage):
    transcript, _ = simulate(stage.consortium.agreement(), list(harness.THREE.values()))
    transcript.origin = Origin(stage.consortium.name, stage.consortium.digest())
    return Parameters.of(transcript).to_bytes()


def gathered(stage, **others):
    async def all_of_them():
        calls = [join_async(**stage.arguments(name, **others)) for name in stage.tables]
        return await asyncio.gather(*calls)

    return asyncio.run(all_of_them())


@pytest.fixture
def stage(tmp_path):
    return Stage(tmp_path, dict(THREE))


# All that tables/ takes.


@pytest.mark.processes
def test_whatever_holds_the_rows_gives_the_bits_of_the_file(stage):
    names = ["lactate", "age"]
    stage.tables = {
        "ana": stage.folder / "ana.csv",
        "bob": pd.DataFrame(THREE["bob"], columns=names)[["age", "lactate"]],
        "cem": THREE["cem"],
    }
    with stage.hub():
        fitted = gathered(stage)
    for name, mine in zip(THREE, fitted, strict=True):
        assert stage.file(name) == expected(stage)
        loaded = securefedyj.load(stage.folder / name / "parameters.json")
        X = pd.DataFrame(harness.ROWS, columns=names)
        np.testing.assert_array_equal(mine.transform(X), loaded.transform(X))
        files = {path.name for path in (stage.folder / name).iterdir()}
        assert files >= {"parameters.json", "transcript.jsonl", "cost.json", "report.html"}
    assert stage.said["bob"][0] == "Read 15 rows of 2 features."


@pytest.mark.parametrize(
    "kind",
    [
        lambda rows: rows.tolist(),
        lambda rows: np.asfortranarray(rows),
        lambda rows: pd.DataFrame(rows[:, ::-1], columns=["age", "lactate"]),
        lambda rows: pl.DataFrame(rows, schema=["lactate", "age"]).lazy(),
        lambda rows: pa.table({"lactate": rows[:, 0], "other": rows[:, 0], "age": rows[:, 1]}),
        lambda rows: pa.record_batch({"lactate": rows[:, 0], "age": rows[:, 1]}),
    ],
    ids=["list", "array", "pandas", "polars", "table", "batch"],
)
def test_tables_and_arrays_are_the_same_rows(stage, kind):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        own = part_of(stage, data=kind(THREE["ana"])).own_table()
    (block,) = own.source.blocks(range(2))
    np.testing.assert_array_equal(block, THREE["ana"])
    assert tuple(own.source.names) == ("lactate", "age")


def test_codes_and_other_names_count_for_frames(stage):
    frame = pd.DataFrame({"Laktat": [1.0, -999.0], "age": [3.0, 4.0]})
    options = {"missing": ["-999"], "dialect": Dialect(rename={"Laktat": "lactate"})}
    own = part_of(stage, data=frame, **options).own_table()
    (block,) = own.source.blocks(range(2))
    np.testing.assert_array_equal(block, [[1.0, 3.0], [np.nan, 4.0]])


def test_a_column_that_is_left_out_counts_as_missing(stage):
    own = part_of(stage, data=THREE["ana"], without=["age"]).own_table()
    (block,) = own.source.blocks(range(2))
    np.testing.assert_array_equal(block[:, 0], THREE["ana"][:, 0])
    assert np.isnan(block[:, 1]).all()
    assert own.census.count.tolist() == [len(block), 0]
    with refused("SFY-CON-060", naming="'Age'"):
        part_of(stage, data=THREE["ana"], without=["Age"])


def test_array_must_have_the_agreed_columns(stage):
    with pytest.raises(TableError, match="the table has 3 columns without names"):
        part_of(stage, data=np.ones((4, 3))).own_table()


def part_of(stage, **others):
    files = (stage.folder / name for name in ("ana.key", "ana.pem", "ana"))
    return JoinRun(JoinOptions(stage.consortium, *files, **others))


@pytest.fixture
def without_reports(monkeypatch):
    """Reports take as long as runs, and are looked at elsewhere."""
    monkeypatch.setattr(own, "write_report", lambda *report: None)


# Ways to call it.


@pytest.mark.processes
@pytest.mark.usefixtures("without_reports")
def test_threads_a_running_loop_and_a_helper_without_data(tmp_path):
    stage = Stage(tmp_path, {"ana": THREE["ana"], "bob": harness.ROWS[20:], "cem": None})
    told = []

    async def in_a_notebook():
        return join(**stage.arguments("bob"))  # where an event loop runs

    with stage.hub(), ThreadPoolExecutor(3) as pool:
        calls = [
            pool.submit(join, **stage.arguments("ana", rows=lambda *now: told.append(now))),
            pool.submit(asyncio.run, in_a_notebook()),
            pool.submit(join, **stage.arguments("cem")),
        ]
        fitted = [one.result(PATIENCE) for one in calls]
    for mine in fitted:
        np.testing.assert_array_equal(mine.lambdas_, harness.pooled(12).lambdas_)
    assert ("read", 20, 20) in told
    assert {done for done, _, _ in told} == {"read", "summed"}
    assert not (tmp_path / "cem.ledger.jsonl").exists()


def test_both_ways_have_the_same_parameters():
    assert inspect.signature(join) == inspect.signature(join_async)
    assert not inspect.iscoroutinefunction(join)
    assert (join.__name__, join_async.__name__) == ("join", "join_async")


def test_arguments_are_the_declared_options_with_their_defaults():
    arguments = dict(inspect.signature(join_async).parameters)
    for one in dataclasses.fields(JoinOptions):
        default = arguments.pop(one.name).default
        required = one.default is one.default_factory is dataclasses.MISSING
        if one.name != "dialect":  # None stands for the dialect that the table shows
            assert default == (inspect.Parameter.empty if required else one.default), one.name
    assert list(arguments) == ["say", "progress", "rows", "cancelled", "dialer"]


# Runs that are repeated.


@pytest.mark.processes
@pytest.mark.usefixtures("without_reports")
def test_repeated_run_is_told_before_and_another_result_after_it(stage):
    def once_more(number):
        async def all_of_them():
            calls = (
                join_async(**stage.arguments(name, output=stage.folder / f"{name}-{number}"))
                for name in stage.tables
            )
            return await asyncio.gather(*calls)

        stage.said = {name: [] for name in stage.tables}
        asyncio.run(all_of_them())
        return {
            name: [one for one in said if "Warning" in one] for name, said in stage.said.items()
        }

    repeats = "Warning: This run repeats run "
    with stage.hub():
        assert once_more(1) == {"ana": [], "bob": [], "cem": []}
        for told in once_more(2).values():  # and nothing after the run: the bits are the same
            assert [one.startswith(repeats) for one in told] == [True]
        stage.tables["bob"] = stage.tables["bob"] + 0.25
        told = once_more(3)
    assert [len(told[name]) for name in THREE] == [2, 1, 2]
    assert "had other values here" in told["bob"][0]
    for name in ("ana", "cem"):
        assert told[name][0].startswith(repeats)
        assert told[name][1].startswith("Warning: The result is NOT THE SAME as that of run ")
        assert f"{stage.folder / name}-2. The agreed file and your own rows" in told[name][1]


# Leaving, and going on.


@pytest.mark.processes
@pytest.mark.usefixtures("without_reports")
def test_cancelled_party_tells_the_others_and_goes_on_with_the_same_call(stage):
    """First by `cancelled`, then by cancelling the task; the result has the bits of one run."""
    seen, reached, asked = [], threading.Event(), threading.Event()

    def stay(now):
        """Let nobody go on until it was seen that we are to leave."""
        if now.exchange > 1:
            reached.set()
            asked.wait(PATIENCE)

    def leave():
        if reached.is_set():
            asked.set()
        return asked.is_set()

    async def course():
        others = [
            asyncio.create_task(join_async(**stage.arguments(name))) for name in ("ana", "bob")
        ]
        with pytest.raises(Cancelled) as left:
            await join_async(**stage.arguments("cem", progress=stay, cancelled=leave))
        assert str(left.value) == LEFT
        assert not (stage.folder / "cem" / "parameters.json").exists()
        again = asyncio.create_task(join_async(**stage.arguments("cem", progress=seen.append)))
        await until(lambda: any(p.exchange > 3 for p in seen))
        again.cancel()
        with pytest.raises(asyncio.CancelledError):
            await again
        assert stage.said["cem"][-1] == LEFT
        await join_async(**stage.arguments("cem"))
        await asyncio.gather(*others)

    with stage.hub():
        asyncio.run(course())
    for name in THREE:
        assert stage.file(name) == expected(stage)
    assert any(
        s.startswith("2 of at most 20 interruptions, both by cem") for s in stage.said["ana"]
    )


@pytest.mark.processes
@pytest.mark.usefixtures("without_reports")
@pytest.mark.parametrize("in_a_loop", [False, True])
def test_keyboard_interrupt_takes_leave_of_the_others(stage, in_a_loop):
    async def cell(**arguments):
        return join(**arguments)

    def in_a_notebook(**arguments):
        with contextlib.closing(asyncio.new_event_loop()) as loop:  # without handlers of signals
            return loop.run_until_complete(cell(**arguments))

    def press(now):
        if now.exchange > 1 and not pressed.is_set():
            pressed.set()
            os.kill(os.getpid(), signal.SIGINT)
            wait_until(lambda: LEFT in stage.said["cem"])  # let nobody come to the end before

    pressed = threading.Event()
    with stage.hub(), ThreadPoolExecutor(2) as pool:
        others = [pool.submit(join, **stage.arguments(name)) for name in ("ana", "bob")]
        mine = stage.arguments("cem", progress=press)
        with pytest.raises(KeyboardInterrupt):
            in_a_notebook(**mine) if in_a_loop else join(**mine)
        assert stage.said["cem"][-1] == LEFT
        join(**stage.arguments("cem"))
        for other in others:
            other.result(PATIENCE)
    assert stage.file("ana") == stage.file("cem") == expected(stage)
    assert any("by cem" in sentence for sentence in stage.said["ana"])


def test_leaving_while_a_table_is_read_says_that_nothing_began(stage):
    block, ended = np.ones((rows_at_once(2), 2)), threading.Event()

    class Endless:
        names, rows = ("lactate", "age"), None

        def blocks(self, columns):
            try:
                while True:
                    yield block
            finally:
                ended.set()

    count = iter(range(100))
    with pytest.raises(Cancelled, match="Stopped before the run began"):
        join(
            **stage.arguments("ana", data=Endless(), cache_mb=1, cancelled=lambda: next(count) > 1)
        )
    assert ended.wait(PATIENCE)  # nobody waits for the thread, and it ends by itself
    assert not (stage.folder / "ana.ledger.jsonl").exists()


def test_leaving_is_asked_for_once():
    """A second cancellation would break off the last words to the others."""
    cancellations = []

    async def work():
        try:
            await asyncio.sleep(30)
        finally:
            try:
                await asyncio.sleep(3 * call._LOOK_EVERY)
            except asyncio.CancelledError:
                cancellations.append("second")
            cancellations.append("left")

    assert clock.run(call._unless(lambda: True, work())) is None
    assert cancellations == ["left"]


def test_error_in_the_question_is_raised(stage, monkeypatch):
    async def forever(settings, silo):
        await asyncio.sleep(30)

    def asked():
        raise ZeroDivisionError

    monkeypatch.setattr(participant, "participate", forever)
    with pytest.raises(ZeroDivisionError):
        join(**stage.arguments("ana", cancelled=asked))


# What is said, and what goes wrong.


@pytest.mark.parametrize(
    ("name", "others", "options"),
    [
        ("ana", {"timeout": 0.0}, ["--timeout", "0"]),
        ("ana", {"own_minimum": -1}, ["--own-minimum=-1"]),
        ("ana", {"cache_mb": -1}, ["--cache-mb=-1"]),
        ("ana", {"data": None}, None),
        ("ana", {"certificate": "hub.pem"}, ["--certificate", "hub.pem"]),
        ("ana", {"key": "nobody.key"}, ["--key", "nobody.key"]),
        ("ana", {"data": "nobody.csv"}, ["--data", "nobody.csv"]),
        ("ana", {"data": "bad.csv"}, ["--data", "bad.csv"]),
        ("ana", {"output": "full"}, ["--output", "full"]),
        ("ana", {"consortium": "ana.pem"}, None),
    ],
)
def test_errors_are_the_sentences_of_the_command(stage, name, others, options, monkeypatch, capsys):
    monkeypatch.chdir(stage.folder)
    (stage.folder / "bad.csv").write_text("lactate,age\n1,old\n")
    (stage.folder / "full").mkdir()
    (stage.folder / "full" / "parameters.json").touch()
    files = {"key": f"{name}.key", "certificate": f"{name}.pem", "data": f"{name}.csv"}
    with pytest.raises((ValueError, OSError)) as raised:
        join(**stage.arguments(name, **{"consortium": "consortium.toml", **files, **others}))
    file = others.get("consortium", "consortium.toml")
    data = [] if options is None and "data" in others else ["--data", f"{name}.csv"]
    typed = ["--key", f"{name}.key", "--certificate", f"{name}.pem", "--output", name]
    assert main(["join", file, *typed, *data, "--ledger", "ledger", *(options or [])]) == 1
    shown = capsys.readouterr().err.splitlines()[-1]
    error = raised.value
    if isinstance(error, OSError) and error.filename is not None:
        assert shown.startswith(f"securefedyj: {error.filename}: there is no such file")
        assert shown.endswith(" [SFY-OS-ENOENT]")
    else:
        assert shown == f"securefedyj: {error} [{code_of(error, '')}]"


def test_values_outside_the_bounds_are_found_by_check_if_they_are_in_a_file(stage, tmp_path):
    far = pd.DataFrame({"lactate": [1.0, 1e30], "age": [50.0, 51.0]})
    far.to_csv(tmp_path / "far.csv", index=False)
    told = "outside its agreed bounds"
    with pytest.raises(OutOfBounds, match=f"{told}.*`securefedyj check --data` shows where"):
        join(**stage.arguments("ana", data=tmp_path / "far.csv"))
    with pytest.raises(OutOfBounds, match=f"{told}.*with all silos.$"):
        join(**stage.arguments("ana", data=far))


def test_hub_is_needed_but_with_another_carrier(stage):
    without = dataclasses.replace(stage.consortium, hub=None)
    with pytest.raises(ValueError, match="hub"):
        join(**stage.arguments("ana", consortium=without))

    class Nowhere:
        async def connect(self):
            raise JoinError("SFY-TEST-001", "We were here.")

        def progress(self):
            pass

    with pytest.raises(JoinError, match="We were here"):
        join(**stage.arguments("ana", consortium=without, dialer=Nowhere()))


def test_warnings_reach_who_does_not_listen(stage, tmp_path, monkeypatch):
    """What a silo should know before a run must not be lost for want of `say`."""

    async def stop(settings, silo):
        raise JoinError("SFY-TEST-001", "As far as this.")

    monkeypatch.setattr(participant, "participate", stop)
    two = Stage(tmp_path / "two", {"ana": THREE["ana"], "bob": THREE["bob"], "cem": None})
    with (
        pytest.warns(UserWarning, match="Note: only ana and bob have data."),
        pytest.raises(JoinError, match="As far as this"),
    ):
        join(**two.arguments("ana", say=None))
    with pytest.raises(JoinError, match="As far as this"):
        join(**two.arguments("bob"))
    assert any(sentence.startswith("Note: only ana") for sentence in two.said["bob"])

"""Parties on the network: the same bits as in one process, whatever happens on the way."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
import signal
import socket
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import securefedyj
from securefedyj import parameters
from securefedyj.network import local
from securefedyj.network.hub import consortia as served
from securefedyj.network.session import participant as network
from securefedyj.network.session import records
from securefedyj.network.session.journal import FILE, JournalError, open_journal
from securefedyj.network.session.participant import JoinError
from securefedyj.network.transport import link, tls
from securefedyj.numerics import wide
from securefedyj.numerics.sums import ArraySilo
from securefedyj.party.messages import VERSION
from securefedyj.protocol.reveals import to_line
from securefedyj.protocol.schedule import TooFewValues
from securefedyj.protocol.transcript import Transcript
from securefedyj.report.results import Provenance
from tests.network import odd_party
from tests.network.clock import run, until
from tests.network.gate import Gate
from tests.network.harness import FIVE, ROWS, SHORT, THREE, Loopback, assert_same_bits, prepare
from tests.patience import PATIENCE

pytestmark = pytest.mark.processes


@pytest.mark.parametrize("tables", [THREE, FIVE], ids=["three", "five"])
def test_result_is_the_same_to_the_last_bit_as_in_one_process(tmp_path, tables):
    async def scenario() -> dict[str, Any]:
        async with Loopback(tmp_path, prepare(tmp_path, tables), tables) as net:
            await net.start_hub()
            for name in tables:
                net.start(name)
            return await net.outcomes()

    outcomes = run(scenario())
    for transcript in outcomes.values():
        assert_same_bits(transcript)


def test_too_few_values_is_told_to_everybody(tmp_path):
    async def scenario() -> dict[str, Any]:
        consortium = prepare(tmp_path, FIVE, minimum_values=1000)
        async with Loopback(tmp_path, consortium, FIVE) as net:
            await net.start_hub()
            for name in FIVE:
                net.start(name)
            return await net.outcomes()

    for error in run(scenario()).values():
        assert isinstance(error, TooFewValues)


async def outcomes_of_two(folder: Path, **odd: Any) -> dict[str, Any]:
    consortium = prepare(folder)
    async with Loopback(folder, consortium, THREE) as net:
        await net.start_hub()
        net.start("ana")
        if "max_steps" in odd:
            odd = {"consortium": dataclasses.replace(consortium, **odd)}
        net.start("bob", **odd)
        return await net.outcomes()


def test_clocks_that_are_apart_get_a_sentence(tmp_path):
    for error in run(outcomes_of_two(tmp_path, clock=lambda: time.time() + 3600)).values():
        assert isinstance(error, JoinError)
        assert "The clock of party" in str(error)


def test_parties_find_out_by_themselves_that_their_files_differ(tmp_path, monkeypatch):
    """Whatever the hub says about it."""
    monkeypatch.setattr(served, "check_same", lambda consortium, said: None)

    for error in run(outcomes_of_two(tmp_path, max_steps=13)).values():
        assert isinstance(error, JoinError)
        assert "has another agreed file" in str(error)


@pytest.mark.parametrize("what", ["file", "version"])
def test_who_does_not_fit_the_hub_is_told(tmp_path, monkeypatch, what):
    monkeypatch.setattr(link, "VERSION", 999 if what == "version" else VERSION)

    async def scenario() -> BaseException | None:
        consortium = prepare(tmp_path)
        odd = dataclasses.replace(consortium, max_steps=13 if what == "file" else 12)
        async with Loopback(tmp_path, consortium, THREE) as net:
            await net.start_hub()
            net.start("bob", consortium=odd)
            return await first_error(net)

    error = run(scenario())
    assert isinstance(error, JoinError)
    sentence = {"file": "is not the hub's: its digest begins", "version": "Upgrade the hub"}
    assert sentence[what] in str(error)


async def outcomes_of_strangers(folder: Path) -> dict[str, Any]:
    """A hub that does not know ana, and that bob does not know."""
    ours, theirs = prepare(folder / "ours"), prepare(folder / "theirs")
    moved = dataclasses.replace(ours.agreed_hub(), address=theirs.hub.address)
    async with Loopback(folder / "theirs", theirs, THREE) as net:
        await net.start_hub()
        net.folder = folder / "ours"
        net.start("ana", consortium=dataclasses.replace(ours, hub=theirs.hub))
        net.start("bob", consortium=dataclasses.replace(ours, hub=moved))
        return {**await net.outcomes(), "said": net.said}


def test_who_is_unknown_is_told_at_once(tmp_path):
    outcomes = run(outcomes_of_strangers(tmp_path))
    assert isinstance(outcomes["ana"], JoinError)
    assert "The hub refuses our certificate (tlsv1 alert unknown ca)" in str(outcomes["ana"])
    assert outcomes["bob"].code == "SFY-NET-013"
    assert outcomes["said"]["ana"] == []


def test_a_hub_that_ends_connections_without_a_word_is_soon_given_up(tmp_path, monkeypatch):
    """As where the reason is lost on the way."""
    monkeypatch.setattr(network, "MOST_UNWELCOME", 3)
    monkeypatch.setattr(tls, "alert", lambda error: b"")
    outcomes = run(outcomes_of_strangers(tmp_path))
    assert "may not know our certificate" in str(outcomes["ana"])


def test_words_of_the_hub_cannot_control_the_terminal():
    assert link.sentence(b"bad\x1b[2J\nnews") == r"bad\x1b[2J\x0anews"


def test_another_version_gets_a_sentence(tmp_path):
    async def scenario() -> BaseException | None:
        async with Loopback(tmp_path, prepare(tmp_path), THREE) as net:
            await net.start_hub()
            net.start("ana")
            words = [records.write(records.OtherVersion(99))]
            bob = odd_party.say_to_all(net.consortium, "bob", net.identity("bob"), words)
            task = asyncio.create_task(bob)
            error = await first_error(net)
            task.cancel()
            return error

    error = run(scenario())
    assert error.code == "SFY-JOIN-056"
    assert "Upgrade this party" in str(error)


async def first_error(net: Loopback) -> BaseException | None:
    done, _ = await asyncio.wait(net.tasks.values(), return_when=asyncio.FIRST_COMPLETED)
    return done.pop().exception()


@pytest.mark.parametrize(
    ("victim", "exchange"), [("ana", 1), ("coordinator", 7), ("eva", 4), ("hub", 5)]
)
def test_whoever_is_killed_and_comes_back_changes_no_bit(tmp_path, victim, exchange):
    async def scenario() -> dict[str, Any]:
        async with Loopback(tmp_path, prepare(tmp_path, FIVE), FIVE) as net:
            await net.start_hub()
            for name in FIVE:
                net.start(name)
            await net.until_exchange("bob", exchange)
            if victim == "hub":
                await net.crash_hub()
                await net.start_hub()
            else:
                await net.crash(victim)
                net.start(victim)
            return await net.outcomes()

    for name, transcript in run(scenario()).items():
        assert isinstance(transcript, Transcript), f"{name}: {transcript!r}"
        assert_same_bits(transcript)


def test_a_party_that_does_not_come_back_is_named(tmp_path):
    async def scenario() -> tuple[dict[str, Any], Loopback]:
        async with Loopback(tmp_path, prepare(tmp_path, FIVE), FIVE) as net:
            await net.start_hub()
            for name in FIVE:
                net.start(name, **SHORT)
            await net.until_exchange("bob", 3)
            await net.crash("dua")
            del net.tasks["dua"]
            return await net.outcomes(), net

    outcomes, net = run(scenario())
    for name, error in outcomes.items():
        assert isinstance(error, JoinError)
        assert "Party dua did not come within 10 seconds" in str(error)
        assert any(re.match("Party dua left in exchange [34567]", line) for line in net.said[name])


def test_who_has_the_result_does_not_need_the_others(tmp_path):
    """Neither peers that have gone, nor the hub."""

    async def scenario() -> tuple[Any, list[str]]:
        async with Loopback(tmp_path, prepare(tmp_path), THREE) as net:
            await net.start_hub()
            for name in THREE:
                net.start(name)
            await net.outcomes()
            await net.crash_hub()
            net.start("ana", **SHORT)
            return (await net.outcomes())["ana"], net.said["ana"]

    transcript, said = run(scenario())
    assert_same_bits(transcript)
    (told,) = [sentence for sentence in said if sentence.startswith("This run is finished: ")]
    assert f"its result is in {tmp_path / 'ana'} and stays as it is" in told
    assert "For a new fit, choose another output folder." in told
    assert "we wait up to 10 seconds until all others have it" in told
    assert said[-1] == "bob and cem confirmed the result and did not say that it is written."


def test_a_silent_party_is_named(tmp_path, monkeypatch):
    async def scenario() -> tuple[dict[str, Any], Loopback]:
        async with Loopback(tmp_path, prepare(tmp_path), THREE) as net:
            await net.start_hub()
            for name in THREE:
                net.start(name, **SHORT)
            await net.until_exchange("bob", 2)
            net.cables["cem"].deaden()
            task = net.tasks.pop("cem")
            outcomes = await net.outcomes()
            task.cancel()
            return outcomes, net

    outcomes, net = run(scenario())
    for name, error in outcomes.items():
        assert isinstance(error, JoinError)
        assert "cem" in str(error)
        assert any("Nothing was heard from party cem for 5 seconds" in s for s in net.said[name])


def test_a_party_that_is_stopped_tells_the_others_at_once(tmp_path):
    """Long before its silence would tell them; who computes just then sees only that it left."""

    async def scenario() -> dict[str, Any]:
        async with Loopback(tmp_path, prepare(tmp_path), THREE) as net:
            await net.start_hub()
            for name in THREE:
                net.start(name, timeout=3600.0, wait=3600.0)
            await net.until_exchange("ana", 2)
            net.tasks["bob"].cancel()
            async with asyncio.timeout(600.0):
                for name in ("ana", "cem"):
                    await net.until_said(name, "bob (was stopped|left)")
                await asyncio.wait({net.tasks["bob"]})
            net.start("bob")
            return await net.outcomes()

    for transcript in run(scenario()).values():
        assert_same_bits(transcript)


def test_who_is_stopped_while_the_hub_is_lost_stops(tmp_path):
    """At whatever turn of the event loop the signal comes."""

    async def scenario() -> list[int]:
        running = []
        async with Loopback(tmp_path, prepare(tmp_path), THREE) as net:
            await net.start_hub()
            for turns in range(20):
                net.lines.clear()
                net.start("ana")
                await until(lambda: any(line.startswith("connected") for line in net.lines))
                net.cables["ana"].cut()
                for _ in range(turns):
                    await asyncio.sleep(0)
                net.tasks["ana"].cancel()
                _, pending = await asyncio.wait({net.tasks["ana"]}, timeout=60.0)
                if pending:
                    running.append(turns)
        return running

    assert run(scenario()) == []


@pytest.mark.parametrize("lost", [False, True], ids=["with the state", "without it"])
def test_rows_cannot_change_in_the_middle_of_a_run(tmp_path, lost):
    """At home by their digest; without the state, by what all others have."""

    async def scenario() -> dict[str, Any]:
        async with Loopback(tmp_path, prepare(tmp_path), dict(THREE)) as net:
            await net.start_hub()
            for name in THREE:
                net.start(name, **SHORT)
            await net.until_exchange("ana", 4)
            await net.crash("bob")
            if lost:
                (tmp_path / "bob" / FILE).unlink()
            net.tables["bob"] = ROWS[20:34]
            net.start("bob", **SHORT)
            return await net.outcomes()

    outcomes = run(scenario())
    sentence = "without us there can be 0 at most" if lost else "not those that this run began with"
    assert sentence in str(outcomes["bob"])
    assert not any(isinstance(outcome, Transcript) for outcome in outcomes.values())


async def proxy(port: int, target: int, break_after: list[int]) -> asyncio.Server:
    """Between a party and the hub; changes one byte after so many bytes, one time for each."""

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limit: int) -> None:
        count = 0
        while data := await reader.read(1 << 16):
            if count <= limit < count + len(data):
                place = limit - count
                data = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
            count += len(data)
            writer.write(data)
            await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            hub_reader, hub_writer = await asyncio.open_connection("127.0.0.1", target)
        except OSError:
            writer.close()
            return
        limits = [break_after.pop() if break_after else 1 << 60 for _ in range(2)]
        await asyncio.gather(
            pump(reader, hub_writer, limits[0]),
            pump(hub_reader, writer, limits[1]),
            return_exceptions=True,
        )
        hub_writer.close()
        writer.close()

    return await asyncio.start_server(serve, "127.0.0.1", port)


def test_a_line_that_changes_bytes_never_changes_the_result(tmp_path):
    async def scenario() -> dict[str, Any]:
        consortium = prepare(tmp_path)
        port = local.free_port()
        moved = dataclasses.replace(
            consortium,
            hub=dataclasses.replace(consortium.agreed_hub(), address=f"127.0.0.1:{port}"),
        )
        async with Loopback(tmp_path, consortium, THREE) as net:
            await net.start_hub()
            server = await proxy(
                port, consortium.agreed_hub().port, [5000, 3000, 20000, 700, 300, 50]
            )
            net.start("ana", consortium=moved)
            net.start("bob")
            net.start("cem")
            outcomes = await net.outcomes()
            server.close()
            return outcomes

    for transcript in run(scenario()).values():
        assert_same_bits(transcript)


def test_nothing_but_public_data_is_on_disk(tmp_path):
    consortium = prepare(tmp_path, FIVE)
    for table in tmp_path.glob("*.csv"):
        table.unlink()  # the silos' own rows, which they have anyway

    async def scenario() -> tuple[dict[str, Any], Loopback]:
        async with Loopback(tmp_path, consortium, FIVE) as net:
            await net.start_hub()
            for name in FIVE:
                net.start(name)
            await net.until_exchange("bob", 3)
            await net.crash("eva")
            net.start("eva")
            return await net.outcomes(), net

    outcomes, net = run(scenario())
    names = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    keys = {f"{name}.{end}" for name in [*FIVE, "hub"] for end in ("key", "pem")}
    assert names == keys | {"consortium.toml", "state.jsonl"}
    written = [path.read_text() for path in tmp_path.rglob("state.jsonl")]
    written += ["\n".join(net.lines), *("\n".join(said) for said in net.said.values())]
    text = "\n".join(written)
    for value in ROWS.ravel().tolist():
        assert repr(value) not in text
        assert value.hex() not in text
    domain = consortium.agreement().domain
    for table in (table for table in FIVE.values() if table is not None):
        silo = ArraySilo(table, domain, ["lactate", "age"])
        for own in wide.to_ints(silo.phi_sum(np.arange(2), 2)):
            assert str(own) not in text
            assert f"{own:x}" not in text
    for transcript in outcomes.values():
        assert_same_bits(transcript)
        for file in written[:5]:
            assert all(json.dumps(to_line(reveal)) in file for reveal in transcript.reveals)
    keys = {json.loads(file.partition("\n")[0])["key"] for file in written[:5]}
    assert len(keys) == 5  # each its own, for the digest of its rows
    told = "\n".join(written[5:])
    assert not any(key in told for key in keys)


def test_a_folder_in_which_nothing_was_revealed_serves_any_file(tmp_path):
    """So that who has joined with a wrong file can use the same command with the right one."""
    agreement = prepare(tmp_path).agreement()
    open_journal(tmp_path, agreement, "other", "ana").close()
    journal = open_journal(tmp_path, agreement, "this", "ana")
    journal.begin(0)
    journal.close()
    with pytest.raises(JournalError, match="from a run with another agreed file"):
        open_journal(tmp_path, agreement, "other", "ana")


def codes_and_logs(processes: local.Processes) -> dict[str, int]:
    codes = processes.wait(PATIENCE)
    for name in processes.running:
        assert "Traceback" not in processes.log(name), processes.log(name)
    return codes


def test_processes_may_be_killed_and_started_again(tmp_path):
    prepare(tmp_path, FIVE, max_steps=40, levels_per_exchange=1)
    with local.Processes(tmp_path) as processes:
        processes.start_hub()
        bob = Gate(processes, "bob", 2)
        bob.start_party("--json")
        for name in FIVE:
            if name != "bob":
                processes.start_party(name, "--json")
        bob.wait()
        processes.kill("eva")
        processes.kill("hub")
        processes.kill("ana", signal.SIGINT)
        processes.start_hub()
        for name in ("eva", "ana"):
            processes.start_party(name, "--json")
        bob.open()
        assert set(codes_and_logs(processes).values()) == {0}
        log = processes.log("hub")
        processes.kill("hub", signal.SIGTERM)
        assert " stopped" in processes.log("hub")
    assert "Traceback" not in log
    texts = {(tmp_path / name / "transcript.jsonl").read_text() for name in FIVE}
    assert len(texts) == 1
    assert_same_bits(Transcript.read(tmp_path / "ana" / "transcript.jsonl"), max_steps=40)


def test_every_party_gets_its_files_and_a_failed_report_loses_none_of_them(tmp_path):
    consortium = prepare(tmp_path, FIVE)
    (tmp_path / "bob" / "report.html").mkdir(parents=True)  # nothing can be written there
    with local.Processes(tmp_path, reports=True) as processes:
        processes.start_hub()
        for name in FIVE:
            processes.start_party(name)
        codes = codes_and_logs(processes)
        assert codes == {**dict.fromkeys(FIVE, 0), "bob": 1}
        last = processes.log("bob").splitlines()[-1]
        assert last.startswith("securefedyj: The report could not be written (")
        assert "`securefedyj report`" in last
        (tmp_path / "bob" / "report.html").rmdir()
        before = (tmp_path / "eva" / "report.html").stat().st_ino
        for name in ("bob", "eva"):
            processes.start_party(name, "--wait", "1")  # the same command writes it
        again = codes_and_logs(processes)
        assert (again["bob"], again["eva"]) == (0, 0)
        said = processes.log("bob")
        assert (tmp_path / "eva" / "report.html").stat().st_ino == before  # where it is missing
    assert said.index("Writing the report.") < said.index("did not say that it is written.")
    for name in FIVE:
        names = {path.name for path in (tmp_path / name).iterdir()}
        assert names == {
            "state.jsonl", "transcript.jsonl", "parameters.json", "cost.json", "report.html",
            "provenance.json",
        }  # fmt: skip
        origin = parameters.read(tmp_path / name / "parameters.json").origin
        assert origin == (consortium.name, consortium.digest())
        assert securefedyj.load(tmp_path / name / "parameters.json").n_features_in_ == 2
    cost = json.loads((tmp_path / "eva" / "cost.json").read_text())
    assert cost["party"] == "eva"
    assert min(cost[key] for key in ("rounds", "bytes_sent", "bytes_received")) > 0
    assert min(cost[f"seconds_{part}"] for part in ("local", "secure", "waiting")) > 0
    silo, member = ((tmp_path / n / "report.html").read_text() for n in ("eva", "coordinator"))
    for page in (silo, member):
        assert "<th>plan for 20 ms, 100 Mbit/s</th><th>this run</th>" in page
    assert f"<td>{cost['rounds']}</td>" in silo
    assert "This page shows your own data." in silo
    assert "Every party knows what is on this page, except the cost and who wrote it." in member
    known = Provenance.read(tmp_path / "eva" / "provenance.json")
    state = json.loads((tmp_path / "eva" / "state.jsonl").read_text().splitlines()[0])
    assert (known.party, known.rows_digest) == ("eva", state["rows"])
    assert known.table in silo
    assert state["key"] not in silo
    assert known.table not in member


def test_errors_of_join_are_one_sentence(tmp_path):
    prepare(tmp_path)
    with local.Processes(tmp_path) as processes:
        processes.start_party("ana", "--wait", "0.5")  # nobody is there, not even the hub
        assert codes_and_logs(processes) == {"ana": 1}
        last = processes.log("ana").splitlines()[-1]
    assert last.startswith("securefedyj: The hub at 127.0.0.1:")
    with socket.socket() as probe:  # nothing was left behind
        assert probe.connect_ex(("127.0.0.1", processes.consortium.agreed_hub().port)) != 0

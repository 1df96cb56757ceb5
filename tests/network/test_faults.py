"""Whatever goes wrong at one party, everybody gets a sentence, and the run can go on."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import functools
import gc
import json
import os
import shutil
import signal
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from securefedyj.engines.replicated.keystream import Keystream
from securefedyj.network import identity, local
from securefedyj.network.consortium import Consortium, ConsortiumError
from securefedyj.network.errors import EndOfRun
from securefedyj.network.session import channels, participant, records
from securefedyj.network.session.events import SessionCosts
from securefedyj.network.session.journal import JournalError, open_journal
from securefedyj.network.session.memory import Memory
from securefedyj.network.session.participant import JoinError, Progress, Worker
from securefedyj.party.messages import Kind, Message
from securefedyj.protocol.silos import TimedSilo, timed_silo
from securefedyj.protocol.transcript import Transcript
from securefedyj.report.results import read_cost
from securefedyj.tables.digest import rows_digest
from tests.network import clock
from tests.network.clock import until
from tests.network.gate import Gate
from tests.network.harness import FIVE, SHORT, THREE, Loopback, assert_same_bits, prepare
from tests.network.test_participant import codes_and_logs
from tests.patience import PATIENCE, wait_until

pytestmark = pytest.mark.processes


class Disturbed:
    """A silo to which something happens before it computes the sums of an exchange."""

    def __init__(self, silo: Any, happens: Callable[[], None]) -> None:
        self._silo, self._happens = silo, happens
        self.count, self.phi_sum, self.ranks = silo.count, silo.phi_sum, silo.ranks

    def sums(self, *arguments: Any) -> Any:
        self._happens()
        return self._silo.sums(*arguments)


def silo_of(net: Loopback, name: str, happens: Callable[[], None]) -> TimedSilo:
    return TimedSilo(Disturbed(timed_silo(net.consortium.agreement(), net.tables[name]), happens))


def wait_for_words(processes: local.Processes, name: str, words: str) -> None:
    wait_until(lambda: words in processes.log(name), lambda: processes.log(name))


def openings(folder: Path) -> list[int]:
    """The numbers of the openings that a party has sent, in order."""
    lines = map(json.loads, (folder / "state.jsonl").read_text().splitlines())
    return [line["opening"] for line in lines if "opening" in line]


# Parties that stall, are stopped, or join twice.


def test_a_process_that_stalls_is_named_by_all_and_may_go_on(tmp_path):
    prepare(tmp_path, max_steps=40, levels_per_exchange=1)
    with local.Processes(tmp_path) as processes:
        processes.start_hub()
        cem = Gate(processes, "cem", 2)
        cem.start_party()
        for name in set(THREE) - {"cem"}:
            processes.start_party(name, "--timeout", "10")
        cem.wait()
        os.kill(processes.running["cem"].pid, signal.SIGSTOP)
        for name in set(THREE) - {"cem"}:
            wait_for_words(processes, name, "Nothing was heard from party cem for")
        cem.open()
        os.kill(processes.running["cem"].pid, signal.SIGCONT)
        assert set(codes_and_logs(processes).values()) == {0}
        for name in set(THREE) - {"cem"}:
            lines = processes.log(name).splitlines()
            first = next(line for line in lines if "Nothing was heard" in line)
            assert " seconds in exchange " in first
    assert_same_bits(Transcript.read(tmp_path / "ana" / "transcript.jsonl"), max_steps=40)


def test_who_is_stopped_does_not_wait_for_a_computation():
    begun, enough, computed = threading.Event(), threading.Event(), threading.Event()

    def step() -> list[Message]:
        begun.set()
        enough.wait(PATIENCE)
        computed.set()
        return []

    async def stopped() -> None:
        task = asyncio.create_task(Worker().run(step))
        await until(begun.is_set)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    clock.run(stopped())
    assert not computed.is_set()
    enough.set()


def test_who_is_stopped_before_its_program_starts_lets_go_of_it(tmp_path):
    """Else Python warns, on the user's terminal, of a coroutine that was never awaited."""

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, clock.QuietLoop)
        async with Loopback(tmp_path, prepare(tmp_path), THREE) as net:
            await net.start_hub()
            for name in THREE:
                net.start(name, started=lambda: loop.call_soon_threadsafe(net.tasks["ana"].cancel))
            await asyncio.wait({net.tasks["ana"]})
        await until(lambda: not loop.busy)

    gc.collect()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        clock.run(scenario())
        gc.collect()
    assert not [str(one.message) for one in told if "never awaited" in str(one.message)]


def test_what_the_thread_raises_is_not_waited_for():
    def step() -> list[Message]:
        raise MemoryError

    async def scenario() -> None:
        await Worker().run(step)

    with pytest.raises(MemoryError):
        clock.run(scenario())


def test_a_failed_computation_is_told_without_its_values(tmp_path):
    """The others go on waiting for the party, and hear only that it was stopped."""

    def fail() -> None:
        raise RuntimeError("cannot add 31337")

    async def scenario() -> tuple[BaseException | None, dict[str, list[str]]]:
        async with Loopback(tmp_path, prepare(tmp_path), THREE) as net:
            await net.start_hub()
            net.start("ana", silo=silo_of(net, "ana", fail))
            net.start("bob")
            net.start("cem")
            await asyncio.wait([net.tasks["ana"]])
            return net.tasks["ana"].exception(), net.said

    error, said = clock.run(scenario())
    assert str(error) == "The computation failed here (RuntimeError)."
    assert not any("31337" in line for lines in said.values() for line in lines)


def test_who_computes_hears_at_once_that_another_was_stopped(tmp_path):
    computing, enough = threading.Event(), threading.Event()

    def take_long() -> None:
        computing.set()
        enough.wait(PATIENCE)

    async def scenario() -> dict[str, Any]:
        async with Loopback(tmp_path, prepare(tmp_path), THREE) as net:
            await net.start_hub()
            net.start("ana", silo=silo_of(net, "ana", take_long))
            net.start("bob")
            net.start("cem")
            await until(computing.is_set)
            net.tasks["bob"].cancel()
            await net.until_said("ana", "bob left in exchange")
            assert not enough.is_set()
            enough.set()
            net.start("bob")
            return await net.outcomes()

    for transcript in clock.run(scenario()).values():
        assert_same_bits(transcript)


def test_of_two_processes_with_one_identity_the_later_stays(tmp_path):
    prepare(tmp_path)
    with local.Processes(tmp_path) as processes:
        processes.start_hub()
        processes.start_party("ana")
        wait_for_words(processes, "hub", 'connected consortium="on one machine" party="ana"')
        first = processes.running.pop("ana")
        processes.start_party("ana", "--output", str(tmp_path / "elsewhere"))
        assert first.wait(PATIENCE) == 1  # before there is a run that it has a part in
        for name in ("bob", "cem"):
            processes.start_party(name)
        assert set(codes_and_logs(processes).values()) == {0}
        sentence = "The hub refuses us: Another process has joined as ana; this one must stop."
        assert f"securefedyj: {sentence}" in processes.log("ana")


def test_of_two_processes_in_one_folder_the_earlier_stays(tmp_path):
    """Else both could send the same opening."""
    prepare(tmp_path)
    with local.Processes(tmp_path) as processes:
        processes.start_hub()
        processes.start_party("ana")
        wait_for_words(processes, "hub", 'connected consortium="on one machine" party="ana"')
        first = processes.running.pop("ana")
        processes.start_party("ana")
        assert processes.running.pop("ana").wait(PATIENCE) == 1
        sentence = f"Another process takes part with {tmp_path / 'ana' / 'state.jsonl'};"
        assert f"securefedyj: {sentence}" in processes.log("ana")
        processes.running["ana"] = first
        for name in ("bob", "cem"):
            processes.start_party(name)
        assert set(codes_and_logs(processes).values()) == {0}


# The end of a run.


def test_nobody_has_a_result_before_a_party_that_dies_at_the_very_end(tmp_path):
    """All was opened, and eva has sent all that the others need, but does not confirm it."""
    heard: list[int] = []

    async def scenario() -> dict[str, Any]:
        async with Loopback(tmp_path, prepare(tmp_path, FIVE), FIVE) as net:
            await net.start_hub()

            def hear_no_more(progress: Progress) -> None:
                heard.append(progress.exchange)
                if heard.count(7) == 2:  # its second level, the last of the search
                    net.cables["eva"].deaden("from the hub")

            others = [name for name in FIVE if name != "eva"]
            for name in others:
                net.start(name)
            net.start("eva", progress=hear_no_more)
            for name in others:
                await net.until_exchange(name, 8)
            assert not any(task.done() for task in net.tasks.values())
            await net.crash("eva")
            assert not net.results
            net.start("eva")
            return await net.outcomes()

    for transcript in clock.run(scenario()).values():
        assert_same_bits(transcript)
    for name in FIVE:
        sent = openings(tmp_path / name)
        assert len(set(sent)) == len(sent)


def test_who_has_written_the_result_waits_for_a_party_that_dies_before_it_tells(
    tmp_path, monkeypatch
):
    mute = {"eva"}

    class Channels(channels.Channels):
        def __init__(self, consortium: Consortium, name: str, own: identity.Identity) -> None:
            super().__init__(consortium, name, own)
            self.name = name

        def send(self, peer: str, record: records.AnyRecord) -> None:
            if self.name not in mute or not isinstance(record, records.Kept):
                super().send(peer, record)

    monkeypatch.setattr(participant, "Channels", Channels)

    async def scenario() -> dict[str, Any]:
        async with Loopback(tmp_path, prepare(tmp_path, FIVE), FIVE) as net:
            await net.start_hub()
            for name in FIVE:
                net.start(name)
            await net.until_results(*FIVE)
            assert not any(net.tasks[name].done() for name in FIVE if name != "eva")
            await net.crash("eva")
            mute.clear()
            net.start("eva")
            return await net.outcomes()

    for transcript in clock.run(scenario()).values():
        assert_same_bits(transcript)
    for name in FIVE:
        sent = openings(tmp_path / name)
        assert len(set(sent)) == len(sent)


def test_who_was_handed_the_result_can_report_what_it_cost(tmp_path):
    """Its silo has taken time, and no session has."""
    path = tmp_path / "cost.json"
    path.write_text(json.dumps({"party": "eva"} | vars(SessionCosts().cost("eva", 0.5))))
    assert read_cost(path).seconds == 0.5


# Disks.


def test_a_folder_that_cannot_be_written_is_found_before_the_run(tmp_path):
    prepare(tmp_path)
    (tmp_path / "ana").write_text("a file in the place of the folder")
    (tmp_path / "bob" / "state.jsonl").mkdir(parents=True)
    with local.Processes(tmp_path) as processes:  # and no hub to wait for
        for name in ("ana", "bob"):
            processes.start_party(name)
        assert codes_and_logs(processes) == {"ana": 1, "bob": 1}
        for name in ("ana", "bob"):
            read, line = processes.log(name).splitlines()
            assert read.startswith("Read ")
            assert line.startswith("securefedyj: ")
            assert str(tmp_path / name) in line


def test_a_full_disk_loses_nothing_that_was_kept(tmp_path, monkeypatch):
    """Files of cem may have 2,000 bytes, which is less than it has to keep in the end."""
    prepare(tmp_path, levels_per_exchange=1)
    full = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000)); "
    with local.Processes(tmp_path) as processes:
        processes.start_hub()
        processes.start_party("ana")
        processes.start_party("bob")
        with monkeypatch.context() as patch:
            patch.setattr(local, "_COMMAND", full + local._COMMAND)
            processes.start_party("cem")
        assert processes.running["cem"].wait(PATIENCE) == 1
        last = processes.log("cem").splitlines()[-1]
        path = tmp_path / "cem" / "state.jsonl"
        assert last.startswith(f"securefedyj: {path}: the disk is full;")
        assert last.endswith(" [SFY-JOIN-027]")
        assert [file.name for file in path.parent.iterdir()] == ["state.jsonl"]
        whole = path.read_bytes()
        assert 1500 < len(whole) <= 2000
        assert whole.endswith(b"\n"), "no piece of the line that did not fit is left"
        assert 1 < whole.count(b"reveal") < 13
        processes.start_party("cem")
        assert set(codes_and_logs(processes).values()) == {0}
    assert_same_bits(Transcript.read(tmp_path / "cem" / "transcript.jsonl"))
    assert path.read_bytes().startswith(whole)


# Clocks.


@pytest.mark.parametrize(
    ("earlier", "valid", "odd"),
    [(1, -1 / 24, "expired"), (-1 / 24, 3653, "not yet valid")],
    ids=["expired", "not yet valid"],
)
def test_a_clock_that_does_not_fit_the_certificates_gets_a_sentence(
    tmp_path, monkeypatch, earlier, valid, odd
):
    monkeypatch.setattr(identity, "_EARLIER", datetime.timedelta(days=earlier))
    monkeypatch.setattr(identity, "_VALID", datetime.timedelta(days=valid))
    consortium = prepare(tmp_path)
    with local.Processes(tmp_path) as processes:
        processes.start_hub()
        processes.start_party("ana")
        assert codes_and_logs(processes) == {"ana": 1}
        _, line = processes.log("ana").splitlines()  # the first says how many rows were read
        assert line.startswith("securefedyj: The clock of this machine says 20")
        assert "the certificate of the hub is valid from" in line
        wait_for_words(processes, "hub", "trouble")
    inside = (
        sum(moment.timestamp() for moment in identity.validity(consortium.agreed_hub().certificate))
        / 2
    )
    consortium.check_clock(inside)
    with pytest.raises(ConsortiumError, match="Set the clock"):
        consortium.check_clock(time.time())


# What is kept between restarts.


@pytest.fixture(scope="module")
def a_run(tmp_path_factory):
    """A folder in which three parties have come to their end."""
    folder = tmp_path_factory.mktemp("run")

    async def run() -> None:
        async with Loopback(folder, prepare(folder), THREE) as net:
            await net.start_hub()
            for name in THREE:
                net.start(name)
            for transcript in (await net.outcomes()).values():
                assert_same_bits(transcript)

    clock.run(run())
    return folder


@pytest.fixture
def finished(a_run, tmp_path):
    """Such a folder, to be changed."""
    return Path(shutil.copytree(a_run, tmp_path / "copy"))


def outcomes_of(folder: Path) -> dict[str, Any]:
    consortium = Consortium.read(folder / "consortium.toml")

    async def run() -> dict[str, Any]:
        async with Loopback(folder, consortium, THREE) as net:
            await net.start_hub()
            for name in THREE:
                net.start(name, **SHORT)
            return await net.outcomes()

    return clock.run(run())


def journal_of(folder: Path, name: str) -> Memory:
    consortium = Consortium.read(folder / "consortium.toml")
    table = functools.partial(rows_digest, THREE[name], ["lactate", "age"])
    agreed, digest = consortium.agreement(), consortium.digest()
    return open_journal(folder / name, agreed, digest, name, table, consortium.name)


def changed(line: str, **values: Any) -> str:
    return json.dumps(json.loads(line) | values)


def with_other(kind: str, **values: Any) -> Callable[[list[str]], list[str]]:
    """Change the first reveal of a kind."""

    def change(lines: list[str]) -> list[str]:
        at = next(i for i, line in enumerate(lines) if json.loads(line).get("reveal") == kind)
        return [*lines[:at], changed(lines[at], **values), *lines[at + 1 :]]

    return change


STATES: dict[str, Any] = {
    "empty": lambda lines: [],
    "cut within a line": lambda lines: [*lines[:4], lines[4][:20]],
    "no state": lambda lines: ["[1, 2]"],
    "of an older release": lambda lines: ['{"transcript": 1, "agreement": {}}', *lines[1:]],
    "of another file": lambda lines: [changed(lines[0], file="0" * 64), *lines[1:]],
    "a note": lambda lines: [*lines[:2], '{"closing": 3}', *lines[2:]],
    "an opening": lambda lines: [*lines[:2], '{"opening": -1}', *lines[2:]],
    "a count": with_other("counts", n="many"),
    "a sign": with_other("step", delta=[0, 1]),
    "a sign that leads elsewhere": with_other("step", delta=[1, -1]),
    "the result": with_other("final", S_y=["0x1", "0x30bc7b01c417"]),
    "the result beyond audit": with_other("final", S_y=["0xf" + "0" * 30, "0x0"]),
    "what all have confirmed": lambda lines: [*lines[:-1], '{"confirmed": "00"}'],
}


@pytest.mark.parametrize("how", STATES)
def test_a_state_that_was_changed_is_refused_at_once(finished, how):
    path = finished / "bob" / "state.jsonl"
    before = "\n".join(STATES[how](path.read_text().splitlines())) + "\n"
    path.write_text(before)
    with pytest.raises(JournalError, match=r"(?s)state\.jsonl.*hoose another output folder"):
        journal_of(finished, "bob")
    assert path.read_text() == before


def test_a_state_as_it_was_left_is_accepted(finished):
    journal = journal_of(finished, "bob")
    assert journal.confirmed
    journal.close()


def test_other_signs_in_a_state_are_noticed_by_the_others(finished):
    for name in THREE:
        path = finished / name / "state.jsonl"
        lines = path.read_text().splitlines()
        steps = [at for at, line in enumerate(lines) if json.loads(line).get("reveal") == "step"]
        lines = lines[: steps[3] + 1]
        if name == "bob":
            lines[-1] = changed(lines[-1], delta=[-sign for sign in json.loads(lines[-1])["delta"]])
        path.write_text("\n".join(lines) + "\n")
    outcomes = outcomes_of(finished)
    assert not any(isinstance(outcome, Transcript) for outcome in outcomes.values())
    for name in ("ana", "cem"):
        assert getattr(outcomes[name], "code", None) == "SFY-JOIN-008"


@pytest.mark.parametrize("kept", [0.0, 0.05, 0.3, 0.31, 0.32, 0.6, 0.9, 0.999])
def test_a_state_may_end_anywhere_once_all_others_have_the_result(finished, kept):
    """Also in the middle of a line: what was lost is handed over, and nothing is opened again."""
    path = finished / "bob" / "state.jsonl"
    content = path.read_bytes()
    path.write_bytes(content[: int(kept * len(content))])
    before = {name: openings(finished / name) for name in ("ana", "cem")}
    for outcome in outcomes_of(finished).values():
        assert_same_bits(outcome)
    assert {name: openings(finished / name) for name in ("ana", "cem")} == before


@pytest.mark.parametrize("reveals", [1, 2, 3, 4])
def test_a_state_that_has_lost_what_all_had_is_not_taken(finished, reveals):
    """The others have not come to the end, so what bob has lost could be asked for again."""
    for name in THREE:
        path = finished / name / "state.jsonl"
        lines = path.read_text().splitlines()
        opened = [at for at, line in enumerate(lines) if "reveal" in json.loads(line)]
        end = opened[reveals if name == "bob" else 6] + 1
        path.write_text("\n".join(lines[:end]) + "\n")
    before = {name: openings(finished / name) for name in THREE}
    outcomes = outcomes_of(finished)
    for outcome in outcomes.values():
        assert isinstance(outcome, JoinError), repr(outcome)
    assert any("lost" in str(outcome) for outcome in outcomes.values())
    assert {name: openings(finished / name) for name in THREE} == before


@pytest.mark.parametrize("name", ["ana", "bob", "coordinator", "eva"])
def test_only_who_is_of_the_committee_notes_openings_and_repeats_one_once(tmp_path, name):
    """Others have sent nothing when an exchange is interrupted before it opens anything."""
    consortium = prepare(tmp_path, FIVE)
    (tmp_path / name).mkdir()

    def open_first() -> None:
        agreed, digest = consortium.agreement(), consortium.digest()
        with contextlib.closing(open_journal(tmp_path / name, agreed, digest, name)) as journal:
            journal.begin(0)
            journal.exchange(journal.transcript)
            journal.opening(journal.transcript)

    open_first()
    open_first()
    if name in consortium.committee:
        assert openings(tmp_path / name) == [0, 0]
        with pytest.raises(EndOfRun) as caught:
            open_first()
        assert caught.value.code == "SFY-JOIN-031"
    else:
        open_first()
        assert openings(tmp_path / name) == []


def test_a_run_that_goes_on_uses_no_mask_twice(tmp_path, monkeypatch):
    """Keys are fresh in each session, and no payload comes again.

    Each key is held by two parties; those of what an outsider gives to be verified, by the outsider
    and the two members that hold the component.
    """
    keys: Counter[bytes] = Counter()
    payloads: dict[bytes, set[bytes]] = {}
    begin, to_bytes = Keystream.__init__, Message.to_bytes

    def counted(stream: Keystream, key: bytes) -> None:
        keys[key] += 1
        begin(stream, key)

    def seen(message: Message) -> bytes:
        # The digest of the transcript, which comes before the inputs, is public.
        secret = message.payload[32 if Kind.DIGEST in message.kind else 0 :]
        if message.kind not in (Kind.HELLO, Kind.STOP) and len(secret) >= 8:
            payloads.setdefault(message.session, set()).add(secret[:8])
        return to_bytes(message)

    monkeypatch.setattr(Keystream, "__init__", counted)
    monkeypatch.setattr(Message, "to_bytes", seen)

    async def scenario() -> dict[str, Any]:
        async with Loopback(tmp_path, prepare(tmp_path, FIVE), FIVE) as net:
            await net.start_hub()
            for name in FIVE:
                net.start(name)
            for exchange, victim in [(2, "eva"), (4, "coordinator")]:
                await net.until_exchange("bob", exchange)
                await net.crash(victim)
                net.start(victim)
            return await net.outcomes()

    for transcript in clock.run(scenario()).values():
        assert_same_bits(transcript)
    assert len(payloads) >= 3
    assert set(keys.values()) == {2, 3}
    assert len(set.union(*payloads.values())) == sum(map(len, payloads.values()))

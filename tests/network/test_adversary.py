"""Outsiders, a hub that cheats, and a party that cheats: each is refused, and named."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
import json
import re
import secrets
import socket
import ssl
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from securefedyj.errors import ProtocolError
from securefedyj.network import local
from securefedyj.network.consortium import Consortium
from securefedyj.network.hub import HubServer
from securefedyj.network.identity import Identity, keygen, read_certificate
from securefedyj.network.session import participant as network
from securefedyj.network.session import records
from securefedyj.network.session.participant import JoinError
from securefedyj.network.transport import tls
from securefedyj.network.transport.framing import FrameType, HubFrame
from securefedyj.party.messages import VERSION, Message
from securefedyj.protocol.transcript import Transcript
from tests.network import clock, odd_party
from tests.network.clock import until
from tests.network.evil_hub import EvilHub, Piece, Treatment
from tests.network.harness import SHORT, THREE, Loopback, assert_same_bits, by_way_of, prepare
from tests.network.test_hub import joined
from tests.patience import PATIENCE, wait_until

pytestmark = pytest.mark.processes

CHANGED = "Data from party {} was changed on its way"


# Outsiders, at a hub that is a process of its own.


class Tap:
    """A line to the hub that keeps what the party has sent, one entry per connection."""

    def __init__(self, target: int) -> None:
        self.target, self.recorded = target, list[bytearray]()

    async def __aenter__(self) -> Tap:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self.target)
        self.recorded.append(bytearray())
        await asyncio.gather(
            self._pump(reader, back, self.recorded[-1]), self._pump(there, writer, bytearray())
        )

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, kept: bytearray
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                kept += data
                writer.write(data)
                await writer.drain()
        writer.close()


def refusals(processes: local.Processes) -> list[str]:
    return [line for line in processes.log("hub").splitlines() if " refused " in line]


def next_refusals(processes: local.Processes, known: int) -> list[str]:
    """The refusals after the known ones; the hub may log a moment after it closes."""
    wait_until(lambda: len(refusals(processes)) > known)
    return refusals(processes)[known:]


def at_once(address: tuple[str, int], settings: ssl.SSLContext | None, data: bytes) -> bytes:
    """Connect, send, and return all that comes back until the hub closes."""
    answer = bytearray()
    with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
        line = stack.enter_context(socket.create_connection(address, PATIENCE))
        if settings is not None:
            line = stack.enter_context(settings.wrap_socket(line))
        line.sendall(data)
        while piece := line.recv(1 << 16):
            answer += piece
    return bytes(answer)


def test_outsiders_and_a_recorded_session_are_refused_and_logged(tmp_path):
    async def record(processes: local.Processes) -> bytes:
        """A whole run, with what ana has sent to the hub."""
        async with Tap(processes.consortium.hub.port) as tap:
            by_way_of(processes.consortium, tap.port).write(tmp_path / "tapped.toml")
            for name in THREE:
                file = "tapped.toml" if name == "ana" else "consortium.toml"
                processes.start_party(name, file=file)
            codes = await asyncio.to_thread(processes.wait, PATIENCE)
            assert set(codes.values()) == {0}
            return bytes(tap.recorded[0])

    hub = prepare(tmp_path).hub
    address, trusted = (hub.host, hub.port), [hub.certificate]
    foreign = tls.context(keygen("ana", tmp_path / "foreign"), trusted, server_side=False)
    nobody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    nobody.check_hostname = False
    nobody.load_verify_locations(cadata=hub.certificate)
    with local.Processes(tmp_path) as processes:
        processes.start_hub()
        recorded = asyncio.run(record(processes))
        assert len(recorded) > 10_000
        assert refusals(processes) == []
        before = processes.log("hub").count(" connected ")
        for settings, data, reason in [
            (nobody, b"", "peer did not return a certificate"),
            (foreign, b"", "certificate not accepted"),
            (None, b"GET / HTTP/1.1\r\n\r\n", "http request"),
            (None, recorded, "bad record mac"),
        ]:
            known = len(refusals(processes))
            at_once(address, settings, data)
            (line,) = next_refusals(processes, known)
            assert reason in line
            assert 'address="127.0.0.1"' in line
        assert processes.log("hub").count(" connected ") == before


# Two consortia at one hub, with parties of the same names.


def two_consortia(folder: Path) -> list[Consortium]:
    one = prepare(folder / "one", name="one")
    two = dataclasses.replace(prepare(folder / "two", name="two"), hub=one.hub)
    return [one, two]


def with_two(folder: Path, scenario: Any) -> list[str]:
    """Run with a hub that serves both; return the hub's log."""

    async def run() -> list[str]:
        consortia = two_consortia(folder)
        nets = [Loopback(folder / one.name, one, THREE) for one in consortia]

        def log(event: str, **fields: object) -> None:
            nets[0].lines.append(f"{event} {fields}")

        async with nets[0], nets[1]:
            hub = nets[0].hub = HubServer(consortia, nets[0].identity("hub"), log)
            await hub.start(consortia[0].hub.host, consortia[0].hub.port)
            await scenario(*nets)
        return nets[0].lines

    return clock.run(run())


def test_a_party_of_another_consortium_is_an_outsider(tmp_path):
    async def scenario(one: Loopback, two: Loopback) -> None:
        two.consortium = one.consortium  # what its ana asks for, with her own key
        frame = await (await joined(two, "ana")).receive()
        assert frame is not None
        assert frame.type == FrameType.REFUSED
        assert b"is not the one of party 'ana'" in frame.body

    lines = with_two(tmp_path, scenario)
    assert any(line.startswith("refused") and "party 'ana'" in line for line in lines)


def test_a_party_reaches_nobody_of_another_consortium(tmp_path):
    async def scenario(one: Loopback, two: Loopback) -> None:
        bob, ana = await joined(one, "bob"), await joined(two, "ana")
        welcome = await bob.receive()
        assert (await ana.receive()).type == FrameType.WELCOME
        ana.send(HubFrame(FrameType.DATA, "bob", welcome.connection, b"from elsewhere"))
        ana.send(HubFrame(FrameType.PING))
        assert (await ana.receive()).type == FrameType.PONG  # and no PRESENT before it
        bob.send(HubFrame(FrameType.PING))
        assert (await bob.receive()).type == FrameType.PONG

    with_two(tmp_path, scenario)


def test_consortia_run_beside_each_other_and_beside_one_that_is_stuck(tmp_path):
    async def scenario(one: Loopback, two: Loopback) -> None:
        stuck = await joined(two, "cem")  # says nothing, and reads nothing
        stuck.transport.pause_reading()
        for net, name in [(two, "ana"), (two, "bob"), *((one, name) for name in THREE)]:
            net.start(name, **SHORT)
        for transcript in (await one.outcomes()).values():
            assert_same_bits(transcript)
        for error in (await two.outcomes()).values():
            assert "Party cem did not come" in str(error)
        stuck.writer.transport.abort()
        for net, name in itertools.product((one, two), THREE):
            (net.folder / name / "state.jsonl").unlink(missing_ok=True)
            net.start(name)
        for net in (one, two):
            for transcript in (await net.outcomes()).values():
                assert_same_bits(transcript)

    with_two(tmp_path, scenario)


# Whom a channel between two parties accepts: the very certificate of the file, on both sides.


def established(ours: tls.Channel, theirs: tls.Channel) -> None:
    """Carry the bytes of a handshake to and fro; raises what a side raises."""
    ours.begin()
    theirs.begin()
    for _ in range(4):
        list(theirs.receive(ours.outgoing()))
        list(ours.receive(theirs.outgoing()))


@pytest.mark.parametrize("server_side", [True, False], ids=["as server", "as client"])
@pytest.mark.parametrize("impostor", ["cem", "foreign/ana"], ids=["party", "foreign"])
@pytest.mark.parametrize("without", ["nothing", "trust", "pin", "both"])
def test_nobody_can_take_the_place_of_a_party(
    tmp_path, monkeypatch, server_side, impostor, without
):
    """Each of the two checks is enough; with neither, the impostor would be believed."""
    consortium = prepare(tmp_path)
    keygen("ana", tmp_path / "foreign")
    ana, bob = consortium.party("ana"), consortium.party("bob")
    shown = read_certificate(tmp_path / f"{impostor}.pem")
    trusted = [ana.certificate, *([shown] if without in ("trust", "both") else [])]
    if without in ("pin", "both"):
        monkeypatch.setattr(tls, "check_fingerprint", lambda *_: None)

    def identity(name: str) -> Identity:
        return Identity(tmp_path / f"{name}.key", tmp_path / f"{name}.pem")

    settings = tls.context(identity("bob"), trusted, server_side=server_side)
    theirs = tls.context(identity(impostor), [bob.certificate], server_side=not server_side)
    at_bob = tls.Channel("ana", ana.fingerprint, settings, server_side=server_side)
    there = tls.Channel("bob", bob.fingerprint, theirs, server_side=not server_side)
    if without == "both":
        established(at_bob, there)
        assert at_bob.established
        return
    with pytest.raises(ProtocolError) as caught:
        established(at_bob, there)
    assert caught.value.code in ("SFY-NET-030", "SFY-NET-032")
    assert re.search("[Pp]arty ana", str(caught.value))
    assert not at_bob.established


def test_a_record_that_is_too_long_is_refused_before_it_comes(tmp_path):
    consortium = prepare(tmp_path)
    channels = []
    for own, peer in [("ana", "bob"), ("bob", "ana")]:
        known = consortium.party(peer)
        key = Identity(tmp_path / f"{own}.key", tmp_path / f"{own}.pem")
        settings = tls.context(key, [known.certificate], server_side=own == "ana")
        channels.append(tls.Channel(peer, known.fingerprint, settings, server_side=own == "ana"))
    ana, bob = channels
    established(ana, bob)
    bob.send(tls.RawRecord(records.NUMBERS[Message], bytes(tls.MOST_AT_FIRST + 1)))
    stream = bob.outgoing()
    with pytest.raises(ProtocolError, match=f"at most {tls.MOST_AT_FIRST} are possible now"):
        list(ana.receive(stream[: 1 << 16]))
    ana.most = tls.MOST_AT_FIRST + 1  # who knows better says so
    (record,) = ana.receive(stream[1 << 16 :])
    assert len(record.body) == ana.most


# A hub that cheats.


def under(folder: Path, treat: Treatment) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """Run three parties at a hub that treats what it carries; return outcomes and sentences."""

    async def run() -> tuple[dict[str, Any], dict[str, list[str]]]:
        consortium = Consortium.read(folder / "consortium.toml")
        net = Loopback(folder, consortium, THREE)
        async with EvilHub(consortium, net.identity("hub"), treat), net:
            for name in THREE:
                # A record of which a part is missing is noticed when signs of life have filled it.
                net.start(name, timeout=4.0, wait=120.0)
            return await net.outcomes(), net.said

    return clock.run(run())


def spoil(how: str, every: bool) -> Treatment:
    """Treat the 15th piece that ana sends to bob, or every 15th."""
    seen, held = 0, list[Piece]()

    def treat(piece: Piece) -> Iterable[Piece]:
        nonlocal seen
        if piece.sender != "ana" or piece.recipient != "bob":
            return [piece]
        seen += 1
        if held and how == "reorder":
            return [piece, held.pop()]
        if how == "replay" and seen == 12:
            held.append(piece)
        if seen != 15 and not (every and seen % 15 == 0):
            return [piece]
        body = piece.body
        if how == "flip":
            place = secrets.randbelow(len(body))
            bit = bytes([body[place] ^ (1 << secrets.randbelow(8))])
            return [piece._replace(body=body[:place] + bit + body[place + 1 :])]
        if how == "truncate":
            return [piece._replace(body=body[: len(body) // 2])]
        if how == "reorder":
            held.append(piece)
            return []
        return {"repeat": [piece, piece], "replay": [piece, *held], "drop": []}[how]

    return treat


@pytest.mark.parametrize(
    ("how", "every"),
    [*((how, False) for how in ("flip", "truncate", "repeat", "replay", "reorder", "drop")),
     ("flip", True), ("drop", True)],
)  # fmt: skip
def test_a_hub_that_tampers_is_noticed_and_changes_no_bit(tmp_path, monkeypatch, how, every):
    """Once, and the run goes on; again and again, and it may end with a sentence."""
    monkeypatch.setattr(network, "MOST_FAULTS", 3)
    prepare(tmp_path)
    outcomes, said = under(tmp_path, spoil(how, every))
    sentences = [*said["bob"], *map(str, outcomes.values())]
    assert any(CHANGED.format("ana") in sentence for sentence in sentences), sentences
    for outcome in outcomes.values():
        if isinstance(outcome, Transcript):
            assert_same_bits(outcome)
        else:
            assert every
            assert isinstance(outcome, JoinError), repr(outcome)


@pytest.mark.parametrize("victim", ["cem", "ana"], ids=["the client", "the server"])
def test_a_hub_that_swaps_two_parties_is_noticed(tmp_path, monkeypatch, victim):
    """To the victim, of the TLS role named, each of the others is in the place of the other."""
    monkeypatch.setattr(network, "MOST_FAULTS", 2)
    prepare(tmp_path)
    first, second = (name for name in THREE if name != victim)
    other = {first: second, second: first}

    def treat(piece: Piece) -> list[Piece]:
        if piece.recipient == victim:
            return [piece._replace(sender=other[piece.sender])]
        if piece.sender == victim:
            return [piece._replace(recipient=other[piece.recipient])]
        return [piece]

    outcomes, said = under(tmp_path, treat)
    assert not any(isinstance(outcome, Transcript) for outcome in outcomes.values())
    text = "\n".join([*said[victim], str(outcomes[victim])])
    assert any(CHANGED.format(name) in text for name in other)
    assert "certificate verify failed" in text


@pytest.mark.parametrize("sender", ["ana", "bob"], ids=["of the server", "of the client"])
def test_a_hub_that_plays_a_recorded_session_again_is_refused(tmp_path, monkeypatch, sender):
    monkeypatch.setattr(network, "MOST_FAULTS", 2)
    prepare(tmp_path)
    recipient = {"ana": "bob", "bob": "ana"}[sender]
    recorded: list[Piece] = []

    def record(piece: Piece) -> list[Piece]:
        if piece[:2] == (sender, recipient):
            recorded.append(piece)
        return [piece]

    for transcript in under(tmp_path, record)[0].values():
        assert_same_bits(transcript)
    for name in THREE:
        (tmp_path / name / "state.jsonl").unlink()
    again = iter(recorded)

    def replay(piece: Piece) -> list[Piece]:
        return list(itertools.islice(again, 1)) if piece[:2] == (sender, recipient) else [piece]

    outcomes, said = under(tmp_path, replay)
    text = "\n".join([*said[recipient], str(outcomes[recipient])])
    assert CHANGED.format(sender) in text, text


# A party that cheats, at an honest hub.


def test_a_party_that_plays_the_frames_of_another_again_is_named(tmp_path):
    recorded: list[bytes] = []

    def record(piece: Piece) -> list[Piece]:
        if piece[:2] == ("ana", "bob"):
            recorded.append(piece.body)
        return [piece]

    async def scenario() -> list[str]:
        async with Loopback(tmp_path, Consortium.read(tmp_path / "consortium.toml"), THREE) as net:
            await net.start_hub()
            cem = await joined(net, "cem")
            assert (await cem.receive()).type == FrameType.WELCOME
            net.start("bob")
            present = await cem.receive()
            assert present.type == FrameType.PRESENT
            for body in recorded:
                cem.send(HubFrame(FrameType.DATA, "bob", present.connection, body))
            await until(lambda: any(CHANGED.format("cem") in line for line in net.said["bob"]))
            return net.said["bob"]

    prepare(tmp_path)
    under(tmp_path, record)
    (tmp_path / "bob" / "state.jsonl").unlink()
    assert any(CHANGED.format("cem") in line for line in clock.run(scenario()))


ODD_RECORDS = {
    "no greeting": (records.NUMBERS[records.Ready], {"random": "00", "reveals": 0}),
    "clock": (records.NUMBERS[records.Greeting], {"version": VERSION, "digest": "?", "clock": "?"}),
    "reveals": (records.NUMBERS[records.Ready], {"random": "00", "reveals": "many"}),
    "no object": (records.NUMBERS[records.Begin], [1, 2]),
    "no message": (records.NUMBERS[Message], {}),
}


@pytest.mark.parametrize("odd", ODD_RECORDS)
def test_a_party_that_sends_nonsense_is_named_and_nobody_falls_over(tmp_path, monkeypatch, odd):
    monkeypatch.setattr(network, "MOST_FAULTS", 2)
    kind, content = ODD_RECORDS[odd]

    async def scenario() -> dict[str, Any]:
        async with Loopback(tmp_path, prepare(tmp_path), THREE) as net:
            await net.start_hub()
            for name in ("ana", "cem"):
                net.start(name, **SHORT)
            words = [tls.RawRecord(kind, json.dumps(content).encode())]
            if odd not in ("no greeting", "clock"):
                words = [odd_party.greeting(net.consortium), *words]
            bob = odd_party.say_to_all(net.consortium, "bob", net.identity("bob"), words)
            task = asyncio.create_task(bob)
            outcomes = await net.outcomes()
            task.cancel()
            return outcomes

    for outcome in clock.run(scenario()).values():
        assert isinstance(outcome, JoinError), repr(outcome)
        assert "bob" in str(outcome)

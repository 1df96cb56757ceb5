"""Who is refused or lost: the others are told by the hub, in words that decide nothing."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import ssl
import time
from pathlib import Path
from typing import Any

import pytest

from securefedyj.network import log
from securefedyj.network.carrier import Word
from securefedyj.network.hub import consortia as rooms
from securefedyj.network.identity import fingerprint, keygen, read_certificate
from securefedyj.network.log import Throttle
from securefedyj.network.session.participant import JoinError
from securefedyj.network.transport import tls
from securefedyj.network.transport.framing import FrameType, HubFrame
from securefedyj.network.transport.link import MOST_WORDS, Link
from tests.network import clock
from tests.network.harness import THREE, Loopback, assert_same_bits, prepare
from tests.network.test_hub import Client, connected, joined, refused, with_hub

pytestmark = pytest.mark.processes


async def notice(client: Client) -> str:
    """The next notice; who comes and goes meanwhile does not matter."""
    while True:
        frame = await client.receive()
        assert frame is not None
        if frame.type == FrameType.NOTICE:
            return frame.body.decode()


async def with_another_file(net: Loopback, name: str) -> Client:
    client = await connected(net, net.identity(name))
    hello = {"consortium": net.consortium.name, "party": name, "digest": "ab" * 32}
    client.send(HubFrame(FrameType.HELLO, body=json.dumps(hello).encode()))
    return client


def lines(net: Loopback, event: str) -> list[str]:
    return [line for line in net.lines if line.startswith(event)]


def test_the_others_are_told_who_was_refused_and_why(tmp_path):
    async def scenario(net: Loopback) -> None:
        ana = await joined(net, "ana")
        assert (await ana.receive()).type == FrameType.WELCOME
        odd = await with_another_file(net, "bob")
        assert (await odd.receive()).type == FrameType.REFUSED
        told = await notice(ana)
        assert told.startswith("Party bob was refused. This party's consortium.toml is not the hub")
        assert "'abababababababab'" in told
        late = await joined(net, "cem")
        assert await notice(late) == told
        await joined(net, "bob")  # with the right file: it is over
        ana.writer.close()
        again = await joined(net, "ana")
        again.send(HubFrame(FrameType.PING))
        heard = []
        while (frame := await again.receive()).type != FrameType.PONG:
            heard.append(frame.type)
        assert FrameType.NOTICE not in heard

    (line,) = lines(with_hub(tmp_path, scenario), "refused")
    assert "bob of 'on one machine'" in line
    assert f"'certificate': '{fingerprint(read_certificate(tmp_path / 'bob.pem'))}'" in line


def test_a_key_that_was_made_anew_is_named_by_its_fingerprint(tmp_path):
    async def scenario(net: Loopback) -> None:
        ana = await joined(net, "ana")
        assert (await ana.receive()).type == FrameType.WELCOME
        anew = keygen("bob", tmp_path / "anew")
        await refused(await connected(net, anew))
        own = fingerprint(read_certificate(anew.certificate))
        told = await notice(ana)
        assert told.startswith("A connection with a certificate in the name of bob was refused")
        assert own in told
        assert own in lines(net, "refused")[0]
        await refused(await connected(net, keygen("stranger", tmp_path)))
        await refused(await connected(net, keygen("ana", tmp_path / "anew")))  # who is there
        ana.send(HubFrame(FrameType.PING))
        assert (await ana.receive()).type == FrameType.PONG  # and no notice before it

    with_hub(tmp_path, scenario)


def test_who_claims_a_name_with_another_key_is_not_called_by_it(tmp_path):
    async def scenario(net: Loopback) -> None:
        ana = await joined(net, "ana")
        assert (await ana.receive()).type == FrameType.WELCOME
        assert (await (await joined(net, "cem", said="bob")).receive()).type == FrameType.REFUSED
        assert (await notice(ana)).startswith("A connection that claims to be bob was refused")
        hello = await joined(net, "cem", said="x" * 300)
        assert (await hello.receive()).type == FrameType.REFUSED
        ana.send(HubFrame(FrameType.PING))
        assert (await ana.receive()).type == FrameType.PONG

    assert "cem of 'on one machine'" in lines(with_hub(tmp_path, scenario), "refused")[0]


def test_who_is_refused_again_and_again_does_not_flood_the_others(tmp_path, monkeypatch):
    monkeypatch.setattr(log, "BURST", 5)
    monkeypatch.setattr(log, "PAUSE", 3600.0)
    monkeypatch.setattr(rooms, "TELL_EVERY", 3600.0)

    async def scenario(net: Loopback) -> None:
        ana = await joined(net, "ana")
        assert (await ana.receive()).type == FrameType.WELCOME
        for _ in range(20):
            await (await with_another_file(net, "bob")).receive()
        ana.send(HubFrame(FrameType.PING))
        heard = []
        while (frame := await ana.receive()).type != FrameType.PONG:
            heard.append(frame.type)
        assert heard == [FrameType.NOTICE]

    assert len(lines(with_hub(tmp_path, scenario), "refused")) == 5


def test_a_line_says_how_many_were_left_out():
    throttle = Throttle(0.0)
    assert [throttle.lets_through(0.0) for _ in range(log.BURST + 3)].count(True) == log.BURST
    assert throttle.lets_through(log.PAUSE)
    assert throttle.left_out() == {"left_out": 3}
    assert throttle.left_out() == {}
    assert not throttle.lets_through(log.PAUSE)


def test_a_value_of_the_log_is_short(capsys):
    log.log_line("refused", reason="x" * 10_000)
    assert len(capsys.readouterr().err) < log.LONGEST_VALUE + 100


def test_each_line_of_a_log_in_json_is_an_object(capsys):
    odd = 'a "quote"\n\x1b[2J\u202e'
    for number in (1, 2):
        log.log_json("refused", address=odd, connection=number, consortia=["one"])
    for number, line in enumerate(capsys.readouterr().err.splitlines(), start=1):
        assert line.isascii()
        assert line.isprintable()
        told = json.loads(line)
        assert time.strptime(told.pop("time"), "%Y-%m-%dT%H:%M:%SZ")
        expected = {"event": "refused", "address": odd, "connection": number, "consortia": ["one"]}
        assert told == expected


def test_the_others_are_told_why_a_line_was_lost(tmp_path):
    async def scenario(net: Loopback) -> None:
        ana, bob = await joined(net, "ana"), await joined(net, "bob")
        assert (await bob.receive()).type == FrameType.WELCOME
        bob.writer.write(b"\xff" * 100)
        assert (await notice(ana)).startswith("Party bob was lost: this connection announced a fr")

    with_hub(tmp_path, scenario)


def test_a_certificate_that_cannot_be_read_is_nobodys(tmp_path):
    async def scenario(net: Loopback) -> None:
        assert net.hub is not None
        assert net.hub.served.waiting_for(b"no certificate") == []
        assert net.hub.served.owner(b"no certificate") == ""

    with_hub(tmp_path, scenario)


def test_messages_of_tls_that_are_cut_hold_no_certificate(tmp_path):
    identity = keygen("hub", tmp_path)
    made = tls.context(identity, [], server_side=True, kind=tls.AlertingContext)
    session: Any = made.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_side=True)
    whole = b"\x0b\0\0\x0a" + b"\0" + b"\0\0\x06" + b"\0\0\x03" + b"der"
    tls._note_certificate(session, "read", 772, 22, 11, whole)
    assert session.shown == b"der"
    for length in range(len(whole)):
        tls._note_certificate(session, "read", 772, 22, 11, whole[:length])
        assert session.shown in (b"", b"d", b"de")


def test_only_the_handshake_is_looked_at(tmp_path, monkeypatch):
    """Python is called for each record, where it is asked to look: a hub has many."""
    looks: list[int] = []
    monkeypatch.setattr(tls, "_note_certificate", lambda *message: looks.append(message[4]))

    async def scenario(net: Loopback) -> None:
        ana = await joined(net, "ana")
        assert (await ana.receive()).type == FrameType.WELCOME
        before = len(looks)
        assert before > 0
        for _ in range(10):
            ana.send(HubFrame(FrameType.PING))
            assert (await ana.receive()).type == FrameType.PONG
        assert len(looks) == before

    with_hub(tmp_path, scenario)


# At the parties.


def run(folder: Path, scenario: Any) -> Loopback:
    async def main() -> Loopback:
        async with Loopback(folder, prepare(folder, max_steps=8), THREE) as net:
            await net.start_hub()
            await scenario(net)
            return net

    return clock.run(main())


def test_those_who_wait_see_the_hubs_words_and_the_run_goes_on(tmp_path):
    async def scenario(net: Loopback) -> None:
        net.start("ana")
        net.start("bob")
        net.start("cem", consortium=dataclasses.replace(net.consortium, max_steps=9))
        with pytest.raises(JoinError, match="is not the hub's: its digest begins"):
            await net.tasks["cem"]
        for name in ("ana", "bob"):
            await net.until_said(name, "seconds. You can stop")
        net.start("cem")
        for transcript in (await net.outcomes()).values():
            assert_same_bits(transcript, 8)

    net = run(tmp_path, scenario)
    (told,) = [said for said in net.said["bob"] if "refused" in said]
    assert told.startswith("The hub says: Party cem was refused. ")
    after = net.said["bob"][net.said["bob"].index(told) + 1]
    assert after.endswith(" seconds. You can stop, and start again to resume.")


def test_the_peers_are_told_by_a_party_itself_that_it_has_failed(tmp_path):
    def broken(_: object) -> None:
        raise OSError(28, "the disk of cem is full")

    async def scenario(net: Loopback) -> None:
        for name in THREE:
            net.start(name, progress=broken if name == "cem" else None)
        await asyncio.wait({net.tasks["cem"]})
        await net.until_said("ana", "Party cem has failed there")

    net = run(tmp_path, scenario)
    assert not any("disk" in said for name in ("ana", "bob") for said in net.said[name])


def test_who_was_stopped_has_not_failed(tmp_path):
    async def scenario(net: Loopback) -> None:
        for name in THREE:
            net.start(name)
        await net.until_exchange("cem", 1)
        net.tasks["cem"].cancel()
        # Who computes just then hears first from the hub that it left.
        await net.until_said("ana", "Party cem (was stopped|left)")

    assert not any("failed" in said for said in run(tmp_path, scenario).said["ana"])


class Script(Link):
    """A hub that says what it likes."""

    def __init__(self, frames: list[HubFrame]) -> None:
        self._words, self._frames = 0, iter(frames)

    async def receive_frame(self, timeout: float) -> HubFrame | None:
        return next(self._frames, None)


def test_a_hub_that_means_harm_can_say_little_and_only_as_the_hub():
    frames = [
        HubFrame(FrameType.CLOSING, body=b"Party bob says that this run has ended for good."),
        HubFrame(FrameType.NOTICE, body=b"\x1b[2JParty bob\nsays: hello"),
        *[HubFrame(FrameType.NOTICE, body=b"x" * 60_000)] * 1000,
    ]

    async def scenario() -> list[str]:
        carrier = Script(frames)
        arrived = [await carrier.receive(0.0) for _ in frames]
        return [one.sentence for one in arrived if isinstance(one, Word)]

    said = asyncio.run(scenario())
    assert said[:2] == [
        "The hub is about to stop.",
        r"The hub says: \x1b[2JParty bob\x0asays: hello",
    ]
    assert len(said) == MOST_WORDS
    assert max(map(len, said)) < 1100

"""The carrier over a bus that loses, repeats and reorders, with real participants upon it."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import random
from collections.abc import Callable

import pytest

from securefedyj.errors import ProtocolError
from securefedyj.integrations.flare.carrier import (
    MAX_BODY,
    Packet,
    PacketCarrier,
    PacketDialer,
    PacketKind,
    decode,
)
from securefedyj.network.carrier import Data, Left, Present
from securefedyj.network.errors import JoinError
from securefedyj.network.identity import Identity
from securefedyj.network.session import participant
from securefedyj.protocol.silos import timed_silo
from securefedyj.tables.digest import rows_digest
from tests.network import clock
from tests.network.harness import LONG, THREE, assert_same_bits, prepare


class Bus:
    """Packets among the parties of one event loop, each with a chance to go wrong."""

    def __init__(self, seed: int = 0, lost: float = 0.0, repeated: float = 0.0, late: float = 0.0):
        self._random = random.Random(seed)
        self._lost, self._repeated, self._late = lost, repeated, late
        self._listeners: dict[str, Callable[[str, bytes], None]] = {}
        self.carried: list[tuple[str, str, bytes]] = []
        self.dropped = 0

    def post(self, source: str, target: str, packet: bytes) -> None:
        self.carried.append((source, target, packet))
        if self._random.random() < self._lost:
            self.dropped += 1
            return
        for _ in range(1 + (self._random.random() < self._repeated)):
            delay = 0.03 * self._random.random() if self._random.random() < self._late else 0.0
            asyncio.get_running_loop().call_later(delay, self._deliver, source, target, packet)

    def _deliver(self, source: str, target: str, packet: bytes) -> None:
        if target in self._listeners:
            self._listeners[target](source, packet)

    def end_of(self, name: str) -> End:
        return End(self, name)


class End:
    """One party's end of the bus."""

    def __init__(self, bus: Bus, name: str) -> None:
        self._bus, self._name = bus, name
        self._cut = False

    def post(self, peer: str, packet: bytes) -> None:
        if not self._cut:
            self._bus.post(self._name, peer, packet)

    def listen(self, take: Callable[[str, bytes], None]) -> None:
        if not self._cut:
            self._bus._listeners[self._name] = take

    def cut(self) -> None:
        """Nothing more goes out, as of a process that was killed."""
        self._cut = True


@pytest.fixture
def impatient(monkeypatch):
    """What is lost is sent again soon."""
    monkeypatch.setattr("securefedyj.integrations.flare.carrier.RESEND", 0.03)
    monkeypatch.setattr("securefedyj.integrations.flare.carrier._TICK", 0.01)
    monkeypatch.setattr("securefedyj.integrations.flare.carrier.HELLO_EVERY", 0.03)


class Parties:
    """The three silos of the harness over a bus, in place of a hub."""

    def __init__(self, folder, bus: Bus, **options) -> None:
        self.folder, self.bus = folder, bus
        self.consortium = dataclasses.replace(prepare(folder, **options), hub=None)
        self.said: dict[str, list[str]] = {name: [] for name in THREE}
        self.opened: dict[str, list[participant.Progress]] = {name: [] for name in THREE}
        self.ends: dict[str, End] = {}
        self.tasks: dict[str, asyncio.Task] = {}

    def start(self, name: str, progress=lambda progress: None) -> None:
        output = self.folder / name
        output.mkdir(exist_ok=True)
        self.ends[name] = end = self.bus.end_of(name)

        def note(now: participant.Progress) -> None:
            self.opened[name].append(now)
            progress(now)

        settings = participant.Settings(
            self.consortium,
            name,
            Identity(self.folder / f"{name}.key", self.folder / f"{name}.pem"),
            output,
            **LONG,
            rows=functools.partial(rows_digest, THREE[name], ["lactate", "age"]),
            say=self.said[name].append,
            progress=note,
            dialer=PacketDialer(end, [peer for peer in THREE if peer != name]),
        )
        silo = timed_silo(self.consortium.agreement(), THREE[name])
        self.tasks[name] = asyncio.create_task(participant.participate(settings, silo))

    async def kill(self, name: str) -> None:
        self.ends[name].cut()
        self.tasks[name].cancel()
        with contextlib.suppress(asyncio.CancelledError, JoinError):
            await self.tasks[name]

    async def results(self):
        return await asyncio.gather(*self.tasks.values())


@pytest.mark.parametrize(
    "trouble",
    [{}, {"lost": 0.05, "repeated": 0.1, "late": 0.3}],
    ids=["none", "lost, repeated and reordered"],
)
def test_unmodified_participants_reach_the_same_bits(tmp_path, impatient, trouble):
    async def run():
        parties = Parties(tmp_path, Bus(1, **trouble))
        for name in THREE:
            parties.start(name)
        return parties, await parties.results()

    parties, results = clock.run(run())
    assert (parties.bus.dropped > 0) == ("lost" in trouble)
    for transcript in results:
        assert_same_bits(transcript)
    assert len({transcript.to_text() for transcript in results}) == 1
    # Nobody had to begin anew.
    assert not any("again" in words for said in parties.said.values() for words in said)


def test_killed_party_goes_on_after_its_last_reveal(tmp_path, impatient):
    async def run():
        parties = Parties(tmp_path, Bus())
        killed = asyncio.Event()
        loop = asyncio.get_running_loop()

        def watch(progress: participant.Progress) -> None:
            if progress.exchange >= 3:
                loop.call_soon_threadsafe(killed.set)

        parties.start("ana")
        parties.start("bob", watch)
        parties.start("cem")
        await killed.wait()
        await parties.kill("bob")
        before = len(parties.opened["bob"])
        parties.start("bob")
        return parties, before, await parties.results()

    parties, before, results = clock.run(run())
    for transcript in results:
        assert_same_bits(transcript)
    exchanges = [progress.exchange for progress in parties.opened["bob"]]
    assert exchanges[before] >= exchanges[before - 1] >= 3
    assert sum("came back" in words or "left" in words for words in parties.said["ana"]) == 1


def test_two_parties_that_are_swapped_on_the_way_are_refused(tmp_path, impatient):
    class Swapping(Bus):
        """Says of each packet to ana that it is of the other one."""

        def _deliver(self, source: str, target: str, packet: bytes) -> None:
            other = {"bob": "cem", "cem": "bob"}
            if "ana" in (source, target):
                source, target = other.get(source, source), other.get(target, target)
            super()._deliver(source, target, packet)

    async def run():
        parties = Parties(tmp_path, Swapping())
        for name in THREE:
            parties.start(name)
        with pytest.raises(JoinError) as caught:
            await parties.results()
        for name in THREE:
            await parties.kill(name)
        return parties, caught.value

    parties, error = clock.run(run())
    # By the own TLS or, if the peer was first, as an alert of its TLS.
    assert "certificate" in str(error) or "unknown ca" in str(error)
    assert not any(parties.opened.values())


# One carrier.


async def next_of(carrier: PacketCarrier, kind: type):
    while True:
        arrival = await carrier.receive(1.0)
        if isinstance(arrival, kind):
            return arrival


async def pair(bus: Bus) -> tuple[PacketCarrier, PacketCarrier]:
    ana = await PacketDialer(bus.end_of("ana"), ["bob"]).connect()
    bob = await PacketDialer(bus.end_of("bob"), ["ana"]).connect()
    return ana, bob


def test_large_pieces_arrive_whole_and_in_order(impatient):
    async def run():
        ana, bob = await pair(Bus(3, lost=0.2, repeated=0.2, late=0.5))
        there = await next_of(ana, Present)
        await next_of(bob, Present)
        data = random.Random(0).randbytes(5 * MAX_BODY + 1)
        ana.send(there.peer, there.connection, data)
        got = b""
        while len(got) < len(data):
            got += (await next_of(bob, Data)).data
        assert got == data
        await asyncio.gather(ana.close(1.0), bob.close(1.0))

    clock.run(run())


def test_what_was_sent_has_arrived_when_one_leaves(impatient):
    async def run():
        bus = Bus(3)
        ana, bob = await pair(bus)
        there = await next_of(ana, Present)
        bus._lost = 0.5
        ana.send(there.peer, there.connection, b"farewell")
        closing = asyncio.create_task(ana.close(5.0))
        assert (await next_of(bob, Data)).data == b"farewell"
        bus._lost = 0.0
        previewed = []
        bob.on_left = previewed.append
        left = await next_of(bob, Left)
        assert previewed == [left]
        await closing
        await bob.close(1.0)

    clock.run(run())


def test_packets_of_an_earlier_connection_bring_nobody_back(impatient):
    async def run():
        bus = Bus()
        ana, bob = await pair(bus)
        first = await next_of(bob, Present)
        old = [packet for packet in bus.carried if packet[0] == "ana"]
        await ana.close(1.0)
        assert await next_of(bob, Left) == Left("ana", first.connection)
        ana = await PacketDialer(bus.end_of("ana"), ["bob"]).connect()
        second = await next_of(bob, Present)
        assert second.connection != first.connection
        for packet in old:
            bus.post(*packet)
        assert await bob.receive(0.2) is None
        await asyncio.gather(ana.close(1.0), bob.close(1.0))

    clock.run(run())


def test_peer_that_was_killed_comes_back_though_its_hello_is_lost(impatient):
    async def run():
        bus = Bus()
        ana, killed = await pair(bus)
        first = await next_of(ana, Present)
        killed._ticking.cancel()  # and no farewell
        bob = await PacketDialer(Deaf(bus.end_of("bob"), lost=1), ["ana"]).connect()
        ana.send("bob", first.connection, b"to the one that was killed")
        assert await next_of(ana, Left) == first_left(first)
        second = await next_of(ana, Present)
        await next_of(bob, Present)
        ana.send("bob", second.connection, b"to the other")
        assert (await next_of(bob, Data)).data == b"to the other"
        await asyncio.gather(ana.close(1.0), bob.close(1.0))

    clock.run(run())


class Deaf:
    """An end of a bus that loses what is first sent by it."""

    def __init__(self, end: End, lost: int) -> None:
        self._end, self._left = end, lost
        self.listen = end.listen

    def post(self, peer: str, packet: bytes) -> None:
        self._left -= 1
        if self._left < 0:
            self._end.post(peer, packet)


def first_left(present: Present) -> Left:
    return Left(present.peer, present.connection)


def test_third_site_that_says_it_is_the_peer_ends_no_connection(impatient):
    async def run():
        bus = Bus()
        ana, bob = await pair(bus)
        there = await next_of(ana, Present)
        await next_of(bob, Present)
        cem = await PacketDialer(bus.end_of("cem"), ["ana", "bob"]).connect()
        await asyncio.sleep(0.1)  # it has heard what ana and bob call themselves to others
        heard = [decode(packet) for _, target, packet in bus.carried if target == "cem"]
        for target in {0, 1, *(packet.source for packet in heard), *(p.target for p in heard)}:
            for kind in PacketKind:
                made_up = Packet(kind, 77, target, 0, 2**64 - 1, b"" if kind < 2 else b"x")
                bus.post("bob", "ana", made_up.encode())
        ana.send(there.peer, there.connection, b"still there")
        assert (await next_of(bob, Data)).data == b"still there"
        assert await ana.receive(0.1) is None
        for carrier in (ana, bob, cem):
            await carrier.close(0.0)

    clock.run(run())


@pytest.mark.parametrize("kind", [PacketKind.HELLO, PacketKind.DATA, PacketKind.BYE])
def test_what_a_server_makes_up_is_held_up_to_a_bound(monkeypatch, kind):
    """It has read the numbers; each of its packets is of another connection."""
    monkeypatch.setattr("securefedyj.integrations.flare.carrier._MOST_ARRIVALS", 50)

    async def run():
        end = Bus().end_of("ana")
        ana = PacketCarrier(end, ["bob"])
        for source in range(1, 1000):
            ana._take("bob", Packet(kind, source, ana._own["bob"], 0, 0).encode())
        assert ana._inbox.qsize() <= 52
        assert len(ana._streams) <= 1
        await ana.close(0.0)

    clock.run(run())


def test_pieces_without_content_are_held_up_to_a_bound(monkeypatch):
    monkeypatch.setattr("securefedyj.integrations.flare.carrier._MOST_ARRIVALS", 50)

    async def run():
        ana = PacketCarrier(Bus().end_of("ana"), ["bob"])
        for number in range(1000):
            ana._take("bob", Packet(PacketKind.DATA, 7, ana._own["bob"], number, 0).encode())
        assert ana._inbox.qsize() <= 50
        await ana.close(0.0)

    clock.run(run())


def test_pieces_ahead_of_all_peers_together_are_held_up_to_a_bound(monkeypatch):
    monkeypatch.setattr("securefedyj.integrations.flare.carrier.MOST_WAITING", 1000)

    async def run():
        peers = [f"peer {j}" for j in range(20)]
        ana = PacketCarrier(Bus().end_of("ana"), peers)
        body = bytes(100)
        for peer in peers:
            for number in range(1, 60):
                ana._take(
                    peer, Packet(PacketKind.DATA, 7, ana._own[peer], number, 0, body).encode()
                )
        assert sum(stream.held for stream in ana._streams.values()) == 1000
        # The piece that is missing has room, or all would wait for ever.
        ana._take(peers[0], Packet(PacketKind.DATA, 7, ana._own[peers[0]], 0, 0, body).encode())
        assert sum(stream.held for stream in ana._streams.values()) == 0
        assert ana._waiting == 1100
        await ana.close(0.0)

    clock.run(run())


def test_farewell_that_overtakes_all_else_counts(impatient):
    async def run():
        ana = PacketCarrier(Bus().end_of("ana"), ["bob"])
        for kind in (PacketKind.BYE, PacketKind.HELLO, PacketKind.DATA):
            ana._take("bob", Packet(kind, 7, ana._own["bob"], 0, 0).encode())
        assert await ana.receive(0.05) is None
        await ana.close(0.0)

    clock.run(run())


def test_farewell_is_said_by_one_who_is_stopped_while_leaving(impatient):
    async def run():
        bus = Bus()
        ana, bob = await pair(bus)
        there = await next_of(ana, Present)
        await next_of(bob, Present)
        bus._lost = 1.0
        ana.send(there.peer, there.connection, b"lost")
        leaving = asyncio.create_task(ana.close(60.0))
        await asyncio.sleep(0.01)
        bus._lost = 0.0
        leaving.cancel()
        await next_of(bob, Left)
        await bob.close(0.0)

    clock.run(run())


@pytest.mark.parametrize("data", [b"", b"hello", bytes(34), b"\x01\x09" + bytes(32)])
def test_other_bytes_are_no_packets(data):
    with pytest.raises(ProtocolError):
        decode(data)


def test_packets_are_read_as_written():
    packet = Packet(PacketKind.DATA, 1, 2**64 - 1, 3, 4, b"body")
    assert decode(packet.encode()) == packet
    assert "body" not in repr(packet)

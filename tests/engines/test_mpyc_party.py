"""Engine `mpyc` as on the network: MPyC in a child of each party, its stream in our messages."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tracemalloc
from collections import Counter
from dataclasses import replace
from typing import Any, NoReturn, cast

import pytest

from securefedyj.engines.mpyc import LARGEST_PIECE, child, pipe
from securefedyj.engines.mpyc import engine as mpyc_engine
from securefedyj.engines.mpyc import party as mpyc
from securefedyj.engines.mpyc.engine import Mpyc
from securefedyj.engines.mpyc.pipe import Operation
from securefedyj.engines.registry import facts_of
from securefedyj.errors import ProtocolError
from securefedyj.numerics import wide
from securefedyj.party import inprocess
from securefedyj.party.messages import VERSION, Kind, Message
from tests.simulation import FIVE, THREE, Consortium

MOST_WAITING = cast(Any, facts_of("mpyc").most_ahead)(1, 1, 3)


async def some_of_everything(names: tuple[str, ...], own: int) -> list[int]:
    """Whether own inputs add up to less than 20, the bits of their sum, and its square."""
    engine = Mpyc(names)
    await engine.agree(bytes(32))
    x = await engine.share(wide.from_ints([own], 1), size=1, limbs=1)
    below = await engine.open_bits(await engine.negative(x - 20))
    bits = await engine.open_bits(await engine.bits(x))
    square = await engine.open(await engine.multiply(x, -x))
    return [int(below[0]), *bits[:6, 0].tolist(), *wide.to_ints(square)]


def new_party(names: tuple[str, ...], number: int) -> mpyc.MpycParty[list[int]]:
    return mpyc.MpycParty(
        names[number],
        names,
        some_of_everything(names, OWN[number]),
        session=bytes(16),
        parameters=b"",
        most_waiting=MOST_WAITING,
    )


def parties(consortium: Consortium = THREE) -> list[mpyc.MpycParty[list[int]]]:
    return [new_party(consortium.parties, number) for number in range(len(consortium.parties))]


OWN = (-10, 12, 16, 8, 9)  # 18 with three parties, 35 with five
EXPECTED = {3: [1, 0, 1, 0, 0, 1, 0, -324], 5: [0, 1, 1, 0, 0, 0, 1, -1225]}


# What a peer sends never reaches a pickle.

READERS = ("load", "loads", "Unpickler", "_load", "_loads", "_Unpickler")
WATCH = """
import _pickle, pickle, sys
from securefedyj.engines.mpyc import child

def refused(*arguments, **options):
    with open({file!r}, "a") as file:
        file.write("loaded ")
    raise ValueError("a pickle was read")

for name in {readers!r}:
    setattr(pickle, name, refused)
    setattr(_pickle, name, refused)
{more}
child.main(*map(int, sys.argv[1:]))
"""
WITHOUT_OPTION = "child.OPTIONS = child.OPTIONS[:-1]"
WITHOUT_GUARD = "child.without_pickle = lambda mpc: mpc"


def watch(monkeypatch: Any, tmp_path: Any, *more: str) -> Any:
    """Let children note when anything is unpickled in them, and have none read here."""

    def refused(*arguments: Any, **options: Any) -> NoReturn:
        raise AssertionError("a pickle was read")

    for name in READERS:
        monkeypatch.setattr(pickle, name, refused)
    file = tmp_path / "loads"
    script = WATCH.format(file=str(file), readers=READERS, more="\n".join(more))
    monkeypatch.setattr(mpyc, "COMMAND", (sys.executable, "-c", script))
    return file


# MPyC takes a loop of uvloop where it finds one, whatever loop is set.
UVLOOP = """
import asyncio

class EventLoopPolicy(asyncio.DefaultEventLoopPolicy):
    pass

class _version:
    __version__ = "0"
"""


@pytest.mark.parametrize("consortium", [THREE, FIVE], ids=["three", "five"])
class TestOnTheNetwork:
    pytestmark = pytest.mark.mpyc

    def test_no_pickle_is_read_and_the_results_are_right(self, monkeypatch, tmp_path, consortium):
        file = watch(monkeypatch, tmp_path, WITHOUT_GUARD)
        team = parties(consortium)
        size = len(team)
        assert inprocess.run(team) == [EXPECTED[size]] * size
        assert not file.exists()
        assert len({party.rounds for party in team}) == 1
        sent = max(sum(party.bytes_sent.values()) for party in team) / (size - 1)
        assert 10_000 < sent < MOST_WAITING

    def test_it_works_where_uvloop_is_installed(self, monkeypatch, tmp_path, consortium):
        (tmp_path / "uvloop.py").write_text(UVLOOP)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
        team = parties(consortium)
        assert inprocess.run(team) == [EXPECTED[len(team)]] * len(team)


class Bomb:
    """What makes a directory where it is unpickled."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self._path,)


# A party that starts a child, which says what it was told, and holds the line as long as it lives.
KILLED = """
import sys, time
from securefedyj.engines.mpyc import party as mpyc
from tests.engines.test_mpyc_party import CHILD, parties
mpyc.COMMAND = (sys.executable, "-c", CHILD, {line!r})
one, *others = parties()
one.start()
for other in others:
    for message in other.start():
        if message.recipient == one.name:
            one.receive(message)
time.sleep(600)
"""
CHILD = """
import os, sys
from securefedyj.engines.mpyc import child
line = open(sys.argv.pop(1), "w")
arguments = sys.argv[1:]
told = "a" if "hidden" in os.environ.values() else "no"
print(*arguments, "and", told, "secret", file=line, flush=True)
child.main(*map(int, arguments))
"""


class TestGuards:
    pytestmark = pytest.mark.mpyc

    def test_the_watch_would_see_a_pickle(self, monkeypatch, tmp_path):
        file = watch(monkeypatch, tmp_path, WITHOUT_OPTION, WITHOUT_GUARD)
        with pytest.raises(ProtocolError, match=r"could not continue \(ValueError\)"):
            inprocess.run(parties())
        assert "loaded" in file.read_text()

    def test_without_its_option_mpyc_finds_no_pickle(self, monkeypatch, tmp_path):
        file = watch(monkeypatch, tmp_path, WITHOUT_OPTION)
        with pytest.raises(ProtocolError, match="about to use a pickle; nothing was read"):
            inprocess.run(parties())
        assert not file.exists()

    def test_the_pickle_of_a_peer_is_not_opened(self, tmp_path):
        bomb = pickle.dumps(Bomb(str(tmp_path / "went off")))
        pickle.loads(pickle.dumps(Bomb(str(tmp_path / "would go off"))))
        pieces = []

        def forge(message: Message) -> list[Message]:
            if message.kind == Kind.STREAM and message.sender == "bob":
                pieces.append(message)
            if len(pieces) != 7 or message is not pieces[-1]:
                return [message]
            label, size = child._LABEL.unpack_from(message.payload)
            rest = message.payload[child._LABEL.size + size :]
            return [replace(message, payload=labelled(label, bomb) + rest)]

        with pytest.raises(ProtocolError, match="could not continue"):
            inprocess.run(parties(), forge)
        assert [path.name for path in tmp_path.iterdir()] == ["would go off"]

    def test_a_child_that_dies_ends_its_party_and_none_is_left(self):
        team = parties()
        pids = []

        def kill(message: Message) -> list[Message]:
            if message.kind == Kind.STREAM and not pids:
                pids.extend(one._child._process.pid for one in team if one._child is not None)
                os.kill(pids[0], 9)
            return [message]

        with pytest.raises(ConnectionError, match=r"ended too early \(exit code -9\)"):
            inprocess.run(team, kill)
        assert all(party._child is None for party in team)
        for pid in pids:
            with pytest.raises(ChildProcessError):  # none is left to wait for
                os.waitpid(pid, os.WNOHANG)

    def test_a_released_party_starts_no_other_child(self):
        team = parties()
        for party in team:
            party.release()
        with pytest.raises(ConnectionError, match="computes with MPyC was ended"):
            inprocess.run(team)
        assert all(party._child is None for party in team)

    def test_the_child_of_a_killed_party_ends_and_was_told_no_secret(self, tmp_path):
        line = tmp_path / "line"  # has an end when all that have opened it are gone
        os.mkfifo(line)
        script = KILLED.format(line=str(line))
        environment = {**os.environ, "TOKEN": "hidden"}
        party = subprocess.Popen((sys.executable, "-c", script), env=environment)
        with open(line) as end:
            told = end.readline()
            party.kill()
            party.wait()
            assert end.read() == ""
        assert told == f"0 3 {MOST_WAITING} and no secret\n"


# Sizes, labels and turns are bounded.


async def many_bits(names: tuple[str, ...], size: int) -> int:
    engine = Mpyc(names)
    x = await engine.share(wide.from_ints([1] * size, 1), size=size, limbs=1)
    return int((await engine.open_bits(await engine.bits(x))).sum())


@pytest.mark.mpyc
def test_others_are_not_further_ahead_of_a_slow_party_than_may_be(monkeypatch):
    monkeypatch.setattr(mpyc_engine, "BLOCK", 1)
    names, size = ("slow", "bob", "cem"), 6
    team = {
        name: mpyc.MpycParty(
            name,
            names,
            many_bits(names, size),
            session=bytes(16),
            parameters=b"",
        )
        for name in names
    }
    most, sent = 0, Counter[str]()  # bytes for the slow one
    waiting = [message for party in team.values() for message in party.start()]
    while waiting:
        ahead = Counter[str]()
        for message in waiting:
            if message.recipient == "slow":
                ahead[message.sender] += len(message.payload)
        most = max(most, *ahead.values(), 0)
        # The slow one reads only when nobody else has anything to do.
        message = next((one for one in waiting if one.recipient != "slow"), waiting[0])
        waiting.remove(message)
        for answer in team[message.recipient].receive(message):
            waiting.append(answer)
            sent[answer.sender] += len(answer.payload) * (answer.recipient == "slow")
    assert {party.result for party in team.values()} == {2 * size}  # each is 11
    bound = cast(Any, facts_of("mpyc").most_ahead)(size, 1, len(names)) - 2**20
    assert most < bound < sent["bob"]


def piece(payload: bytes = b"?", number: int = 1, kind: Kind = Kind.STREAM) -> Message:
    return Message(VERSION, bytes(16), "bob", "ana", number, kind, payload)


@pytest.mark.parametrize(
    ("messages", "sentence"),
    [
        ([piece(b"")], "is empty; expected a piece"),
        ([piece(bytes(LARGEST_PIECE + 1))], "too much: 4194305 bytes"),
        ([piece(bytes(600_000))] * 4, "too much: 600000 bytes"),
        ([piece(number=0)], "out of turn"),
        ([piece(number=1 << 30)], "out of turn"),
        ([piece(number=3), piece(number=2)], "out of turn"),
        ([piece(kind=Kind.STREAM | Kind.INPUT)], "is unexpected"),
    ],
)
def test_a_piece_that_cannot_be_ends_the_party(messages, sentence):
    party = new_party(THREE.parties, 0)
    party.start()
    for message in messages:
        party.receive(message)
    with pytest.raises(ProtocolError, match=sentence):
        _ = party.result


def test_pieces_of_one_byte_take_no_more_memory_than_large_ones():
    party = new_party(THREE.parties, 0)
    party.start()
    tracemalloc.start()
    try:
        while party.error is None:
            party.receive(replace(piece(), payload=bytes(bytearray(1))))
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert "too much: 1 bytes" in str(party.error)
    assert held < 2 * MOST_WAITING


def test_no_peer_makes_rounds_larger_than_a_message_can_say():
    party = new_party(THREE.parties, 0)
    party.start()
    party.rounds = 2**32 - 3
    party.receive(piece(number=2**32 - 2))
    assert party.error is None
    party.receive(piece(number=2**32 - 1))
    assert "out of turn" in str(party.error)


def labelled(label: int, payload: bytes) -> bytes:
    return child._LABEL.pack(label, len(payload)) + payload


def test_a_line_takes_messages_in_any_order_and_in_any_pieces():
    line = child._PeerStream(most_waiting=1000)
    for byte in labelled(-7, b"seven") + labelled(9, b""):
        line.data_received(bytes([byte]))
    assert (line.receive(9), line.receive(-7), line.lacks) == (b"", b"seven", False)


def test_a_line_keeps_no_more_than_may_wait():
    line = child._PeerStream(most_waiting=pipe.HELD + 100)
    line.data_received(labelled(1, bytes(100)))
    line.receive(1)
    line.data_received(labelled(2, bytes(80)))
    with pytest.raises(ProtocolError, match="more than 356 bytes"):
        line.data_received(labelled(3, b""))
    line = child._PeerStream(most_waiting=100)
    with pytest.raises(ProtocolError, match="more than 100 bytes"):
        line.data_received(child._LABEL.pack(1, 2**32 - 1) + bytes(90))


def test_two_messages_with_one_label_are_refused():
    line = child._PeerStream(most_waiting=1000)
    with pytest.raises(ProtocolError, match="two messages with one label"):
        line.data_received(labelled(1, b"a") + labelled(1, b"b"))


def test_what_goes_through_the_pipe_comes_out_as_it_was(tmp_path):
    vector = pipe.unpack(bytes(range(50)), 2)
    assert pipe.pack(vector, 2) == bytes(range(50))
    work = [pipe.Work(Operation.MULTIPLY, 2, (pipe.pack(vector, 2), pipe.pack(vector[::-1], 2)))]
    piece = pipe.Piece(2, b"from bob")
    turn = pipe.Turn([b"", b"to bob"], [1], [pipe.pack(vector, 2)], "")
    with open(tmp_path / "pipe", "w+b") as stream:
        for message in (work, piece, turn):
            pipe.write(stream, message)
        stream.seek(0)
        for message, kind in ((work, pipe.QUESTION), (piece, pipe.QUESTION), (turn, pipe.Turn)):
            assert pipe.read(stream, kind) == message
        with pytest.raises(EOFError):
            pipe.read(stream, pipe.Turn)

"""What was shared is in no memory of the hub, and on no disk; each search could have found it."""

from __future__ import annotations

import asyncio
import base64
import functools
import os
import re
import signal
import struct
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from securefedyj.engines.replicated.engine import Replicated
from securefedyj.network import local
from securefedyj.network.identity import Identity
from securefedyj.network.session import participant
from securefedyj.network.transport import tls
from securefedyj.party.messages import Message
from securefedyj.tables.digest import rows_digest
from tests.network import recording
from tests.network.gate import Gate
from tests.network.harness import (
    COMMITTEE,
    FIVE,
    ROWS,
    THREE,
    Loopback,
    assert_same_bits,
    prepare,
)
from tests.patience import PATIENCE

pytestmark = pytest.mark.processes

ROOT = Path(__file__).parents[2]


def telling(words: Iterable[bytes]) -> set[bytes]:
    """Words of 8 bytes that do not occur by accident: zeros and small numbers do."""
    return {word for word in words if len(word) == 8 and len(set(word)) >= 6}


def words_of(secret: bytes) -> set[bytes]:
    return telling(secret[at : at + 8] for at in range(0, len(secret), 8))


# Memory of the hub.


HEADER = struct.Struct("!BI")  # of a record


class InTheClear(tls.Channel):
    """What the parties would send without TLS from end to end."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.sent, self.received = bytearray(), bytearray()

    def begin(self) -> None:
        self.sent += b"\0"

    def receive(self, data: bytes) -> Iterator[tls.RawRecord]:
        self.received += data if self.established else data[1:]
        self.established = True
        while len(self.received) >= HEADER.size:
            kind, length = HEADER.unpack_from(self.received)
            end = HEADER.size + length
            if len(self.received) < end:
                return
            body = bytes(self.received[HEADER.size : end])
            del self.received[:end]
            yield tls.RawRecord(kind, body)

    def send(self, record: tls.RawRecord) -> None:
        self.sent += HEADER.pack(record.type, len(record.body)) + record.body

    def outgoing(self) -> bytes:
        sent, self.sent = bytes(self.sent), bytearray()
        return sent


def memory_of(process: int) -> list[bytes]:
    """All memory that the process can write to; it stands still meanwhile."""
    regions = []
    os.kill(process, signal.SIGSTOP)
    try:
        maps = Path(f"/proc/{process}/maps").read_text().splitlines()
        with open(f"/proc/{process}/mem", "rb", buffering=0) as memory:
            for line in maps:
                extent, access = line.split()[:2]
                if access.startswith("rw"):
                    start, end = (int(place, 16) for place in extent.split("-"))
                    regions.append(os.pread(memory.fileno(), end - start, start))
    finally:
        os.kill(process, signal.SIGCONT)
    return regions


def found_in(regions: Iterable[bytes], words: set[bytes]) -> int:
    """How many of the words are in there, at whatever address."""
    wanted = np.frombuffer(b"".join(sorted(words)), dtype="<u8")
    likely = np.zeros(1 << 20, dtype=bool)
    likely[wanted >> np.uint64(44)] = True
    found: set[int] = set()
    for region in regions:
        for shift in range(8):
            there = np.frombuffer(region[shift : len(region) - (len(region) - shift) % 8], "<u8")
            candidates = there[likely[there >> np.uint64(44)]]
            found.update(np.intersect1d(candidates, wanted).tolist())
    return len(found)


def test_search_finds_a_word_at_any_address():
    word, other = b"\x01\x98\x76\x54\x32\x10\xfe\xdc", b"\x02\x98\x76\x54\x32\x10\xfe\xdc"
    for before in range(17):
        assert found_in([bytes(before) + word + bytes(3)], {word, other}) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("clear", [False, True], ids=["as it is", "without TLS between parties"])
def test_memory_and_log_of_the_hub_hold_nothing_of_what_is_shared(tmp_path, monkeypatch, clear):
    kept: list[bytes] = []
    for owner, name in [(Message, "to_bytes"), (Replicated, "share")]:
        monkeypatch.setattr(owner, name, getattr(owner, name))  # undone after the test
    recording.record_shares(kept.append)
    if clear:
        monkeypatch.setattr(tls, "Channel", InTheClear)

    async def scenario(hub: int) -> list[bytes]:
        memory: list[bytes] = []
        async with Loopback(tmp_path, processes.consortium, THREE) as net:
            for name in THREE:
                net.start(name, timeout=PATIENCE, wait=PATIENCE)  # the hub is another process
            await net.until_exchange("bob", 4)
            memory += memory_of(hub)
            for transcript in (await net.outcomes()).values():
                assert_same_bits(transcript)
        return memory + memory_of(hub)

    prepare(tmp_path)
    with local.Processes(tmp_path) as processes:
        processes.start_hub()
        try:
            memory = asyncio.run(scenario(processes.running["hub"].pid))
        except PermissionError as error:
            pytest.skip(f"the memory of another process cannot be read here: {error}")
        log = processes.log("hub")
    words = set().union(*map(words_of, kept))
    assert len(words) > 1000
    assert sum(map(len, memory)) > 1 << 20
    assert (found_in(memory, words) > 0) == clear
    assert hits(log.encode(), words) == set()


# Files and logs of the parties.


def spellings(word: bytes) -> set[bytes]:
    """A word as bytes, hexadecimal and decimal digits, and in Base64 at each alignment."""
    written = set()
    for one in (word, word[::-1]):
        number = str(int.from_bytes(one, "little")).encode()
        written |= {one, one.hex().encode(), number}
        for before in range(3):
            encoded = base64.b64encode(bytes(before) + one)
            written.add(encoded[4 if before else 0 :][:8])
    return written


def hits(content: bytes, words: set[bytes], *, raw: Iterable[bytes] = ()) -> set[bytes]:
    """Which of the words are in there in some spelling, or of the raw texts as they are."""
    needles = set(raw).union(*map(spellings, words))
    found = set()
    for length in {len(needle) for needle in needles}:
        windows = {content[at : at + length] for at in range(len(content) - length + 1)}
        found |= needles & windows
    return found


def data_needles() -> set[bytes]:
    """Every value of every silo as text, and its logarithm; eight digits are NumPy's."""
    return {
        spelling.encode()
        for value in (*ROWS.ravel().tolist(), *np.log1p(ROWS).ravel().tolist())
        for spelling in (repr(value), f"{value:.12g}", f"{value:.8f}", f"{value:.8e}", value.hex())
    }


def key_needles(folder: Path) -> set[bytes]:
    lines = [line for path in folder.glob("*.key") for line in path.read_bytes().splitlines()]
    return {line for line in lines if len(line) >= 40}


def key_words(folder: Path) -> set[bytes]:
    """The private numbers themselves."""
    words: set[bytes] = set()
    for path in folder.glob("*.key"):
        key = serialization.load_pem_private_key(path.read_bytes(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        words |= words_of(key.private_numbers().private_value.to_bytes(32, "big"))
    return words


def but_for_the_own_part(path: Path) -> bytes:
    """A file without what a member of the committee keeps to send of the final opening."""
    content = path.read_bytes()
    if path.name != "state.jsonl":
        return content
    kept = [line for line in content.splitlines() if b'"accepted"' not in line]
    member = path.parent.name in COMMITTEE[len(FIVE)]
    assert len(content.splitlines()) - len(kept) == member, path
    return b"\n".join(kept)


def test_nothing_that_a_party_writes_tells_rows_sums_shares_or_keys(tmp_path, monkeypatch):
    """Real processes, one of them killed on the way; all they write, also what they replace."""
    record = tmp_path / "record"
    for name in ("record", "home", "tmp", "cwd"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("RECORD", str(record))
    monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'src'}{os.pathsep}{ROOT}")
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    for variable in ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "MPLCONFIGDIR"):
        monkeypatch.setenv(variable, str(tmp_path / "home"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.chdir(tmp_path / "cwd")
    monkeypatch.setattr(
        local, "_COMMAND", "import sys; from tests.network.recording import main; sys.exit(main())"
    )
    folder = tmp_path / "run"
    prepare(folder, FIVE, levels_per_exchange=1)
    with local.Processes(folder, reports=True) as processes:
        processes.start_hub()
        bob = Gate(processes, "bob", 2)
        bob.start_party()
        for name in FIVE:
            if name != "bob":
                processes.start_party(name)
        bob.wait()
        processes.kill("eva")
        processes.start_party("eva")
        bob.open()
        assert set(processes.wait(PATIENCE).values()) == {0}
    own = {path for path in folder.iterdir() if path.suffix in (".csv", ".key")}
    paths = {Path(line) for file in record.glob("*.paths") for line in file.read_text().split("\n")}
    assert all(path.is_relative_to(tmp_path) for path in paths - {Path(), Path(os.devnull)}), paths
    assert {folder / name / "state.jsonl" for name in FIVE} <= paths
    assert any(re.fullmatch(r"\.\w+\.parameters\.json", path.name) for path in paths)
    written = [path for path in tmp_path.rglob("*") if path.is_file() and path not in own]
    written = [path for path in written if path.suffix not in (".shares", ".paths")]
    assert {"transcript.jsonl", "parameters.json", "eva.log"} <= {path.name for path in written}
    assert any(path.parent == record for path in written)
    content = b"\n".join(map(but_for_the_own_part, written))

    shares = b"".join(path.read_bytes() for path in record.glob("*.shares"))
    words = set().union(*(words_of(bytes.fromhex(line.decode())) for line in shares.split()))
    words |= telling(value.tobytes() for value in ROWS.ravel()) | key_words(folder)
    raw = data_needles() | key_needles(folder)
    assert len(words) > 1000
    assert hits(content, words, raw=raw) == set()
    # The same search does find what is where it belongs.
    assert len(hits(shares, words)) > 1000
    for path in own:
        assert hits(path.read_bytes(), set(), raw=raw), path


@pytest.mark.parametrize("spelling", sorted(spellings(b"\x01\x98\x76\x54\x32\x10\xfe\xdc")))
def test_search_finds_every_spelling(spelling):
    assert hits(b"a line with " + spelling + b" in it", {b"\x01\x98\x76\x54\x32\x10\xfe\xdc"})


def test_the_settings_of_a_party_do_not_show_its_rows(tmp_path):
    """Their digest is computed from the table, which a partial function would print."""
    rows = functools.partial(rows_digest, np.array([[12345.678]]), ["lactate"])
    identity = Identity(tmp_path / "ana.key", tmp_path / "ana.pem")
    shown = repr(participant.Settings(prepare(tmp_path), "ana", identity, tmp_path, rows=rows))
    assert "12345.678" in repr(rows)
    assert "12345.678" not in shown

"""A whole consortium on this machine, for demonstrations, tests and measurements.

Keys, TLS and the command line are those of a real run; only the keys are all in one folder.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from securefedyj.engines.registry import facts_of
from securefedyj.network.carrier import Data, LinkLost, Present
from securefedyj.network.consortium import ENGINE, Consortium, Feature, HubEntry, PartyEntry
from securefedyj.network.hub import HubServer
from securefedyj.network.identity import identity_in, keygen, read_certificate
from securefedyj.network.session.channels import Channels
from securefedyj.network.session.events import ChannelStands, Event, RecordArrived
from securefedyj.network.transport.link import Link, connect
from securefedyj.numerics.arrays import Array
from securefedyj.party.messages import SESSION_BYTES, VERSION, Kind, Message
from securefedyj.tables.files import write_table

_PATIENCE = 300.0  # seconds for a process to start, or to end
_SOON = 10.0  # seconds for a message within this process
_MESSAGES = 100
_LARGE = 4 << 20
_FEATURES = 1000  # with fewer, no record may be that large
_COMMAND = "import sys; from securefedyj.cli.main import main; sys.exit(main())"


def free_port() -> int:
    """A port of this machine that no other program takes before a server listens there.

    It is below the ports that the system gives to connections, and a closed connection keeps it for
    a minute: only a server that asks for it with SO_REUSEADDR, as servers do, can have it.
    """
    while True:
        with contextlib.suppress(OSError), socket.socket() as server:
            server.bind(("127.0.0.1", 10_000 + secrets.randbelow(20_000)))
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.listen()
            with socket.create_connection(server.getsockname()):
                server.accept()[0].close()  # the side that closes first keeps the port
            return int(server.getsockname()[1])


def prepare(
    folder: Path,
    tables: Mapping[str, Array | None],
    features: Sequence[Feature],
    *,
    committee: Sequence[str] = (),
    name: str = "on one machine",
    engine: str = ENGINE,
    host: str = "127.0.0.1",
    port: int = 0,
    **numbers: Any,
) -> Consortium:
    """Make consortium.toml in a folder, and NAME.key, NAME.pem and NAME.csv for each party.

    Parameters
    ----------
    tables
        The rows of each silo; None for a helper, which has no data.
    committee
        By default the first three parties, or all with engine `mpyc`.
    numbers
        Other fields of `Consortium`, such as max_steps.
    """
    hub = keygen("hub", folder)
    parties = []
    for party, table in tables.items():
        role = "helper" if table is None else "silo"
        parties.append(PartyEntry.read(party, role, keygen(party, folder).certificate))
        if table is not None:
            write_table(folder / f"{party}.csv", [feature.name for feature in features], table)
    consortium = Consortium(
        name=name,
        hub=HubEntry(f"{host}:{port or free_port()}", read_certificate(hub.certificate)),
        parties=tuple(parties),
        committee=tuple(committee) or facts_of(engine).committee_of(tuple(tables)),
        engine=engine,
        features=tuple(features),
        **numbers,
    )
    consortium.write(folder / "consortium.toml")
    return consortium


class Processes:
    """The hub and the parties of a folder that `prepare` has filled.

    Parties write to NAME/ below the folder, without a report unless `reports`, note their runs in
    NAME.ledger.jsonl, and print to NAME.log. `within` returns a prefix for the command of a
    process, such as one that runs it in a namespace.

        with Processes(folder) as running:
            running.start_hub()
            for name in names:
                running.start_party(name)
            codes = running.wait(timeout=60)
    """

    def __init__(
        self,
        folder: Path,
        within: Callable[[str], Sequence[str]] = lambda name: (),
        *,
        reports: bool = False,
    ) -> None:
        self.folder, self._within, self._reports = folder, within, reports
        self.consortium = Consortium.read(folder / "consortium.toml")
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self.running):
            self.kill(name)

    def start_hub(self, *more: Path) -> None:
        """Start the hub, also for the agreed files in `more`, and wait until it listens."""
        files, own = (self.folder / "consortium.toml", *more), self.folder / "hub"
        before = self.log("hub").count(" listening ")
        mail = ["--mailbox", str(self.folder / "mailbox")] * self.consortium.submitted
        self.start("hub", "-c", _COMMAND, "hub", *map(str, files), "--key", f"{own}.key",
                   "--certificate", f"{own}.pem",
                   "--listen", self.consortium.agreed_hub().address, *mail)  # fmt: skip
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline and self.running["hub"].poll() is None:
            if self.log("hub").count(" listening ") > before:
                return
            time.sleep(0.02)
        raise TimeoutError(f"The hub does not listen: {self.last_line('hub') or 'no output'}")

    def start_party(
        self, name: str, *options: str, file: str = "consortium.toml", table: Path | None = None
    ) -> None:
        """Start a party with the options of `join`, and with the table of `prepare` by default."""
        own, table = self.folder / name, table or self.folder / f"{name}.csv"
        data = ["--data", str(table)] * table.exists() + ["--no-report"] * (not self._reports)
        self.start(name, "-c", _COMMAND, "join", str(self.folder / file), "--key", f"{own}.key",
                   "--certificate", f"{own}.pem", *data, "--output", str(own),
                   "--ledger", f"{own}.ledger.jsonl", *options)  # fmt: skip

    def log(self, name: str) -> str:
        """What a process has printed so far."""
        path = self.folder / f"{name}.log"
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def last_line(self, name: str) -> str:
        """The last line that a process has printed, or an empty text."""
        return (self.log(name).strip().splitlines() or [""])[-1]

    def wait(self, timeout: float) -> dict[str, int]:
        """Wait for all parties; return their exit codes."""
        deadline = time.monotonic() + timeout
        return {
            name: process.wait(max(0.1, deadline - time.monotonic()))
            for name, process in self.running.items()
            if name != "hub"
        }

    def kill(self, name: str, number: int | None = None) -> None:
        """End a process, by default without warning."""
        process = self.running.pop(name)
        if process.poll() is None:
            process.kill() if number is None else process.send_signal(number)
        process.wait(_PATIENCE)

    def start(self, name: str, *program: str) -> None:
        """Start a Python process with these arguments."""
        environment = dict(os.environ, OPENBLAS_NUM_THREADS="1", PYTHONUNBUFFERED="1")
        with open(self.folder / f"{name}.log", "ab") as log:
            self.running[name] = subprocess.Popen(
                [*self._within(name), sys.executable, *program],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env=environment,
            )


class Crossing(NamedTuple):
    """What a message takes in addition to the line, from one party to another.

    These are seconds that sender, hub and receiver compute, one after the other: to encrypt, send,
    pass on, receive and decrypt.
    """

    per_message: float
    per_byte: float


def measure_crossing() -> Crossing:
    """Send some messages from a party to another and back, through a hub in this process."""
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_measure(Path(folder)))


async def _measure(folder: Path) -> Crossing:
    features = [Feature(str(j), 0.0, 1.0) for j in range(_FEATURES)]
    tables = dict.fromkeys(("a", "b", "c"), np.zeros((1, _FEATURES)))
    consortium = prepare(folder, tables, features)
    hub = HubServer([consortium], identity_in(folder, "hub"), lambda event, **fields: None)
    agreed = consortium.agreed_hub()
    await hub.start(agreed.host, agreed.port)
    try:
        a, b = [await _connected(folder, consortium, *names) for names in ("ab", "ba")]
        await asyncio.gather(a.hear(ChannelStands), b.hear(ChannelStands))
        small = min([await _seconds(a, b, 100, _MESSAGES) for _ in range(3)])
        large = min([await _seconds(a, b, _LARGE, 1) for _ in range(3)])
        await asyncio.gather(a.link.close(1.0), b.link.close(1.0))
    finally:
        await hub.stop()
    return Crossing(small, (large - small) / _LARGE)


async def _seconds(a: _End, b: _End, size: int, messages: int) -> float:
    """For one message one way."""
    start = time.process_time()
    for _ in range(messages):
        for sender, receiver in ((a, b), (b, a)):
            sender.say(size)
            await receiver.hear(RecordArrived)
    return (time.process_time() - start) / (2 * messages)


async def _connected(folder: Path, consortium: Consortium, name: str, peer: str) -> _End:
    identity = identity_in(folder, name)
    link = await connect(consortium, name, identity, _SOON)
    await link.receive_frame(_SOON)  # the hub's welcome
    channels = Channels(consortium, name, identity)
    channels.use(link)
    return _End(name, peer, link, channels)


@dataclass
class _End:
    """A party that only sends zeros."""

    name: str
    peer: str
    link: Link
    channels: Channels

    def say(self, size: int) -> None:
        zeros, session = bytes(size), bytes(SESSION_BYTES)
        message = Message(VERSION, session, self.name, self.peer, 0, Kind.INPUT, zeros)
        self.channels.send(self.peer, message)

    async def hear(self, kind: type[Event]) -> None:
        """Wait for an event, and change to a thread as a party does to compute."""
        came: list[Event] = []
        while not any(isinstance(event, kind) for event in came):
            match await self.link.receive(_SOON):
                case Present(peer, connection) if peer == self.peer:
                    self.channels.open(peer, connection)
                case Data(peer, _, data):
                    came = list(self.channels.receive(peer, data))
                case None:
                    raise LinkLost(
                        "SFY-NET-001", "A hub on this machine did not pass on a message in time."
                    )
        await asyncio.to_thread(bool)

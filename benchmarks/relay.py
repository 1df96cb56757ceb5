"""The hub alone: megabytes per second, and memory, with many parties and with many consortia.

    python -m benchmarks.relay

The hub is a process of its own; all parties are in this one, each with its TLS connection, and send
to the next as fast as the hub takes it. In the last case every other party never reads: the hub's
memory must stay bounded, and the others must get theirs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import resource
import socket
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from securefedyj.network import local
from securefedyj.network.consortium import Consortium, Feature, HubEntry, PartyEntry
from securefedyj.network.hub.consortia import QUEUE
from securefedyj.network.identity import Identity, keygen, read_certificate
from securefedyj.network.transport import tls
from securefedyj.network.transport.framing import (
    MAX_FRAME_BODY,
    FrameReader,
    FrameType,
    FrameWriter,
    HubFrame,
)


class Case(NamedTuple):
    name: str
    consortia: int
    parties: int
    body: int
    deaf: bool = False
    """Whether every other party never reads."""


CASES = (
    Case("1 consortium of 3, large frames", 1, 3, MAX_FRAME_BODY),
    Case("1 consortium of 200, large frames", 1, 200, MAX_FRAME_BODY),
    Case("1 consortium of 200, small frames", 1, 200, 1024),
    Case("10 consortia of 3, large frames", 10, 3, MAX_FRAME_BODY),
    Case("10 consortia of 20, every other party never reads", 10, 20, MAX_FRAME_BODY, deaf=True),
)


def prepare(folder: Path, consortia: int, parties: int) -> list[Path]:
    """Keys and agreed files; the same parties and the same hub in all."""
    hub = read_certificate(keygen("hub", folder).certificate)
    port = local.free_port()
    names = [f"party-{k}" for k in range(parties)]
    entries = tuple(PartyEntry.read(n, "silo", keygen(n, folder).certificate) for n in names)
    committee = tuple(names[:3])
    paths = []
    for number in range(consortia):
        address = HubEntry(f"127.0.0.1:{port}", hub)
        features = (Feature("any", 0.0, 1.0),)
        made = Consortium(
            name=f"consortium {number}", hub=address, parties=entries, committee=committee,
            features=features,
        )  # fmt: skip
        # The name under which `Processes` looks for the first one.
        paths.append(folder / ("consortium.toml" if number == 0 else f"consortium-{number}.toml"))
        made.write(paths[-1])
    return paths


class Client:
    """A party that speaks frames and nothing else."""

    received = 0

    async def connect(self, consortium: Consortium, name: str, folder: Path) -> None:
        identity = Identity(folder / f"{name}.key", folder / f"{name}.pem")
        settings = tls.context(identity, [consortium.agreed_hub().certificate], server_side=False)
        self._reader, self._writer = await asyncio.open_connection(
            consortium.agreed_hub().host, consortium.agreed_hub().port, ssl=settings
        )
        line = self._writer.get_extra_info("socket")
        for side in (socket.SO_SNDBUF, socket.SO_RCVBUF):  # or much would be under way, unseen
            line.setsockopt(socket.SOL_SOCKET, side, 1 << 18)
        self._numbered, self._frames = FrameWriter(), FrameReader("the hub")
        self.present: dict[str, int] = {}
        hello = json.dumps({"consortium": consortium.name, "party": name}).encode()
        self._writer.write(self._numbered.encode(HubFrame(FrameType.HELLO, body=hello)))

    async def read(self, until_present: int = 0) -> None:
        """Count what comes; return when so many peers are there, if that was asked for."""
        while not until_present or len(self.present) < until_present:
            data = await self._reader.read(1 << 18)
            if not data:
                raise SystemExit("the hub closed a connection")
            for frame in self._frames.feed(data):
                if frame.type == FrameType.PRESENT:
                    self.present[frame.name] = frame.connection
                self.received += len(frame.body) * (frame.type == FrameType.DATA)

    async def write(self, to: str, body: bytes) -> None:
        while True:
            frame = HubFrame(FrameType.DATA, to, self.present[to], body)
            self._writer.write(self._numbered.encode(frame))
            await self._writer.drain()

    def close(self) -> None:
        self._writer.transport.abort()


async def load(case: Case, files: Sequence[Path], seconds: float) -> float:
    """Send for so long; return bytes per second."""
    clients: list[tuple[int, Client]] = []
    for path in files:
        consortium = Consortium.read(path)
        for number, party in enumerate(consortium.parties):
            client = Client()
            await client.connect(consortium, party.name, path.parent)
            clients.append((number, client))
    peers = [client.read(until_present=case.parties - 1) for _, client in clients]
    async with asyncio.timeout(120):
        await asyncio.gather(*peers)
    tasks = []
    for number, client in clients:
        to = f"party-{(number + 1) % case.parties}"
        tasks.append(asyncio.create_task(client.write(to, bytes(case.body))))
        if not (case.deaf and number % 2):
            tasks.append(asyncio.create_task(client.read()))
    hearing = [client for number, client in clients if not (case.deaf and number % 2)]
    async with asyncio.timeout(120):  # until all buffers on the way are filled
        while not all(client.received for client in hearing):
            await asyncio.sleep(0.1)
    before, start = [client.received for client in hearing], time.monotonic()
    done, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
    for task in done:
        task.result()
    took = time.monotonic() - start
    got = [client.received - first for client, first in zip(hearing, before, strict=True)]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for _, client in clients:
        client.close()
    if not min(got):
        raise SystemExit(f"in {took:.0f} seconds some party got nothing")
    return sum(got) / took


def measure(case: Case, seconds: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="relay-") as name:
        files = prepare(Path(name), case.consortia, case.parties)
        with local.Processes(Path(name)) as processes:
            processes.start_hub(*files[1:])
            process = processes.running["hub"]
            before = _memory(process.pid, "VmRSS")
            rate = asyncio.run(load(case, files, seconds))
            if process.poll() is not None or "Traceback" in processes.log("hub"):
                raise SystemExit(f"the hub broke:\n{processes.log('hub')[-2000:]}")
            peak = _memory(process.pid, "VmHWM")
    return {**case._asdict(), "megabytes_per_second": rate / 1e6, "frames_per_second": rate /
            case.body, "idle_mb": before, "peak_mb": peak}  # fmt: skip


def _memory(pid: int, field: str) -> float:
    """Megabytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(rf"{field}:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024 / 1e6


def table(results: Sequence[dict[str, Any]]) -> str:
    lines = [
        "| | MB/s relayed | frames/s | hub's memory, peak | before |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {one['name']} | {one['megabytes_per_second']:.0f} | {one['frames_per_second']:,.0f} "
        f"| {one['peak_mb']:.0f} MB | {one['idle_mb']:.0f} MB |"
        for one in results
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=5.0, help="of each case (%(default)g)")
    parser.add_argument("--output", type=Path, metavar="FILE", help="save all numbers as JSON")
    options = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    print(f"at most {QUEUE} bytes wait for one connection", flush=True)
    results = []
    for case in CASES:
        results.append(measure(case, options.seconds))
        print(table(results[-1:]).splitlines()[-1], flush=True)
    if options.output is not None:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps({"results": results}, indent=1))


if __name__ == "__main__":
    main()

"""What connections cost the hub that do not say who they are, and whether a party gets in.

    python -m benchmarks.crowd --connections 500

For each kind of silence: the hub's memory before, at its peak, and how long a party takes to be
welcomed while all of them hold the line, from the same address and from another one.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from securefedyj.network import local
from securefedyj.network.carrier import LinkLost
from securefedyj.network.consortium import Consortium, Feature
from securefedyj.network.identity import Identity
from securefedyj.network.transport.link import HubDialer

SILENCES = {
    "nothing": b"",
    "one byte": b"\x16",
    "half of its first words": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100),
}


def memory(pid: int, what: str) -> float:
    """MB of a process: VmRSS now, VmHWM at its peak."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith(what):
            return int(line.split()[1]) / 1024
    raise ValueError(what)


def crowd(port: int, number: int, words: bytes, address: str, stack: contextlib.ExitStack) -> None:
    for _ in range(number):
        line = stack.enter_context(
            socket.create_connection(("127.0.0.1", port), source_address=(address, 0))
        )
        with contextlib.suppress(OSError):
            line.sendall(words)


async def welcomed(consortium: Consortium, folder: Path) -> float:
    """Seconds until the hub welcomes a party, which tries again if it is turned away."""
    identity = Identity(folder / "ana.key", folder / "ana.pem")
    began = time.perf_counter()
    dialer = HubDialer(consortium, "ana", identity, 60.0, 1000)
    while True:
        try:
            connection = await dialer.connect()
        except LinkLost:
            continue
        took = time.perf_counter() - began
        await connection.close(1.0)
        return took


def measure(number: int, words: bytes, address: str) -> tuple[float, float, float]:
    """Memory before and at the peak, in MB, and the seconds of a party."""
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        tables = dict.fromkeys(("ana", "bob", "cem"), None) | {"ana": [[1.0]]}
        consortium = local.prepare(folder, tables, [Feature("a", 0.0, 9.0)])
        command = [sys.executable, "-m", "securefedyj", "hub", str(folder / "consortium.toml")]
        identity = ["--certificate", str(folder / "hub.pem"), "--key", str(folder / "hub.key")]
        hub = subprocess.Popen([*command, *identity], stderr=subprocess.PIPE, text=True)
        assert hub.stderr is not None
        while "listening" not in hub.stderr.readline():
            pass
        drain = subprocess.Popen(["cat"], stdin=hub.stderr, stdout=subprocess.DEVNULL)
        try:
            before = memory(hub.pid, "VmRSS")
            crowd(consortium.agreed_hub().port, number, words, address, stack)
            took = asyncio.run(welcomed(consortium, folder))
            return before, memory(hub.pid, "VmHWM"), took
        finally:
            hub.terminate()
            hub.wait()
            drain.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--connections", type=int, default=500, metavar="N")
    options = parser.parse_args()
    print(f"{options.connections} connections from one address")
    print(f"{'each says':<36} {'MB before':>10} {'MB peak':>9} {'a party gets in after':>22}")
    for where, address in (("", "127.0.0.1"), (", elsewhere", "127.0.0.2")):
        for name, words in SILENCES.items():
            before, peak, took = measure(options.connections, words, address)
            print(f"{name + where:<36} {before:>10.1f} {peak:>9.1f} {took:>20.2f} s")


if __name__ == "__main__":
    main()

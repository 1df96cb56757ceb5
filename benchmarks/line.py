"""Long lines on one machine: processes in network namespaces of their own, and a router.

Every process gets a namespace with nothing in it but a TUN device; what the system would send
comes out of the device's file as packets. The router, a thread of ours, holds the files of all
devices and passes each packet on after the line's delay, at the line's rate. There is one line
between the hub and each party, as in the paper's setting of a star.

Why not `tc netem`: it is a module that many kernels come without, while namespaces and TUN devices
are nearly everywhere, and here the same code runs in all places. Packets are offered with
segmentation offload, as to a network card: TCP works with ordinary segments of 1,460 bytes, and
we see up to 64 kB of them at once, so Python keeps up with 1 Gbit/s.

    with Lines(folder, delay=0.010, bytes_per_second=125e6) as lines:
        subprocess.Popen([*lines.within("hub"), "some", "command"])

No names are left behind: a namespace ends with its last process.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import os
import select
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any

HUB = "10.77.0.1"

_SETIFF, _SETOFFLOAD = 0x400454CA, 0x400454D0
_TUN, _NO_PI, _VNET_HDR = 0x0001, 0x1000, 0x4000
_CHECKSUM, _TSO4 = 0x01, 0x02
_VNET_SIZE = 10  # bytes before each packet that say how to cut it into segments
_DESTINATION = slice(_VNET_SIZE + 16, _VNET_SIZE + 20)
_SOURCE = slice(_VNET_SIZE + 12, _VNET_SIZE + 16)
_LARGEST = _VNET_SIZE + 65535
# The system lets whoever sleeps sleep a little longer, and the router takes time itself.
_EARLY = 0.0001


class NotPermitted(Exception):
    """This machine, or this user, cannot have namespaces with devices; says why."""


class _Way:
    """One direction of a line: packets leave one after the other, and arrive after the delay."""

    def __init__(self, to: int) -> None:
        self.to = to
        self.free = 0.0
        self.packets: deque[tuple[float, bytes]] = deque()


class Lines:
    """Lines from the hub to every process that is started `within` them.

    Parameters
    ----------
    folder
        For the socket by which processes hand over their devices.
    delay
        Seconds from the hub to a party, or back.
    bytes_per_second
        Of each line, in each direction.

    Attributes
    ----------
    seconds
        Of a processor that the router has taken so far: real lines take none.
    """

    seconds = 0.0

    def __init__(self, folder: Path, delay: float, bytes_per_second: float) -> None:
        self.delay, self.rate = delay, bytes_per_second
        self._path = folder / "lines.sock"
        self._addresses = {"hub": HUB}
        self._devices: dict[bytes, int] = {}  # by address
        self._ways: dict[tuple[bytes, bytes], _Way] = {}  # by source and destination
        self._listener = socket.socket(socket.AF_UNIX)
        self._ended = False

    def __enter__(self) -> Lines:
        self._listener.bind(str(self._path))
        self._listener.listen(64)
        self._thread = threading.Thread(target=self._route, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended = True
        self._thread.join()
        for device in self._devices.values():
            os.close(device)
        self._listener.close()
        self._path.unlink()

    def within(self, name: str) -> list[str]:
        """What to put before a command so that it runs at the end of a line of its own."""
        address = self._addresses.setdefault(name, f"10.77.0.{len(self._addresses) + 1}")
        return [*_unshare(), sys.executable, __file__, str(self._path), address]

    def _route(self) -> None:
        with contextlib.suppress(OSError):  # before others, if we may: we are the wire
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), -15)
        while not self._ended:
            now = time.monotonic()
            due = [way.packets[0][0] for way in self._ways.values() if way.packets]
            wait = max(0.0, min([*due, now + 0.1]) - _EARLY - now)
            watched: list[Any] = [self._listener, *self._devices.values()]
            ready = select.select(watched, [], [], wait)[0]
            for address, device in list(self._devices.items()):
                if device in ready:
                    self._take(address, device)
            if self._listener in ready:
                self._accept()
            self._deliver()
            self.seconds = time.thread_time()

    def _accept(self) -> None:
        """A process hands over its device; a restarted one replaces what it had."""
        connection, _ = self._listener.accept()
        with connection:
            address, (device,), _, _ = socket.recv_fds(connection, 4, 1)
            os.set_blocking(device, False)
            self._forget(address)
            self._devices[address] = device
            connection.sendall(b".")

    def _forget(self, address: bytes) -> None:
        if address in self._devices:
            os.close(self._devices.pop(address))
            self._ways = {ends: way for ends, way in self._ways.items() if address not in ends}

    def _take(self, address: bytes, device: int) -> None:
        try:
            for _ in range(64):
                packet = os.read(device, _LARGEST)
                ends = packet[_SOURCE], packet[_DESTINATION]
                if ends[1] not in self._devices:
                    continue
                way = self._ways.get(ends)
                if way is None:
                    way = self._ways[ends] = _Way(self._devices[ends[1]])
                begin = max(time.monotonic(), way.free)
                way.free = begin + len(packet) / self.rate
                way.packets.append((way.free + self.delay, packet))
        except BlockingIOError:
            pass
        except OSError:  # the process has ended, and its namespace with it
            self._forget(address)

    def _deliver(self) -> None:
        for way in self._ways.values():
            while way.packets and way.packets[0][0] - _EARLY <= time.monotonic():
                # A device whose process has ended, or whose queue is full, loses the packet.
                with contextlib.suppress(OSError):
                    os.write(way.to, way.packets[0][1])
                way.packets.popleft()


def _unshare() -> list[str]:
    command = shutil.which("unshare")
    if command is None:
        raise NotPermitted("the command `unshare` is missing")
    return [command, "--net"] if os.geteuid() == 0 else [command, "--user", "-r", "--net"]


def check_permitted() -> None:
    """Raise NotPermitted if there can be no lines here."""
    program = f"import sys; sys.path.insert(0, {str(Path(__file__).parents[1])!r}); "
    program += "from benchmarks import line; line._device('10.77.0.9')"
    command = [*_unshare(), sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise NotPermitted(f"no TUN device in a network namespace: {reason}")


def _device(address: str) -> int:
    """Make the only device of this namespace, and send everything its way."""
    ip = shutil.which("ip", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if ip is None:
        raise NotPermitted("the command `ip` is missing")
    device = os.open("/dev/net/tun", os.O_RDWR)
    request = struct.pack("16sH22x", b"line", _TUN | _NO_PI | _VNET_HDR)
    fcntl.ioctl(device, _SETIFF, request)
    fcntl.ioctl(device, _SETOFFLOAD, _CHECKSUM | _TSO4)
    for arguments in (
        ["link", "set", "lo", "up"],
        ["address", "add", f"{address}/24", "dev", "line"],
        ["link", "set", "line", "up", "txqueuelen", "10000"],
        # The usual congestion control, whatever this machine has been set to.
        ["route", "change", "10.77.0.0/24", "dev", "line", "src", address, "congctl", "cubic"],
    ):
        subprocess.run([ip, *arguments], check=True, capture_output=True)
    return device


def main() -> None:
    """Inside a fresh namespace: make the device, hand it over, become the command."""
    path, address, *command = sys.argv[1:]
    device = _device(address)
    with socket.socket(socket.AF_UNIX) as router:
        router.connect(path)
        socket.send_fds(router, [socket.inet_aton(address)], array.array("i", [device]))
        router.recv(1)
    os.close(device)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()

"""The hub: the only machine with an open port. It relays, and knows who is there.

What passes through it is encrypted between the parties, so it can read nothing and forge nothing;
it can only fail to deliver, which the parties notice. Each connection of a party has a number.
Data is addressed to a connection, not only to a name: what was meant for a connection that is gone
is dropped, and never reaches the party's next one.

Memory is bounded: `QUEUE` bytes wait for one connection, and a frame more. Who sends to a full one
waits, and so does its TCP connection. Who has not said who it is waits in the `Lobby`.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import signal
import socket
import ssl
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TextIO

from securefedyj.errors import ProtocolError
from securefedyj.network import tls
from securefedyj.network.consortium import Consortium, ConsortiumError
from securefedyj.network.frames import MAX_BODY, Frame, Reader, Type, Writer
from securefedyj.network.identity import Identity, fingerprint, fingerprint_of_der
from securefedyj.network.lobby import GRACE, Lobby, MadeRoom, heard, secured
from securefedyj.network.outbox import Outbox
from securefedyj.party.messages import VERSION
from securefedyj.printable import printable_lines, shown
from securefedyj.strict import check_fields, parse

QUEUE = 1 << 18  # bytes that wait for one connection
SILENCE = 20.0  # seconds; a party sends PING more often
HELLO = 1 << 12  # bytes of the first frame
BACKLOG = 512  # connections that the system holds until we look
_READ = 1 << 16

Log = Callable[..., None]


def log_line(event: str, **fields: object) -> None:
    """One line for a person and a script: time, event, key=value. Never contents."""
    write_line(sys.stderr, event, **fields)


def write_line(stream: TextIO, event: str, **fields: object) -> None:
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    pairs = " ".join(f"{key}={json.dumps(value)}" for key, value in fields.items())
    print(printable_lines(f"{moment} {event} {pairs}".rstrip()), file=stream, flush=True)


class _Refused(Exception):
    """A connection that may not stay; the sentence is told to it and logged."""


@dataclass
class _Traffic:
    frames: int = 0
    bytes: int = 0

    def count(self, frame: Frame) -> None:
        self.frames += 1
        self.bytes += len(frame.body)


@dataclass
class _Connection:
    """A party that is there."""

    room: _Room
    name: str
    number: int
    outbox: Outbox = field(default_factory=lambda: Outbox(QUEUE))
    received: _Traffic = field(default_factory=_Traffic)
    sent: _Traffic = field(default_factory=_Traffic)


@dataclass
class _Room:
    """One consortium, and who of it is there."""

    consortium: Consortium
    present: dict[str, _Connection] = field(default_factory=dict)

    async def tell(self, about: _Connection, kind: Type) -> None:
        for name, other in list(self.present.items()):
            if name != about.name:
                await other.outbox.put_notice(Frame(kind, about.name, about.number))


class _Introduced(NamedTuple):
    """A party that has said who it is, and its line."""

    room: _Room
    name: str
    frames: AsyncIterator[Frame]
    numbered: Writer


class Hub:
    """Serves several consortia on one port.

    Parameters
    ----------
    consortia
        The agreed files, with distinct names.
    identity
        Key and certificate of the hub. The certificate is the one in the agreed files.
    log
        Called with an event and its fields.
    """

    def __init__(
        self, consortia: Sequence[Consortium], identity: Identity, log: Log = log_line
    ) -> None:
        self._rooms = {consortium.name: _Room(consortium) for consortium in consortia}
        if len(self._rooms) != len(consortia):
            raise ValueError("Two of the files have the same consortium name; rename one.")
        pem = identity.certificate.read_text(encoding="ascii")
        for consortium in consortia:
            if fingerprint(consortium.agreed_hub().certificate) != fingerprint(pem):
                raise ValueError(
                    f"{identity.certificate} is not the hub's certificate in the file of "
                    f"{consortium.name!r}: no party would accept this hub."
                )
        trusted = {party.certificate for one in consortia for party in one.parties}
        self._tls = tls.context(identity, trusted, server_side=True, kind=tls.AlertingContext)
        self._log = log
        self._numbers = itertools.count(1)
        self._lobby = Lobby()
        self._tasks: set[asyncio.Task[None]] = set()
        self._listener: socket.socket | None = None
        self._listening: asyncio.Task[None] | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen; return the port, which the system chooses if 0 was asked for."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            self._listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
        except OSError as error:
            reason = tls.described(error).partition(" (while")[0]
            raise OSError(
                f"The hub cannot listen on {host}:{port} ({reason}): choose another address with "
                "--listen, or end what uses this one."
            ) from None
        self._listener.setblocking(False)
        found = int(self._listener.getsockname()[1])
        self._listening = asyncio.create_task(self._listen(self._listener))
        self._log("listening", host=host, port=found, consortia=list(self._rooms))
        for room in self._rooms.values():
            try:
                room.consortium.check_clock(time.time())
            except ConsortiumError as error:
                self._log("trouble", consortium=room.consortium.name, reason=str(error))
        return found

    async def stop(self) -> None:
        """Tell the parties, and close."""
        if self._listening is not None and self._listener is not None:
            self._listening.cancel()
            self._listener.close()
        body = b"The hub is about to stop."
        for room in self._rooms.values():
            for connection in list(room.present.values()):
                await connection.outbox.put_notice(Frame(Type.CLOSING, body=body))
                await connection.outbox.close()
        if self._tasks:
            _, pending = await asyncio.wait(self._tasks, timeout=1.0)
            for task in pending:
                task.cancel()
            await asyncio.gather(*pending, return_exceptions=True)
        self._log("stopped")

    async def _listen(self, listener: socket.socket) -> None:
        """Accept connections by hand: asyncio's own server tells nobody whom TLS has refused."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                line, address = await loop.sock_accept(listener)
            except OSError as error:  # such as too many open files
                self._log("trouble", reason=tls.described(error))
                await asyncio.sleep(0.2)
                continue
            task = asyncio.create_task(self._accept(line, str(address[0])))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _accept(self, line: socket.socket, address: str) -> None:
        writer: asyncio.StreamWriter | None = None
        try:
            async with self._lobby.enter(address) as guest:
                async with asyncio.timeout(GRACE):  # wait_for may swallow a cancellation
                    await heard(line)
                    await self._lobby.turn(guest)
                async with asyncio.timeout(GRACE):
                    reader, writer = await secured(line, self._tls)
                    party = await self._introduced(reader, writer)
            await self._serve(party, writer, address)
        except TimeoutError:
            self._log("refused", address=address, reason="it did not say in time who it is")
        except (OSError, EOFError, ProtocolError, MadeRoom, _Refused) as error:
            self._log("refused", address=address, reason=tls.described(error))
        finally:
            if writer is None:
                line.close()
            else:
                writer.close()
                with contextlib.suppress(Exception):
                    async with asyncio.timeout(GRACE):
                        await writer.wait_closed()

    async def _introduced(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> _Introduced:
        """Who this is, by its first frame and its certificate."""
        bounded, numbered = Reader("this connection", HELLO), Writer()
        frames = _incoming(reader, bounded)
        try:
            hello = await anext(frames)
            room, name = self._identified(hello, writer)
        except StopAsyncIteration:
            raise _Refused("it left without a word") from None
        except _Refused as error:
            writer.write(numbered.encode(Frame(Type.REFUSED, body=str(error).encode())))
            await writer.drain()
            raise
        bounded.most = MAX_BODY
        return _Introduced(room, name, frames, numbered)

    async def _serve(self, party: _Introduced, writer: asyncio.StreamWriter, address: str) -> None:
        room, name, frames, numbered = party
        connection = await self._enter(room, name)
        self._log("connected", consortium=room.consortium.name, party=name, address=address,
                  connection=connection.number)  # fmt: skip
        sender = asyncio.create_task(self._send(connection, writer, numbered))
        receiver = asyncio.create_task(self._receive(connection, frames))
        try:
            await asyncio.wait({sender, receiver}, return_when=asyncio.FIRST_COMPLETED)
            if sender.done() and sender.exception() is not None:
                # The line is gone; what came before that, say the news of a result, goes on.
                await asyncio.wait({receiver}, timeout=GRACE)
            reason = _reason(sender, receiver)
        except asyncio.CancelledError:
            reason = "the hub stopped"
        finally:
            await self._leave(connection)
            sender.cancel()
            receiver.cancel()
            await asyncio.gather(sender, receiver, return_exceptions=True)
        self._log("left", consortium=room.consortium.name, party=name,
                  connection=connection.number, reason=reason,
                  frames_received=connection.received.frames,
                  bytes_received=connection.received.bytes, frames_sent=connection.sent.frames,
                  bytes_sent=connection.sent.bytes)  # fmt: skip

    def _identified(self, hello: Frame, writer: asyncio.StreamWriter) -> tuple[_Room, str]:
        """Who this is: the name it claims must be that of its certificate."""
        connection: ssl.SSLObject = writer.get_extra_info("ssl_object")
        der = connection.getpeercert(binary_form=True)
        actual = "none" if der is None else fingerprint_of_der(der)
        try:
            said = parse(hello.body, HELLO)
            names = {key: said[key] for key in ("consortium", "party")}
            wanted, name = check_fields(names, dict.fromkeys(names, str), "it").values()
        except (ValueError, KeyError, TypeError):
            raise _Refused("The first frame does not say which party this is.") from None
        room = self._rooms.get(wanted)
        if hello.type != Type.HELLO or room is None:
            raise _Refused(
                f"The hub does not serve a consortium named {shown(wanted)}; ask its operator to "
                "start it with our consortium.toml."
            )
        known = {party.name: party.fingerprint for party in room.consortium.parties}
        if known.get(name) != actual:
            raise _Refused(
                f"The certificate ({actual}) is not the one of party {shown(name)} in the hub's "
                f"file of {wanted!r}; it needs the same consortium.toml, and a restart."
            )
        check_same(room.consortium, said)
        return room, name

    async def _enter(self, room: _Room, name: str) -> _Connection:
        connection = _Connection(room, name, next(self._numbers))
        previous = room.present.pop(name, None)
        if previous is not None:
            sentence = f"Another process has joined as {name}; this one must stop."
            await previous.outbox.put_notice(Frame(Type.REFUSED, body=sentence.encode()))
            await previous.outbox.close()
            await room.tell(previous, Type.LEFT)
        await connection.outbox.put_notice(Frame(Type.WELCOME, name, connection.number))
        for other in room.present.values():
            await connection.outbox.put_notice(Frame(Type.PRESENT, other.name, other.number))
        room.present[name] = connection
        await room.tell(connection, Type.PRESENT)
        return connection

    async def _leave(self, connection: _Connection) -> None:
        room = connection.room
        await connection.outbox.close()
        if room.present.get(connection.name) is connection:
            del room.present[connection.name]
            await room.tell(connection, Type.LEFT)

    async def _receive(self, connection: _Connection, frames: AsyncIterator[Frame]) -> None:
        """Relay what the party sends; the sender's name is the hub's to write."""
        async for frame in frames:
            connection.received.count(frame)
            if frame.type == Type.PING:
                await connection.outbox.put_notice(Frame(Type.PONG))
            elif frame.type == Type.DATA:
                other = connection.room.present.get(frame.name)
                if other is not None and other.number == frame.connection:
                    await other.outbox.put(
                        Frame(Type.DATA, connection.name, connection.number, frame.body)
                    )
            else:
                raise ProtocolError(f"A party does not send {frame.type.name}.")

    async def _send(
        self, connection: _Connection, writer: asyncio.StreamWriter, numbered: Writer
    ) -> None:
        async for frame in connection.outbox.frames():
            if writer.is_closing():  # nobody reads it any more; the receiver says why
                continue
            connection.sent.count(frame)
            writer.write(numbered.encode(frame))
            await writer.drain()


def check_same(consortium: Consortium, said: dict[str, Any]) -> None:
    """Say early what the peers would find out; they do not rely on the hub for it."""
    version, digest = said.get("version", VERSION), str(said.get("digest", consortium.digest()))
    if version != VERSION:
        raise _Refused(
            f"This party speaks protocol version {shown(version)}, the hub speaks version "
            f"{VERSION}; install the same release everywhere."
        )
    if digest != consortium.digest():
        raise _Refused(
            "This party's consortium.toml is not the hub's: its digest begins "
            f"{shown(digest[:16])}, the hub's {consortium.digest()[:16]!r}. Use the same file "
            "everywhere (`securefedyj check` shows the digest), and restart the hub if its file "
            "was the old one."
        )


async def _incoming(reader: asyncio.StreamReader, frames: Reader) -> AsyncIterator[Frame]:
    """Frames as they come; silence is the end, too."""
    while True:
        async with asyncio.timeout(SILENCE):
            data = await reader.read(_READ)
        if not data:
            frames.end()
            return
        for frame in frames.feed(data):
            yield frame


def _reason(sender: asyncio.Task[None], receiver: asyncio.Task[None]) -> str:
    for task in (receiver, sender):
        if task.done():
            error = task.exception()
            if isinstance(error, TimeoutError):
                return f"nothing was heard from it for {SILENCE:g} seconds"
            if isinstance(error, (OSError, ProtocolError)):
                return tls.described(error)
            if error is not None:
                return f"error of the hub: {type(error).__name__}: {error}"
            return "it closed the connection" if task is receiver else "the hub closed it"
    return "unknown"


def _trouble(found: dict[str, Any]) -> str:
    return f"{found['message']}: {type(found.get('exception')).__name__}"


async def serve(
    consortia: Sequence[Consortium], identity: Identity, host: str, port: int, log: Log = log_line
) -> None:
    """Run a hub until SIGINT or SIGTERM."""
    hub = Hub(consortia, identity, log)
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    # Such as a connection that asyncio finds reset twice: a line, and the others go on.
    loop.set_exception_handler(lambda loop, found: log("trouble", reason=_trouble(found)))
    await hub.start(host, port)
    await stopped.wait()
    await hub.stop()

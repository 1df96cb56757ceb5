"""The hub: the only machine with an open port. It relays, and knows which parties are connected.

The parties encrypt what passes through it, so it can read nothing and forge nothing; it can only
fail to deliver, which the parties notice. Each connection of a party has a number. Data is
addressed to a connection, not only to a name: data for a connection that is gone is dropped, and
never reaches the party's next one.

Memory is bounded: `QUEUE` bytes wait for one connection, and a frame more. A party that sends to a
full one waits, and so does its TCP connection. Connections that have not identified themselves wait
in the `Lobby`.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import signal
import socket
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from functools import partial
from pathlib import Path

from securefedyj.errors import ProtocolError
from securefedyj.network.consortium import Consortium, ConsortiumError
from securefedyj.network.hub.agreed_files import AgreedFiles
from securefedyj.network.hub.consortia import (
    HELLO,
    Connection,
    HubRefusal,
    Room,
    Served,
)
from securefedyj.network.hub.limits import GRACE, Lobby, MadeRoom, heard, secured
from securefedyj.network.hub.mailbox import MailFolder, Visit, open_mailbox
from securefedyj.network.hub.status import StatusServer
from securefedyj.network.identity import Identity, fingerprint_of_der
from securefedyj.network.log import EventLog, Throttle, log_line
from securefedyj.network.transport import tls
from securefedyj.network.transport.addresses import listeners, plain_address
from securefedyj.network.transport.framing import (
    MAX_FRAME_BODY,
    FrameReader,
    FrameType,
    FrameWriter,
    Hello,
    HubFrame,
)

SILENCE = 20.0  # seconds; a party sends PING more often
LOOK_EVERY = 1.0  # seconds between two looks at folders
BACKLOG = 512  # connections that the system holds until we look
_READ = 1 << 16
_CLOSED = ("it closed the connection", "the hub closed it")


class HubServer:
    """Serves several consortia on one port; `log` gets each event and its fields."""

    def __init__(
        self,
        consortia: Sequence[Consortium],
        identity: Identity,
        log: EventLog = log_line,
        mailbox: Path | None = None,
    ) -> None:
        self.served = Served(consortia, identity)
        self._log, self._mailbox = log, mailbox
        if mailbox is not None:
            open_mailbox(mailbox)
        self._open_folders(self.served.rooms.values())
        self._numbers = itertools.count(1)
        self._lobby = Lobby()
        self._tasks: set[asyncio.Task[None]] = set()
        self._throttles: dict[str, Throttle] = {}  # by party; one for all strangers
        self._listeners: list[socket.socket] = []
        self._listening: list[asyncio.Task[None]] = []

    async def start(self, host: str, port: int) -> int:
        """Listen, on all interfaces if the host is "*"; return the port (0: the system chooses)."""
        self._listeners = listeners(host, port, BACKLOG, "The hub", "--listen")
        found = int(self._listeners[0].getsockname()[1])
        self._listening = [asyncio.create_task(self._listen(one)) for one in self._listeners]
        self._log("listening", host=host, port=found, consortia=list(self.served.rooms))
        self._check_clock(self.served.rooms.values())
        return found

    def update(self, consortia: Sequence[Consortium]) -> None:
        """Serve these consortia from now on; the parties of the others notice nothing."""
        new, ended = self.served.update(consortia)
        for room in ended:
            self._log("ended", consortium=room.consortium.name)
        for room in new:
            self._log("serving", consortium=room.consortium.name)
        self._open_folders(new)
        self._check_clock(new)

    def _open_folders(self, rooms: Iterable[Room]) -> None:
        """Look for what silos have submitted."""
        for room in rooms:
            if self._mailbox is not None and room.consortium.submitted:
                room.mail = MailFolder(self._mailbox, room.consortium)
                for name, moment in room.mail.times().items():
                    room.status[name].submitted = moment

    def _check_clock(self, rooms: Iterable[Room]) -> None:
        for room in rooms:
            try:
                room.consortium.check_clock(time.time())
            except ConsortiumError as error:
                self._log("trouble", consortium=room.consortium.name, reason=str(error))

    async def drain(self) -> None:
        """Let nobody in any more, and wait until no consortium has all its parties here.

        What ends a session is an interruption, and without all parties there is none.
        """
        self._close()
        rooms, before = self.served.rooms, None
        while under_way := [name for name in rooms if rooms[name].complete]:
            if under_way != before:
                self._log("draining", consortia=under_way)
            before = under_way
            await asyncio.sleep(LOOK_EVERY)

    def _close(self) -> None:
        for task in self._listening:
            task.cancel()
        for listener in self._listeners:
            listener.close()

    async def stop(self) -> None:
        """Tell the parties, and close."""
        self._close()
        for room in self.served.rooms.values():
            for connection in room.present.values():
                connection.end(FrameType.CLOSING)
        if self._tasks:
            _, pending = await asyncio.wait(self._tasks, timeout=1.0)
            for task in pending:
                task.cancel()
            await asyncio.gather(*pending, return_exceptions=True)
        self._log("stopped")

    async def _listen(self, listener: socket.socket) -> None:
        """Accept connections by hand: asyncio's own server does not report those TLS refuses."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                line, address = await loop.sock_accept(listener)
            except OSError as error:  # such as too many open files
                self._log("trouble", reason=tls.described(error))
                await asyncio.sleep(0.2)
                continue
            task = asyncio.create_task(self._accept(line, plain_address(str(address[0]))))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _accept(self, line: socket.socket, address: str) -> None:
        writer: asyncio.StreamWriter | None = None
        der = b""
        try:
            async with self._lobby.enter(address) as guest:
                async with asyncio.timeout(GRACE):  # wait_for may swallow a cancellation
                    await heard(line)
                    await self._lobby.turn(guest)
                async with asyncio.timeout(GRACE):
                    reader, writer = await secured(line, self.served.tls)
                    der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
                    room, hello, frames, numbered = await self._introduced(reader, writer, der)
            if hello.look:
                for frame in room.seen():
                    writer.write(numbered.encode(frame))
                await writer.drain()
                return
            if hello.mailbox and room.mail is not None:
                log = partial(self._log_some, f"the mail of {hello.party} of {hello.consortium!r}")
                await Visit(room, room.mail, hello.party, frames, writer, numbered, log).run()
                return
            connection = room.enter(hello.party, next(self._numbers))
            await self._serve(connection, address, frames, writer, numbered)
        except TimeoutError:
            self._log_refusal(address, "it did not identify itself in time", der)
        except (OSError, EOFError, ValueError, ProtocolError, MadeRoom, HubRefusal) as error:
            # A ValueError is from a TLS session that broke right after the handshake.
            if refused := tls.shown_certificate(error):
                self.served.tell_of_unknown(refused)
            self._log_refusal(address, tls.described(error), der or refused)
        finally:
            if writer is None:
                line.close()
            else:
                writer.close()
                with contextlib.suppress(Exception):
                    async with asyncio.timeout(GRACE):
                        await writer.wait_closed()

    async def _introduced(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, der: bytes
    ) -> tuple[Room, Hello, AsyncIterator[HubFrame], FrameWriter]:
        """Identify a party by its first frame and its certificate; tell it if it is refused."""
        bounded, numbered = FrameReader("this connection", HELLO), FrameWriter()
        frames = _incoming(reader, bounded)
        try:
            room, hello = self.served.identified(await anext(frames), der)
            if hello.mailbox and room.mail is None:
                raise HubRefusal(
                    "SFY-HUB-023",
                    f"The hub has no mailbox for {hello.consortium!r}: send the file by another "
                    "way, or ask the hub's operator to start it with --mailbox.",
                )
        except StopAsyncIteration:
            raise HubRefusal("SFY-HUB-001", "it closed the connection at once") from None
        except HubRefusal as error:
            last = HubFrame(FrameType.REFUSED, body=str(error).encode())
            writer.write(numbered.encode(last))
            await writer.drain()
            raise
        bounded.most = MAX_FRAME_BODY
        return room, hello, frames, numbered

    def _log_refusal(self, address: str, reason: str, der: bytes) -> None:
        """Log a line that names the party, by its certificate."""
        party = self.served.owner(der) if der else ""
        known = {"party": party} if party else {}
        shown = {"certificate": fingerprint_of_der(der)} if der else {}
        self._log_some(party, "refused", address=address, **known, **shown, reason=reason)

    def _log_some(self, about: str, event: str, **fields: object) -> bool:
        """Log a line unless there are many about this party; return whether that was done."""
        now = asyncio.get_running_loop().time()
        throttle = self._throttles.setdefault(about, Throttle(now))
        if logged := throttle.lets_through(now):
            self._log(event, **fields, **throttle.left_out())
        return logged

    async def _serve(
        self,
        connection: Connection,
        address: str,
        frames: AsyncIterator[HubFrame],
        writer: asyncio.StreamWriter,
        numbered: FrameWriter,
    ) -> None:
        room, name = connection.room, connection.name
        about = {"consortium": room.consortium.name, "party": name}
        party, number = f"{name} of {room.consortium.name!r}", connection.number
        logged = self._log_some(party, "connected", **about, address=address, connection=number)
        sender = asyncio.create_task(
            connection.outbox.send_to(writer, numbered, connection.count_sent)
        )
        receiver = asyncio.create_task(_receive(connection, frames))
        try:
            await asyncio.wait({sender, receiver}, return_when=asyncio.FIRST_COMPLETED)
            if sender.done() and sender.exception() is not None:
                # The line is gone; what came before, such as the news of a result, is relayed.
                await asyncio.wait({receiver}, timeout=GRACE)
            reason = _reason(sender, receiver)
        except asyncio.CancelledError:
            reason = "the hub stopped"
        finally:
            room.leave(connection)
            sender.cancel()
            receiver.cancel()
            await asyncio.gather(sender, receiver, return_exceptions=True)
        if logged:
            traffic = vars(connection.traffic)
            self._log("left", **about, connection=number, reason=reason, **traffic)
        if reason not in _CLOSED and name not in room.present:
            room.tell_all(f"Party {name} was lost: {reason}.")


async def _receive(connection: Connection, frames: AsyncIterator[HubFrame]) -> None:
    """Relay what the party sends; the hub writes the sender's name."""
    async for frame in frames:
        connection.count_received(frame)
        if frame.type == FrameType.PING:
            connection.notify(FrameType.PONG)
        elif frame.type == FrameType.DATA:
            other = connection.room.present.get(frame.name)
            if other is not None and other.number == frame.connection:
                await other.outbox.put(
                    HubFrame(FrameType.DATA, connection.name, connection.number, frame.body)
                )
        else:
            raise ProtocolError("SFY-HUB-002", f"A party does not send {frame.type.name}.")


async def _incoming(reader: asyncio.StreamReader, frames: FrameReader) -> AsyncIterator[HubFrame]:
    """Frames as they come; raises TimeoutError after `SILENCE` seconds without any."""
    while True:
        async with asyncio.timeout(SILENCE):
            data = await reader.read(_READ)
        if not data:
            frames.end()
            return
        for frame in frames.feed(data):
            yield frame


def _reason(sender: asyncio.Task[None], receiver: asyncio.Task[None]) -> str:
    """Why a connection is over; one of its tasks is done."""
    task = receiver if receiver.done() else sender
    error = task.exception()
    if isinstance(error, TimeoutError):
        return f"it sent nothing for {SILENCE:g} seconds"
    if isinstance(error, (OSError, ProtocolError)):
        return tls.described(error)
    if error is not None:
        return f"error of the hub: {type(error).__name__}: {error}"
    return _CLOSED[task is sender]


async def serve(
    consortia: Sequence[Consortium],
    files: AgreedFiles,
    identity: Identity,
    listen: tuple[str, int],
    status: tuple[str, int] | None,
    mailbox: Path | None,
    log: EventLog,
    drain: float,
) -> None:
    """Run a hub until SIGINT or SIGTERM; at SIGHUP the files are read again.

    At the first signal runs have up to `drain` seconds to end, and a second signal ends that.
    """
    hub = HubServer(consortia, identity, log, mailbox)
    stopped, again = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    loop.add_signal_handler(signal.SIGHUP, again.set)
    # Such as a connection that asyncio finds reset twice: log it, and serve the others.
    loop.set_exception_handler(
        lambda loop, found: log(
            "trouble", reason=f"{found['message']}: {type(found.get('exception')).__name__}"
        )
    )
    page = StatusServer(lambda: hub.served.rooms.values())
    await hub.start(*listen)
    try:
        if status is not None:
            log("status", host=status[0], port=await page.start(*status))
        watching = asyncio.create_task(watch(files, hub, again, log))
        await stopped.wait()
        watching.cancel()
        if drain:
            stopped.clear()
            ends = {asyncio.create_task(hub.drain()), asyncio.create_task(stopped.wait())}
            await asyncio.wait(ends, timeout=drain, return_when=asyncio.FIRST_COMPLETED)
            for task in ends:
                task.cancel()
    finally:
        await page.stop()
        await hub.stop()


async def watch(files: AgreedFiles, hub: HubServer, again: asyncio.Event, log: EventLog) -> None:
    """Let the hub serve what the files contain, when asked to and when a folder has changed.

    A change counts when it has lasted from one look to the next: a file that is being copied is
    half there at first, and half of a list of parties is a list of parties.
    """
    known = last = files.state()
    while True:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOK_EVERY):
                await again.wait()
        try:
            now = files.state()
            if again.is_set() or now == last != known:
                again.clear()
                known = now
                consortia, troubles = await asyncio.to_thread(files.read)
                for trouble in troubles:
                    log("trouble", reason=trouble.sentence)
                hub.update(consortia)
            last = now
        except Exception as error:  # the hub keeps what it has
            log("trouble", reason=f"the files could not be read: {type(error).__name__}")

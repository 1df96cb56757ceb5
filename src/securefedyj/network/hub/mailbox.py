"""The hub's mailbox: submissions and results, on its disk until the members have computed.

A submission is sealed for the members and signed by its silo, and a result is signed by a member:
the hub can read no submission, and forge neither. For each run there is a folder, named after the
digest of the agreed file:

    FOLDER/DIGEST/SILO.submission
    FOLDER/DIGEST/MEMBER.result

The hub takes one file from each who may send it, up to a size that follows from the agreed file.
A file is received piece by piece, and gets its name when all of it is on the disk. When all members
have sent their results, nobody needs the submissions any more, and the hub deletes them. Results
stay until the operator deletes the folder.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import TypeVar, TypeVarTuple

import msgspec

from securefedyj.errors import ProtocolError
from securefedyj.files import replacing
from securefedyj.network.consortium import Consortium
from securefedyj.network.hub.consortia import HubRefusal, Room
from securefedyj.network.mailbox import largest_mail
from securefedyj.network.transport.framing import (
    MAX_FRAME_BODY,
    RESULT,
    SUBMISSION,
    WINDOW,
    FrameType,
    FrameWriter,
    HubFrame,
    Item,
    MailKind,
)
from securefedyj.strict import Malformed, convert, parse

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

MOST_VISITS = 2  # connections of one party; a third ends the first
STALLED = 20.0  # seconds for a party to take a piece
_LEFT_OVER = "*/.????????.*"  # uploads that ended with the hub; see `files.replacing`


def open_mailbox(folder: Path) -> None:
    """Make the folder, for its owner alone, and remove what a killed hub has left of uploads."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for path in folder.glob(_LEFT_OVER):
        path.unlink(missing_ok=True)


class MailFolder:
    """The files of one run."""

    def __init__(self, folder: Path, consortium: Consortium) -> None:
        self._folder = folder / consortium.digest()
        self._consortium = consortium
        self._senders = {
            SUBMISSION: tuple(party.name for party in consortium.silos),
            RESULT: consortium.committee,
        }
        self._naming = threading.Lock()
        self.visits: dict[str, list[asyncio.Task[None]]] = {}
        self.tidy()

    def times(self) -> dict[str, float | None]:
        """When the submission of each silo was stored, in seconds since 1970."""
        return {name: self.submitted(name) for name in self._senders[SUBMISSION]}

    def submitted(self, name: str) -> float | None:
        """When the submission of a silo was stored, in seconds since 1970."""
        path = self._path(SUBMISSION, name)
        return path.stat().st_mtime if path.exists() else None

    @property
    def missing(self) -> tuple[str, ...]:
        """The silos that have not submitted, unless the run is finished."""
        if self.finished:
            return ()
        return tuple(one for one in self._senders[SUBMISSION] if self.submitted(one) is None)

    @property
    def finished(self) -> bool:
        """Whether all members have sent their results."""
        return all(self._path(RESULT, name).exists() for name in self._senders[RESULT])

    def items(self) -> list[Item]:
        """What is there."""
        return [
            Item(kind, name, path.stat().st_size)
            for kind, names in self._senders.items()
            for name in names
            if (path := self._path(kind, name)).exists()
        ]

    def place_for(self, item: Item, name: str) -> Path:
        """The path of a file that a party wants to send; raises HubRefusal if it may not."""
        if item.sender != name or name not in self._senders[item.kind]:
            raise HubRefusal(
                "SFY-HUB-012", f"{name} cannot send the {item.kind} of {item.sender!r}."
            )
        if item.kind == SUBMISSION and self.finished:
            raise HubRefusal(
                "SFY-HUB-013", "This run is finished; `securefedyj result` fetches its result."
            )
        if item.size > (most := self._most[item.kind, name]):
            raise HubRefusal(
                "SFY-HUB-014",
                f"A {item.kind} has at most {most} bytes under this agreed file, and this one has "
                f"{item.size}.",
            )
        self._folder.mkdir(mode=0o700, exist_ok=True)
        return self._path(item.kind, name)

    def place_of(self, item: Item, name: str) -> Path:
        """The path of a file that a party asks for; raises HubRefusal if it may not, or is gone."""
        if item.kind == SUBMISSION and name not in self._senders[RESULT]:
            raise HubRefusal("SFY-HUB-015", "Only members of the committee can fetch submissions.")
        if item not in self.items():
            raise HubRefusal(
                "SFY-HUB-016", f"The {item.kind} of {item.sender!r} is no longer in the mailbox."
            )
        return self._path(item.kind, item.sender)

    def holds(self, path: Path, sha256: str) -> bool:
        """Whether a file is there; raises HubRefusal if there is another one in its place."""
        try:
            with open(path, "rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
        except FileNotFoundError:
            return False
        if found != sha256:
            raise HubRefusal(
                "SFY-HUB-017",
                f"The hub has another {path.suffix[1:]} of {path.stem!r} for this agreed file, and "
                "keeps that one. Send the file that was sent first; a correction needs a new "
                "agreed file.",
            )
        return True

    def keep(self, path: Path, sha256: str, whole: ExitStack) -> None:
        """Give a file that was received its name, unless another one has it by now."""
        with self._naming, whole:
            self.holds(path, sha256)
        self.tidy()

    def tidy(self) -> None:
        """Delete the submissions of a finished run."""
        if self.finished:
            for name in self._senders[SUBMISSION]:
                self._path(SUBMISSION, name).unlink(missing_ok=True)

    def _path(self, kind: str, name: str) -> Path:
        return self._folder / f"{name}.{kind}"

    @cached_property
    def _most(self) -> dict[tuple[MailKind, str], int]:
        """The most bytes of a file."""
        return largest_mail(self._consortium)


class Visit:
    """One connection of a party to the mailbox."""

    def __init__(
        self,
        room: Room,
        folder: MailFolder,
        name: str,
        frames: AsyncIterator[HubFrame],
        writer: asyncio.StreamWriter,
        numbered: FrameWriter,
        log: Callable[..., object],
    ) -> None:
        self._room, self._folder, self._name, self._log = room, folder, name, log
        self._frames, self._writer, self._numbered = frames, writer, numbered

    async def run(self) -> None:
        """Serve the party until it leaves."""
        task = asyncio.current_task()
        assert task is not None
        visits = self._folder.visits.setdefault(self._name, [])
        visits.append(task)
        if len(visits) > MOST_VISITS:
            visits[0].cancel()
        try:
            await self._send(FrameType.WELCOME)
            async for frame in self._frames:
                self._room.check_open()
                await self._answer(frame)
        except TimeoutError:
            raise ProtocolError("SFY-HUB-022", "it sent or took nothing for too long") from None
        except HubRefusal as error:
            await self._send(FrameType.REFUSED, str(error).encode())
            raise
        finally:
            visits.remove(task)

    async def _answer(self, frame: HubFrame) -> None:
        match frame.type:
            case FrameType.PING:
                await self._send(FrameType.PONG)
            case FrameType.LIST:
                for item in self._folder.items():
                    await self._send(FrameType.LIST, msgspec.json.encode(item))
                await self._send(FrameType.LIST)
            case FrameType.PUT:
                await self._take(_item(frame))
            case FrameType.GET:
                await self._give(_item(frame))
            case _:
                raise ProtocolError("SFY-HUB-024", f"This is no request: {frame.type.name}.")

    async def _take(self, item: Item) -> None:
        path = await self._on_disk(self._folder.place_for, item, self._name)
        if not await self._on_disk(self._folder.holds, path, item.sha256):
            await self._receive(item, path)
            if item.kind == SUBMISSION:
                self._room.status[self._name].submitted = self._folder.submitted(self._name)
            self._note("stored", item)
        await self._send(FrameType.STORED)

    async def _receive(self, item: Item, path: Path) -> None:
        digest = hashlib.sha256()
        with ExitStack() as received:
            made = replacing(path, private=True)
            temporary = await self._on_disk(received.enter_context, made)
            file = received.enter_context(open(temporary, "wb"))
            for start in range(0, item.size, WINDOW):
                piece = await self._window(min(WINDOW, item.size - start))
                digest.update(piece)
                await self._on_disk(file.write, piece)
            if digest.hexdigest() != item.sha256:
                raise ProtocolError("SFY-HUB-018", "What came has another SHA-256 than announced.")
            await self._on_disk(self._folder.keep, path, item.sha256, received.pop_all())

    async def _window(self, size: int) -> bytes:
        """Ask for the next bytes, and wait for them."""
        await self._send(FrameType.PUT)
        piece = bytearray()
        while len(piece) < size:
            frame = await anext(self._frames, None)
            data = b"" if frame is None or frame.type != FrameType.DATA else frame.body
            if not 0 < len(data) <= size - len(piece):
                raise ProtocolError("SFY-HUB-019", "The party did not send just its file.")
            piece += data
        return bytes(piece)

    async def _give(self, item: Item) -> None:
        path = await self._on_disk(self._folder.place_of, item, self._name)
        with open(path, "rb") as file:
            while piece := await self._on_disk(file.read, MAX_FRAME_BODY):
                await self._send(FrameType.DATA, piece)
        self._note("fetched", item)

    async def _send(self, kind: FrameType, body: bytes = b"") -> None:
        async with asyncio.timeout(STALLED):
            self._writer.write(self._numbered.encode(HubFrame(kind, body=body)))
            await self._writer.drain()

    async def _on_disk(self, step: Callable[[*Ts], T], *arguments: *Ts) -> T:
        """Take a step that may wait for the disk; the party does not learn our paths."""
        try:
            return await asyncio.to_thread(step, *arguments)
        except OSError as error:
            self._log("trouble", consortium=self._room.consortium.name, reason=str(error))
            raise HubRefusal(
                "SFY-HUB-020",
                "The hub cannot read or write its mailbox; its operator finds the reason in its "
                "log. Nothing is lost: send or fetch the file again later.",
            ) from None

    def _note(self, event: str, item: Item) -> None:
        known = {"consortium": self._room.consortium.name, "party": self._name}
        self._log(event, **known, kind=item.kind, sender=item.sender, bytes=item.size)


def _item(frame: HubFrame) -> Item:
    try:
        return convert(parse(frame.body), Item, "the item")
    except Malformed as error:
        raise ProtocolError("SFY-HUB-021", f"{frame.type.name} names no file: {error}.") from None

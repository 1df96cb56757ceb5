"""A party at the hub's mailbox: it leaves its submission or result there, and fetches others."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import NamedTuple, TypeVar

import msgspec

from securefedyj.network.carrier import LinkLost, Unwelcome
from securefedyj.network.consortium import Consortium
from securefedyj.network.errors import JoinError
from securefedyj.network.identity import Identity
from securefedyj.network.session.peers import TIMEOUT, WAIT
from securefedyj.network.submission import most_bytes
from securefedyj.network.transport.framing import (
    MAX_FRAME_BODY,
    RESULT,
    SUBMISSION,
    WINDOW,
    FrameType,
    HubFrame,
    Item,
    MailKind,
)
from securefedyj.network.transport.link import HubDialer, Link, sentence
from securefedyj.printable import shown
from securefedyj.protocol.transcript import MOST_BYTES
from securefedyj.strict import Malformed, convert, parse

T = TypeVar("T")

_MOST_UNWELCOME = 6  # connections that the hub ends without a word
_FLUSH = 2.0  # seconds to close


class Courier(NamedTuple):
    """Who comes to the mailbox, and by which way; `say` gets what the user should know."""

    consortium: Consortium
    name: str
    identity: Identity
    proxy: str | None = None
    timeout: float = TIMEOUT
    wait: float = WAIT
    say: Callable[[str], None] = lambda sentence: None

    async def put(self, kind: MailKind, data: bytes) -> None:
        """Leave a file; the hub has it on its disk when this returns."""
        await self.visit(lambda mailbox: mailbox.put(kind, self.name, data))

    async def get(
        self, kinds: Collection[MailKind], without: Collection[str] = ()
    ) -> Mapping[tuple[MailKind, str], bytes]:
        """Fetch what there is of these kinds, but not what some parties have sent."""

        async def fetch(mailbox: Mailbox) -> dict[tuple[MailKind, str], bytes]:
            wanted = [
                item
                for item in await mailbox.items()
                if item.kind in kinds and item.sender not in without
            ]
            return {(item.kind, item.sender): await mailbox.get(item) for item in wanted}

        return await self.visit(fetch)

    async def visit(self, errand: Callable[[Mailbox], Awaitable[T]]) -> T:
        """Go to the mailbox for something; after a failure again, for as long as we wait."""
        dialer = HubDialer(self.consortium, self.name, self.identity, self.timeout,
                           _MOST_UNWELCOME, self.proxy, mailbox=True)  # fmt: skip
        clock = asyncio.get_running_loop().time
        began = clock()
        while True:
            try:
                link = await dialer.connect()
                try:
                    return await errand(Mailbox(link, self.timeout, self.consortium))
                finally:
                    await link.close(_FLUSH)
            except LinkLost as error:
                if isinstance(error, Unwelcome) or clock() - began > self.wait:
                    raise JoinError(error.code, str(error)) from None
                self.say(f"{error} Trying again.")


class Mailbox:
    """The mailbox, while a connection lasts; raises LinkLost, and JoinError where it refuses."""

    def __init__(self, link: Link, timeout: float, consortium: Consortium) -> None:
        self._link, self._timeout, self._consortium = link, timeout, consortium

    async def items(self) -> list[Item]:
        """What is there: at most one file of each party that sends one, none too large."""
        self._link.post(HubFrame(FrameType.LIST))
        most = largest_mail(self._consortium)
        found: list[Item] = []
        while body := (await self._next(FrameType.LIST)).body:
            try:
                item = convert(parse(body), Item, "an item")
            except Malformed as error:
                raise _odd(str(error)) from None
            if item.size > most.pop((item.kind, item.sender), 0):
                raise _odd(
                    f"it offers {item.size} bytes as the {item.kind} of {shown(item.sender)}"
                )
            found.append(item)
        return found

    async def get(self, item: Item) -> bytes:
        """Fetch an item; what is in it has yet to be checked."""
        self._link.post(HubFrame(FrameType.GET, body=msgspec.json.encode(item)))
        data = bytearray()
        while len(data) < item.size:
            data += (await self._next(FrameType.DATA)).body
        return bytes(data)

    async def put(self, kind: MailKind, name: str, data: bytes) -> None:
        """Leave a file; the hub has it on its disk when this returns."""
        item = Item(kind, name, len(data), hashlib.sha256(data).hexdigest())
        self._link.post(HubFrame(FrameType.PUT, body=msgspec.json.encode(item)))
        sent = 0
        while (await self._next(FrameType.PUT, FrameType.STORED)).type != FrameType.STORED:
            window = data[sent : sent + WINDOW]
            for start in range(0, len(window), MAX_FRAME_BODY):
                piece = window[start : start + MAX_FRAME_BODY]
                self._link.post(HubFrame(FrameType.DATA, body=piece))
            sent += len(window)

    async def _next(self, *kinds: FrameType) -> HubFrame:
        frame = await self._link.receive_frame(self._timeout)
        if frame is None:
            raise LinkLost("SFY-NET-034", "The hub's mailbox does not answer.")
        if frame.type == FrameType.REFUSED:
            raise JoinError("SFY-NET-035", f"The hub's mailbox refuses: {sentence(frame.body)}")
        if frame.type not in kinds:
            raise _odd(f"it sends {frame.type.name}")
        return frame


def largest_mail(consortium: Consortium) -> dict[tuple[MailKind, str], int]:
    """Who may leave what in the mailbox, and the most bytes of it."""
    agreement = consortium.agreement()
    submission = most_bytes(agreement)
    result = min(MOST_BYTES, len(agreement.questions) << 15) + (1 << 16)
    return {(SUBMISSION, silo.name): submission for silo in consortium.silos} | {
        (RESULT, member): result for member in consortium.committee
    }


def _odd(what: str) -> JoinError:
    return JoinError("SFY-NET-036", f"The hub's mailbox does not work as it should: {what}.")

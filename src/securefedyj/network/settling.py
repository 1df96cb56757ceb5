"""Members compare the submissions that they have, and give each other what has not arrived whole.

docs/protocol.md, section 13.6. It is the beginning of the program of each session of a submitted
run. One member that lies can neither make a silo look like a liar nor change what is computed: what
it gives counts only if it fits a header that the silo has signed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NoReturn

from securefedyj.errors import InputError
from securefedyj.network.consortium import Consortium
from securefedyj.network.errors import EndOfRun, JoinError
from securefedyj.network.submission import (
    MOST_HEAD,
    Head,
    points_in,
    read_head,
    size_of,
    totals,
)
from securefedyj.party.messages import Kind
from securefedyj.party.rounds import play_round
from securefedyj.printable import in_words, printable
from securefedyj.protocol.agreement import Agreement
from securefedyj.protocol.submissions import Submissions

_DIGEST = 32
_BITS = (1, 2)
"""What a member lacks: the first and the second of its shares."""
_FRAME = MOST_HEAD + (1 << 8)
_LARGEST = 2
"""The component that is not drawn from a key."""


@dataclass(frozen=True)
class Copy:
    """What a member has of one silo's submission."""

    head: Head
    shares: Mapping[int, bytes] = field(repr=False)
    """By their components, as far as they fit the header."""
    whole: bool
    """Whether the file arrived as the silo signed it; then what is wrong in it is the silo's."""


class TwoSubmissions(EndOfRun):
    """A silo has signed two headers for one agreed file."""

    def __init__(self, silo: str, heads: Sequence[Head]) -> None:
        super().__init__(
            "SFY-SUB-040",
            f"{printable(silo)} has signed two different submissions for this agreed file, so it "
            "does not follow the protocol, or somebody else has its key. Nothing was computed. "
            f"Both headers, with their signatures, are in {printable(silo)}.evidence, in the "
            "output folder. Find out why; a new run needs a new agreed file.",
        )
        self.silo, self.evidence = silo, b"".join(head.data for head in heads)


async def settle(
    consortium: Consortium,
    name: str,
    copies: Mapping[str, Copy],
    say: Callable[[str], None] = lambda sentence: None,
) -> Submissions | None:
    """What a member computes with, once all members are known to have the same submissions.

    A party outside of the committee has no copies, and computes with none.
    """
    return await _Settling(consortium, name, copies, say).run()


def largest_settling(agreement: Agreement) -> int:
    """Bytes of the largest message."""
    return max(
        len(agreement.silos) * (_DIGEST + 1), _FRAME, size_of(_LARGEST, points_in(agreement))
    )


class _Settling:
    def __init__(
        self,
        consortium: Consortium,
        name: str,
        copies: Mapping[str, Copy],
        say: Callable[[str], None],
    ) -> None:
        agreement = consortium.agreement()
        self._consortium, self._name, self._copies, self._say = consortium, name, copies, say
        self._silos, self._points = agreement.silos, points_in(agreement)
        self._members = consortium.committee
        self._own = self._members.index(name) if copies else None
        self._peers = [party for party in agreement.online if party != name]

    async def run(self) -> Submissions | None:
        lacking = await self._compared()
        shares = {silo: dict(copy.shares) for silo, copy in self._copies.items()}
        for k, silo in enumerate(self._silos):
            if any(lacks[k] for lacks in lacking.values()):
                await self._mend(silo, shares, {name: one[k] for name, one in lacking.items()})
        if self._own is None:
            return None
        heads = [self._copies[silo].head for silo in self._silos]
        return totals(heads, [shares[silo] for silo in self._silos], self._own, self._points)

    async def _compared(self) -> dict[str, list[int]]:
        """Which of its shares each member lacks of each silo; all have the same headers."""
        own, size = bytearray(), _DIGEST + 1
        for silo in self._silos if self._copies else ():
            copy = self._copies[silo]
            lacks = sum(
                bit for bit, one in zip(_BITS, self._held(), strict=True) if one not in copy.shares
            )
            own += copy.head.digest + bytes([lacks])
        stated = await self._exchange(Kind.DIGEST, bytes(own), size * len(self._silos))
        if self._own is not None:
            stated[self._name] = bytes(own)
        await self._told_the_same(stated)
        cut = {
            name: [vector[start : start + size] for start in range(0, len(vector), size)]
            for name, vector in stated.items()
        }
        for k, silo in enumerate(self._silos):
            headers = {name: one[k][:_DIGEST] for name, one in cut.items()}
            if len(set(headers.values())) > 1:
                await self._confront(silo, headers)
        return {name: [one[_DIGEST] for one in vector] for name, vector in cut.items()}

    async def _told_the_same(self, stated: Mapping[str, bytes]) -> None:
        """Members repeat what all members have stated: who says one thing to one and another to
        the next cannot make the two take each other for liars."""
        heard = [hashlib.sha256(stated[name]).digest() for name in self._members]
        own = b"" if self._own is None else b"".join(heard)
        for peer, echo in (await self._exchange(Kind.DIGEST, own, _DIGEST * 3)).items():
            for k, name in enumerate(self._members):
                if echo[_DIGEST * k :][:_DIGEST] != heard[k]:
                    suspects = [one for one in self._members if one in {peer, name} - {self._name}]
                    raise JoinError(
                        "SFY-SUB-044",
                        "Not all parties were told the same about the submissions: "
                        f"{' or '.join(map(printable, suspects))} does not follow the protocol. No "
                        "silo is to blame. Nothing was computed; find out why, and rerun the "
                        "command.",
                    )

    async def _confront(self, silo: str, stated: Mapping[str, bytes]) -> NoReturn:
        """Members show their headers, if two have stated different ones; the run does not start."""
        own = self._copies.get(silo)
        frame = b"" if own is None else own.head.data.ljust(_FRAME, b"\0")
        shown = await self._exchange(Kind.DIGEST, frame, _FRAME)
        heads = {} if own is None else {own.head.digest: own.head}
        unproven = list(shown)
        for member, data in shown.items():
            with suppress(InputError):
                head = read_head(data, self._consortium)
                if head.header.silo == silo and head.digest == stated[member]:
                    heads.setdefault(head.digest, head)
                    unproven.remove(member)
        if len(heads) > 1:
            raise TwoSubmissions(silo, list(heads.values()))
        raise JoinError(
            "SFY-SUB-041",
            f"Members have different submissions of {printable(silo)}, and {in_words(unproven)} "
            "cannot show one that it has signed. The silo is not to blame. Nothing was computed; "
            "find out at the member why, and rerun the command.",
        )

    async def _mend(
        self, silo: str, shares: Mapping[str, dict[int, bytes]], lacks: Mapping[str, int]
    ) -> None:
        """Give the others what they lack of a submission, and take what we lack."""
        outgoing, wanted = dict.fromkeys(self._peers, b""), dict[str, int]()
        if self._own is not None:
            # Component i is with members i - 1 and i: the next member may lack the second one
            # that we hold, and the one before us the first.
            first, second = self._held()
            after, before = (self._members[(self._own + step) % 3] for step in (1, -1))
            for member, bit, one in ((after, 1, second), (before, 2, first)):
                if lacks[member] & bit:
                    size = size_of(one, self._points)
                    outgoing[member] = shares[silo].get(one, bytes(size))
            for member, bit, one in ((before, 1, first), (after, 2, second)):
                if lacks[self._name] & bit:
                    wanted[member] = one
        expected = dict.fromkeys(self._peers, 0)
        expected |= {member: size_of(one, self._points) for member, one in wanted.items()}
        came = await play_round(Kind.INPUT, outgoing, expected)
        for member, one in wanted.items():
            copy = self._copies[silo]
            if not copy.head.header.fits(one, came[member], self._points):
                raise JoinError(*self._no_copy(silo, member, copy))
            shares[silo][one] = came[member]
            self._say(f"Of the submission of {printable(silo)}, {member} gave us what we lacked.")

    def _no_copy(self, silo: str, member: str, copy: Copy) -> tuple[str, str]:
        who = printable(silo)
        if copy.whole:
            return (
                "SFY-SUB-042",
                f"What {who} has sealed for us does not fit the header that it has signed, and "
                f"what {member} holds does not fit either: {who} does not follow the protocol. "
                "Nothing was computed. Agree on a new file, with it or without.",
            )
        return (
            "SFY-SUB-043",
            f"The submission of {who} did not arrive whole, and what {member} holds does not fit "
            f"its header. Get the file of {who} again, and rerun the command.",
        )

    def _held(self) -> tuple[int, int]:
        """Our components."""
        assert self._own is not None
        return self._own, (self._own + 1) % 3

    async def _exchange(self, kind: Kind, own: bytes, size: int) -> dict[str, bytes]:
        """All members send all others something of this size."""
        outgoing = dict.fromkeys(self._peers, own)
        expected = {peer: size * (peer in self._members) for peer in self._peers}
        came = await play_round(kind, outgoing, expected)
        return {peer: data for peer, data in came.items() if peer in self._members}

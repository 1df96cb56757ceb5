"""Fetching the result of a submitted run, at a party that was not connected."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from securefedyj.errors import InputError, with_code
from securefedyj.files import TooLarge, read_within
from securefedyj.joining.own import OwnPart
from securefedyj.network.errors import OutOfPatience
from securefedyj.network.gathering import LOOK_EVERY
from securefedyj.network.mailbox import Mailbox
from securefedyj.network.repeats import LedgerRun
from securefedyj.network.signed import (
    ENOUGH,
    MOST_RESULT,
    ResultFileError,
    SignedResult,
    agreed_result,
    most_signed,
)
from securefedyj.network.transport.framing import RESULT, SUBMISSION, Item
from securefedyj.printable import in_words, printable
from securefedyj.protocol.transcript import Transcript


@dataclass(repr=False)
class ResultRun(OwnPart):
    """Gets what enough members have signed, from the mailbox or from files, and writes it.

    With data, the report shows the silo's own rows.
    """

    files: Sequence[Path] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.consortium.submitted:
            raise InputError(
                "SFY-JOIN-058",
                f"{self.consortium.name!r} is no submitted run: `securefedyj join` takes part in "
                "it, and writes the result.",
            )
        if self.consortium.hub is None and not self.files:
            raise InputError(
                "SFY-JOIN-059",
                f"{self.consortium.name!r} has no hub whose mailbox could have the result: give "
                "the files MEMBER.result of two members with --files.",
            )
        self._signed: dict[str, SignedResult] = {}
        self._fetched: set[str] = set()

    async def take_part(self) -> Transcript:
        """Wait until the result is there, and write it with its report."""
        for path in self.files:
            try:
                self._take(read_within(path, MOST_RESULT), str(path))
            except TooLarge as error:
                raise InputError(error.code, f"{path}: {error}") from None
        if not self.files:
            await self._fetch()
        signed = self._signed.values()
        transcript = agreed_result(signed, self.consortium)
        for name in sorted(self._signed.keys() - most_signed(signed)[0]):
            self.warn(
                f"Warning: {name} has signed another result than the other members: it does not "
                "follow the protocol, or its file is of another run. Tell the other parties."
            )
        try:
            self._own = await asyncio.to_thread(self.own_table)
            record = LedgerRun(self.consortium, None, self.options.ledger, self.party.name)
            self._output.mkdir(parents=True, exist_ok=True)
            self._write(transcript, None)
            if contradiction := record.finished(transcript, self.say):
                self.warn(f"Warning: {contradiction}")
            await asyncio.to_thread(self._report, transcript)
        finally:
            self._left = True
        return transcript

    def on_leaving(self, again: str) -> str:
        """What to tell a user who has stopped us; `again` is what tries again."""
        return f"Stopped. Rerun the {again} to fetch the result."

    async def _fetch(self) -> None:
        """Look for results until there are enough, for no longer than we wait."""
        clock = asyncio.get_running_loop().time
        until, said = clock() + self.options.wait, ""
        while True:
            there = await self._courier().visit(self._get)
            enough = len(most_signed(self._signed.values())[0]) >= ENOUGH
            if enough or self._fetched.issuperset(self.consortium.committee):
                return
            submitted = {item.sender for item in there if item.kind == SUBMISSION}
            missing = [one for one in self.consortium.agreement().silos if one not in submitted]
            what = "There is no result yet."
            if missing:
                what += f" The mailbox has no submission of {in_words(missing)}."
            if clock() > until:
                raise OutOfPatience("SFY-SUB-056", f"{what} Rerun the command later.")
            if what != said:
                self.say(what)
                said = what
            await asyncio.sleep(LOOK_EVERY)

    async def _get(self, mailbox: Mailbox) -> list[Item]:
        """Fetch results that we do not have; return what is in the mailbox."""
        items = await mailbox.items()
        for item in items:
            if item.kind == RESULT and item.sender not in self._fetched:
                self._take(await mailbox.get(item), f"the mailbox, from {printable(item.sender)}")
                self._fetched.add(item.sender)
        return items

    def _take(self, data: bytes, origin: str) -> None:
        """Keep a result that is signed; one member alone cannot keep us from the others'."""
        try:
            signed = SignedResult.read(data, self.consortium)
        except ResultFileError as error:
            self.warn(with_code(f"Not used, {origin}: {error}", error))
        else:
            self._signed[signed.member] = signed

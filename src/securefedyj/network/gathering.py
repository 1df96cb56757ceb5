"""A member gathers the submissions of all silos, from the hub's mailbox and from a folder.

It keeps them in its output folder, for its owner alone, until all members have the result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from securefedyj.errors import InputError, reason_of, with_code
from securefedyj.files import TooLarge, read_within, write_atomically
from securefedyj.network.consortium import Consortium
from securefedyj.network.errors import JoinError
from securefedyj.network.keys import PrivateKeys
from securefedyj.network.mailbox import Courier
from securefedyj.network.settling import Copy, TwoSubmissions
from securefedyj.network.submission import (
    Head,
    Submission,
    check_masks,
    most_bytes,
    read,
    read_head,
    unseal,
)
from securefedyj.network.transport.framing import SUBMISSION
from securefedyj.printable import in_words, printable

FOLDER = "submissions"
PATTERN = "[!.]*.submission"  # a hidden one may never have been submitted
LOOK_EVERY = 5.0  # seconds


class Gathering:
    """The submissions of a run that a member has, and where it looks for those that it lacks.

    `courier` goes to the hub's mailbox; `folder` has files that came by another way.
    """

    def __init__(
        self,
        consortium: Consortium,
        output: Path,
        folder: Path | None,
        courier: Courier | None,
        say: Callable[[str], None],
    ) -> None:
        self._consortium, self._kept, self._folder = consortium, output / FOLDER, folder
        self._courier, self._say = courier, say
        self._silos = consortium.agreement().silos
        self._most = most_bytes(consortium.agreement())
        self._heads: dict[str, Head] = {}
        """Of each silo a whole submission; of a damaged one, what is left of it."""
        self._seen: set[str] = set()
        """The silos whose whole files we have kept before, or have from the mailbox."""
        self._said: set[str] = set()

    async def copies(self, member: str, key: Path) -> dict[str, Copy]:
        """Wait until all silos have submitted, and open our parts."""
        private = PrivateKeys.read(key, self._consortium.party(member).public)
        self._kept.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._look_in(self._kept)
        self._seen = self._whole
        while True:
            if self._folder is not None:
                self._look_in(self._folder)
            # What came by another way is compared with what is in the mailbox.
            if not self._seen.issuperset(self._silos):
                await self._fetch()
            if not (missing := self._missing):
                break
            self._say_once(f"Waiting for the submission of {in_words(missing)}.")
            await asyncio.sleep(LOOK_EVERY)
        check_masks({name: head.header for name, head in self._heads.items()}, self._silos)
        return {
            name: Copy(head, unseal(head, self._consortium, member, private), whole=True)
            if isinstance(head, Submission)
            else Copy(head, {}, whole=False)
            for name, head in self._heads.items()
        }

    def delete(self) -> None:
        """Delete what we have kept, and no other file; nobody needs it any more."""
        for name in self._silos:
            try:
                self._place(name).unlink(missing_ok=True)
            except OSError as error:
                where = printable(str(self._place(name)))
                self._say_once(f"Delete {where} yourself; we could not: {reason_of(error)}.")
        with suppress(OSError):  # it has other files, or was never made
            self._kept.rmdir()

    @property
    def _missing(self) -> list[str]:
        return [name for name in self._silos if name not in self._heads]

    @property
    def _whole(self) -> set[str]:
        return {name for name, head in self._heads.items() if isinstance(head, Submission)}

    def _place(self, name: str) -> Path:
        return self._kept / f"{name}.submission"

    def _look_in(self, folder: Path) -> None:
        for path in sorted(filter(Path.is_file, folder.glob(PATTERN))):  # a pipe would block
            try:
                data = read_within(path, self._most)
            except (OSError, TooLarge) as error:
                self._say_once(f"{printable(str(path))} cannot be used: {error}.")
            else:
                self._take(data, printable(path.name))

    async def _fetch(self) -> None:
        """Get from the mailbox what we lack; a folder alone will do, if there is no mailbox."""
        if self._courier is None:
            return
        try:
            found = await self._courier.get([SUBMISSION], without=self._seen)
        except JoinError as error:
            if self._folder is None:
                raise
            self._say_once(f"{error} Submissions are taken from {printable(str(self._folder))}.")
            return
        for (_, sender), data in found.items():
            self._take(data, f"the mailbox, from {printable(sender)}")
        self._seen |= self._whole & {sender for _, sender in found}

    def _take(self, data: bytes, origin: str) -> None:
        """Keep a file that is of use."""
        try:
            head = read_head(data, self._consortium)
        except InputError as error:
            self._say_once(with_code(f"Not used, {origin}: {error}", error))
            return
        name = head.header.silo
        known = self._heads.get(name, head)
        if known.digest != head.digest:
            raise TwoSubmissions(name, [known, head])
        if isinstance(known, Submission):
            return
        try:
            head = read(data, self._consortium)
        except InputError as error:
            self._say_once(with_code(f"Damaged, {origin}: {error}", error))
        self._heads[name] = head
        write_atomically(self._place(name), data, private=True)

    def _say_once(self, sentence: str) -> None:
        if sentence not in self._said:
            self._said.add(sentence)
            self._say(sentence)

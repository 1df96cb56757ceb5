"""What a member of the committee does in a submitted run, besides computing."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from pathlib import Path

from securefedyj.errors import InputError
from securefedyj.files import read_within, write_atomically
from securefedyj.joining.options import JoinOptions
from securefedyj.joining.own import Say
from securefedyj.network.consortium import Consortium
from securefedyj.network.errors import JoinError
from securefedyj.network.gathering import Gathering
from securefedyj.network.mailbox import Courier
from securefedyj.network.settling import Copy
from securefedyj.network.signed import MOST_RESULT, SignedResult, sign_result
from securefedyj.network.transport.framing import RESULT
from securefedyj.printable import printable
from securefedyj.protocol.transcript import Transcript


class SubmissionMember:
    """Gathers submissions, and signs the result for the silos that are not connected."""

    def __init__(
        self,
        consortium: Consortium,
        name: str,
        options: JoinOptions,
        courier: Callable[[float], Courier],
        say: Say,
        warn: Say,
    ) -> None:
        self._consortium, self._name, self._key = consortium, name, options.key
        self._wait, self._courier, self._say, self._warn = options.wait, courier, say, warn
        if consortium.hub is None and options.submissions is None:
            raise InputError(
                "SFY-JOIN-061",
                f"{consortium.name!r} has no hub whose mailbox could have the submissions: give "
                "the folder that has them with --submissions.",
            )
        self._signed = options.output / f"{name}.{RESULT}"
        way = None if consortium.hub is None else courier(inf)
        self._gathering = Gathering(consortium, options.output, options.submissions, way, say)

    @property
    def confirmed(self) -> bool:
        """Whether all members have the result, and ours is signed."""
        try:
            SignedResult.read(read_within(self._signed, MOST_RESULT), self._consortium)
        except FileNotFoundError:
            return False
        except InputError:  # the mailbox would keep it in the place of ours
            raise InputError(
                "SFY-JOIN-062",
                f"{printable(str(self._signed))} is not what {self._name} signs in this run. "
                "Choose another output folder.",
            ) from None
        return True

    async def copies(self) -> dict[str, Copy]:
        """What we have of all submissions, once they are there; nothing if the run is finished."""
        if self.confirmed:
            await self.deliver()
            return {}
        return await self._gathering.copies(self._name, self._key)

    def confirm(self, transcript: Transcript) -> None:
        """All have the result: sign it, and delete the submissions."""
        if not self.confirmed:  # a second signature would be another file
            signed = sign_result(transcript, self._consortium, self._name, self._key)
            write_atomically(self._signed, signed)
        self._gathering.delete()

    async def deliver(self) -> dict[str, Path]:
        """Leave the signed result in the mailbox; return where it is."""
        try:
            if self._consortium.hub is not None:
                await self._courier(self._wait).put(RESULT, self._signed.read_bytes())
                return {RESULT: self._signed}
        except JoinError as error:
            self._warn(str(error))
        self._say(
            f"Send {printable(str(self._signed))} to all silos that were not connected; "
            "`securefedyj result --files` takes it."
        )
        return {RESULT: self._signed}

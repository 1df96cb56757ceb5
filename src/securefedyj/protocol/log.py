"""Where a run says what it is about to reveal and what it has revealed, as it goes.

Whoever keeps a record on disk, so that nothing is opened twice, listens here. All of it is public.
"""

from __future__ import annotations

from typing import Protocol

from securefedyj.protocol.transcript import Transcript


class Log(Protocol):
    """What a run calls on its way, with the transcript so far, which it goes on to extend."""

    def exchange(self, transcript: Transcript) -> None:
        """An exchange begins: inputs are about to be shared."""

    def opening(self, transcript: Transcript) -> None:
        """Our part of the opening that follows the last reveal is about to be sent."""

    def accepted(self, transcript: Transcript, part: bytes) -> None:
        """Our checks have passed, and this is what we hold of the opening that follows.

        From now on it is not computed again: after an interruption the same part is sent.
        """

    def revealed(self, transcript: Transcript) -> None:
        """The last reveal has just been opened; nothing was sent since."""


class _Silent:
    """A log that keeps nothing."""

    def exchange(self, transcript: Transcript) -> None:
        pass

    def accepted(self, transcript: Transcript, part: bytes) -> None:
        pass

    opening = revealed = exchange


SILENT: Log = _Silent()
"""For a run that nobody follows."""

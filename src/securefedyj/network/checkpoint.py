"""What a party keeps between restarts: what was revealed so far, which is public, and no more.

See docs/security.md, section 6, "Going on after an interruption".
"""

from __future__ import annotations

from itertools import takewhile
from pathlib import Path

from securefedyj.files import write_atomically
from securefedyj.network.errors import JoinError
from securefedyj.protocol.agreement import Agreement
from securefedyj.protocol.transcript import Transcript, TranscriptError

FILE = "state.jsonl"


class CheckpointError(JoinError):
    """A checkpoint that a run cannot go on from."""


class Checkpoint:
    """The transcript so far, in memory and in the output folder."""

    def __init__(self, folder: Path, agreement: Agreement) -> None:
        self.path = folder / FILE
        self.transcript = Transcript(agreement)
        self._lines = _lines(self.transcript)  # of the file, without the result
        if not self.path.exists():
            # Better to find out now than after the first exchange that this cannot be written.
            self.transcript.write(self.path)
            return
        try:
            found = Transcript.read(self.path)
        except (TranscriptError, UnicodeDecodeError) as error:
            raise CheckpointError(f"{self.path}: {error}. Choose another --output.") from None
        if found.agreement.to_bytes() != agreement.to_bytes():
            if not found.reveals:
                return
            raise CheckpointError(
                f"{self.path} is from a run with another agreed file; choose another --output."
            )
        if found.result is not None and not found.audit().passed:
            raise CheckpointError(
                f"{self.path} was changed: its result does not follow from what was revealed. "
                "Choose another --output."
            )
        self.transcript = found
        self._lines = _lines(Transcript(agreement, found.reveals))

    @property
    def complete(self) -> bool:
        return self.transcript.result is not None

    def save(self, transcript: Transcript) -> bool:
        """Keep the transcript; return whether there is anything new in it.

        What was revealed before a restart must be revealed again: anything else would mean that a
        party came back with other rows, and two results tell more than one.
        """
        old, now = self.transcript.reveals, transcript.reveals
        # What we know already would take longer to write down again than it took to compute.
        same = len(list(takewhile(lambda pair: pair[0] is pair[1], zip(old, now, strict=False))))
        tail = Transcript(transcript.agreement, now[same:], transcript.result)
        lines = self._lines[: 1 + same] + _lines(tail)[1:]
        common = 1 + min(len(old), len(now))
        if lines[:common] != self._lines[:common]:
            raise CheckpointError(
                "What was revealed differs from what was revealed before the restart: some party "
                "has come back with other rows. Agree on the rows, then let all parties begin "
                "anew, with a new --output."
            )
        if len(now) < len(old):
            return False
        self.transcript = Transcript(transcript.agreement, list(now), transcript.result)
        self._lines = lines[: 1 + len(now)]
        write_atomically(self.path, "".join(lines).encode())
        return len(now) > len(old)


def _lines(transcript: Transcript) -> list[str]:
    """The agreement, the reveals in order, the result if there is one: a line each."""
    return transcript.to_text().splitlines(keepends=True)

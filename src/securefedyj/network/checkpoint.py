"""What a party keeps between restarts: what was revealed so far, which is public, and no more."""

import hashlib
import json
from itertools import takewhile
from pathlib import Path

import numpy as np

from securefedyj.files import write_atomically
from securefedyj.protocol.agreement import Agreement
from securefedyj.protocol.program import features_at_once
from securefedyj.protocol.transcript import Counts, Moments, Step, Transcript, TranscriptError

FILE = "state.jsonl"


class StateError(ValueError):
    """A state that a run cannot go on from."""


class State:
    """The transcript so far, in memory and in the output folder."""

    def __init__(self, folder: Path, agreement: Agreement) -> None:
        self.path = folder / FILE
        self.transcript = Transcript(agreement)
        self._lines = _lines(self.transcript)  # of the file, without the result
        if not self.path.exists():
            # Better to find out now than after the first exchange that this cannot be written.
            write_atomically(self.path, to_text(self.transcript).encode())
            return
        try:
            found = Transcript.read(self.path)
        except (TranscriptError, UnicodeDecodeError) as error:
            raise StateError(f"{self.path}: {error}. Choose another --output.") from None
        if found.agreement.to_bytes() != agreement.to_bytes():
            if not found.reveals:
                return
            raise StateError(
                f"{self.path} is from a run with another agreed file; choose another --output."
            )
        if found.result is not None and not found.audit().passed:
            raise StateError(
                f"{self.path} was changed: its result does not follow from what was revealed. "
                "Choose another --output."
            )
        self.transcript = found
        self._lines = _lines(self.prefix(len(found.reveals)))

    @property
    def complete(self) -> bool:
        return self.transcript.result is not None

    def prefix(self, length: int) -> Transcript:
        """A transcript to go on from, which may be changed."""
        return Transcript(self.transcript.agreement, self.transcript.reveals[:length])

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
            raise StateError(
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


def to_text(transcript: Transcript) -> str:
    return "".join(_lines(transcript))


def _lines(transcript: Transcript) -> list[str]:
    """The agreement, the reveals in order, the result if there is one."""
    return [json.dumps(line) + "\n" for line in transcript.to_lines()]


def digest(transcript: Transcript, length: int) -> str:
    """SHA-256 over the first reveals, the same at all parties."""
    lines = list(Transcript(transcript.agreement, transcript.reveals[:length]).to_lines())
    return hashlib.sha256(json.dumps(lines).encode()).hexdigest()


def exchanges_done(transcript: Transcript) -> int:
    """How many exchanges the reveals stand for; the counts are the first."""
    levels = transcript.agreement.levels_per_exchange
    ends: set[tuple[str, int, int]] = set()
    size = features_at_once(transcript.agreement)
    for reveal in transcript.reveals:
        batch = int(reveal.features[0]) // size if len(reveal.features) else 0
        if isinstance(reveal, Counts):
            ends.add(("counts", 0, 0))
        elif isinstance(reveal, Step):
            ends.add(("step", batch, reveal.step // levels))
        elif isinstance(reveal, Moments):
            ends.add(("moments", batch, 0))
    return len(ends)


def features_open(transcript: Transcript) -> int:
    """How many features have no result yet."""
    open_ = transcript.counts() > 0 if transcript.reveals else np.ones(transcript.n_features)
    for reveal in transcript.all(Moments):
        open_[reveal.features] = False
    return int(np.count_nonzero(open_))


def exchanges_at_most(agreement: Agreement) -> int:
    """How many exchanges a run takes if no search ends early."""
    batches = -(-len(agreement.features) // features_at_once(agreement))
    return 1 + batches * (-(-agreement.max_steps // agreement.levels_per_exchange) + 1)

"""Files of JSON objects, one per line, that only grow: a party's journal and a silo's ledger."""

from __future__ import annotations

import errno
import json
import os
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from securefedyj.network.errors import OwnTrouble

# One of them is missing on each system.
fcntl: Any = None
msvcrt: Any = None
with suppress(ImportError):
    import fcntl
with suppress(ImportError):
    import msvcrt

_PIECE = 1 << 20  # bytes
_FAR = (1 << 31) - 2
_BETWEEN_TRIES = 0.05  # seconds


def require_locks() -> None:
    """Refuse to take part in a run, or to serve as a hub, on a system without locks."""
    if fcntl is None:
        raise OwnTrouble(
            "SFY-JOIN-029",
            "This system cannot lock files as a run needs it (Python has no fcntl here), and "
            "without such locks two processes could make the same opening twice. So `join` and "
            "`hub` need Linux or another Unix. What works here: fits of your own rows (`ExpYJ`), "
            "`transform`, `check`, `keygen`, `new`, `submit`, `result`, `report` and `audit`.",
        )


def _lock_on_windows(file: int, *, wait: bool) -> None:
    """Lock one byte far behind the end: what is locked there, others cannot read."""
    while True:
        os.lseek(file, _FAR, os.SEEK_SET)
        try:
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
            return
        except PermissionError as error:  # another process has it
            if not wait:
                raise BlockingIOError(errno.EAGAIN, error.strerror) from None
            time.sleep(_BETWEEN_TRIES)


class LineFile:
    """An open file of lines. What the system refuses is an OSError; nothing is retried.

    Only its owner can read it (mode 600). Threads may share it. The `flags` are those of `os.open`;
    lines are always added at the end.
    """

    def __init__(self, path: Path, flags: int = os.O_RDWR | os.O_CREAT) -> None:
        self.path = path
        self._shared = not flags & (os.O_RDWR | os.O_WRONLY)
        self._writing = threading.Lock()
        binary = getattr(os, "O_BINARY", 0)  # Windows
        self._file = os.open(path, flags | os.O_APPEND | binary, 0o600)

    def lock(self, *, wait: bool = True) -> None:
        """Lock the file until it is closed; readers share the lock, a writer has it alone.

        Raises BlockingIOError if another process has it, and we do not wait. Without locks a file
        can only be read.
        """
        if msvcrt is not None:
            _lock_on_windows(self._file, wait=wait)
        elif not self._shared:
            require_locks()
        if fcntl is not None:
            kind = fcntl.LOCK_SH if self._shared else fcntl.LOCK_EX
            fcntl.flock(self._file, kind | (0 if wait else fcntl.LOCK_NB))
        if os.fstat(self._file).st_mode & 0o077:
            with suppress(OSError):  # the file of somebody else
                os.chmod(self.path, 0o600)

    @property
    def size(self) -> int:
        """Bytes in the file."""
        return os.fstat(self._file).st_size

    def read(self, *, mend: bool = False) -> list[bytes]:
        """All lines, without their ends.

        A last line may lack its end. With `mend` it was cut short: it is dropped here and in the
        file. Without, it is a line like the others.
        """
        pieces, place = [], 0
        while piece := self._at(place, _PIECE):
            pieces.append(piece)
            place += len(piece)
        *lines, rest = b"".join(pieces).split(b"\n")
        if rest and mend:
            os.ftruncate(self._file, place - len(rest))
        elif rest:
            lines.append(rest)
        return lines

    def _at(self, place: int, most: int) -> bytes:
        os.lseek(self._file, place, os.SEEK_SET)  # lines are added at the end all the same
        return os.read(self._file, most)

    def append(self, line: Mapping[str, Any], *, sync: bool = False) -> None:
        """Add a whole line, or nothing. It may be lost in a power cut until it is synced."""
        data = json.dumps(line).encode() + b"\n"
        with self._writing:
            before = self.size
            if before and self._at(before - 1, 1) != b"\n":
                data = b"\n" + data  # an editor has removed the end of the last line
            try:
                while data:
                    data = data[os.write(self._file, data) :]
                if sync:
                    os.fsync(self._file)
            except OSError:
                with suppress(OSError):
                    os.ftruncate(self._file, before)
                raise

    def sync(self) -> None:
        """Wait until all lines are safe on the disk."""
        with self._writing:
            if self._file < 0:
                raise OSError(errno.EBADF, os.strerror(errno.EBADF))
            os.fsync(self._file)

    def clear(self) -> None:
        """Remove all lines."""
        os.ftruncate(self._file, 0)

    def close(self) -> None:
        """Close and unlock the file; a thread that is late can no longer write to it."""
        with self._writing:
            if self._file >= 0:
                os.close(self._file)
            self._file = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

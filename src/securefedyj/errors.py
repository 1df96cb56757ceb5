"""Errors that a user may see: each has a code that stays the same when its wording changes.

`docs/troubleshooting.md` lists the codes, and tests refer to them. No message ever contains a
payload.
"""

from __future__ import annotations

import errno
from typing import Any


class CodedError(Exception):
    """An error with a stable code, such as SFY-NET-012, and a message in plain words."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self.args, self.__dict__)


def _restored(kind: type[CodedError], args: tuple[Any, ...], state: dict[str, Any]) -> CodedError:
    """The error that another process has raised."""
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(state)
    return error


def code_of(error: BaseException, otherwise: str) -> str:
    """The code of the error that a message quotes, or another where it has none."""
    return error.code if isinstance(error, CodedError) else otherwise


_REASONS = {
    errno.ENOENT: "there is no such file or folder; check the name, and the folder that it is in",
    errno.EACCES: "this account may not read or write it; ask its owner, or choose another place",
    errno.EISDIR: "this is a folder; give a file",
    errno.ENOTDIR: "a part of this path is a file and not a folder; check the path",
    errno.EEXIST: "it exists and is not overwritten; move it away, or choose another name",
    errno.ENOSPC: "the disk is full; free some space there, and repeat the command",
    errno.EROFS: "nothing can be written there; choose another place",
    errno.ENAMETOOLONG: "the name is too long; choose a shorter one",
    errno.EMFILE: "too many files are open; allow more of them (ulimit -n)",
    errno.ELOOP: "a symbolic link leads to itself; give the file that is meant",
}
_REASONS[errno.EPERM] = _REASONS[errno.EACCES]
_REASONS[errno.EDQUOT] = _REASONS[errno.EFBIG] = _REASONS[errno.ENOSPC]


def reason_of(error: OSError) -> str:
    """What an error of the operating system means, and what to do about it."""
    said = error.strerror or str(error)
    return _REASONS.get(error.errno or 0) or f"{said}; the administrator of this machine can help"


def with_code(message: str, error: BaseException) -> str:
    """The message, followed by the code of the error in brackets."""
    code = code_of(error, "")
    if isinstance(error, OSError):
        code = f"SFY-OS-{errno.errorcode.get(error.errno or 0, 'OTHER')}"
    return f"{message} [{code}]" if code else message


class InputError(CodedError, ValueError):
    """What the user gave cannot be used."""


class ProtocolError(CodedError):
    """A message broke the rules of the protocol; nothing was computed from it."""


class Unverified(ProtocolError):
    """A check of a verified exchange has failed: somebody cheats, and the run ends for good."""


class PartyStopped(Exception):
    """Another party stopped. Its reason may touch its data, so it stays there."""


class Stalled(Exception):
    """Nothing is in flight any more, and some parties still wait for messages."""

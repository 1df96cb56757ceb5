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

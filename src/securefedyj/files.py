"""Files that are written whole or not at all, and files of others, read up to a size limit."""

from __future__ import annotations

import codecs
import errno
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from securefedyj.errors import InputError

_NO_FILE = ", and no file of this kind is"


@contextmanager
def replacing(path: Path | str, *, private: bool = False) -> Iterator[Path]:
    """A temporary file in the same folder, which replaces `path` if the block succeeds.

    It is on the disk before it gets its name, so a crash leaves the old file or the new one. After
    an error the old file is unchanged, and nothing else is left. The new file keeps the mode of the
    old one; a private one is always for its owner alone.
    """
    target = Path(os.path.realpath(path))  # a link keeps pointing to the file
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    temporary = hidden_beside(target.with_name(Path(path).name))
    kept = None if private or not target.exists() else target.stat().st_mode & 0o777
    rights = 0o600 if private or kept is not None else 0o666  # minus the umask
    with _naming(path, temporary):
        os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, rights))
    try:
        if kept is not None:
            temporary.chmod(kept)
        with _naming(path, temporary):
            yield temporary
            sync(temporary)
            os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync(target.parent)


@contextmanager
def replacing_folder(path: Path | str) -> Iterator[Path]:
    """A temporary folder in the same folder, which replaces `path` if the block succeeds."""
    target = Path(os.path.realpath(path))
    new, old = hidden_beside(target), hidden_beside(target)
    with _naming(path, new):
        new.mkdir()
    try:
        yield new
        for inside in (*new.rglob("*"), new):
            sync(inside)
        if target.exists():
            os.replace(target, old)
        try:
            os.replace(new, target)
        except OSError:
            if old.exists():
                os.replace(old, target)
            raise
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise
    sync(target.parent)
    shutil.rmtree(old, ignore_errors=True)


def write_atomically(path: Path | str, content: bytes, *, private: bool = False) -> None:
    """Write a whole file, or leave the old one; a private one is for its owner alone."""
    write_together({path: content}, private=private)


def write_together(contents: Mapping[Path | str, bytes], *, private: bool = False) -> None:
    """Write all files, or none if one of them cannot be written."""
    with ExitStack() as names:
        # They get their names when the stack is left, in reverse order.
        for path, content in reversed(list(contents.items())):
            temporary = names.enter_context(replacing(path, private=private))
            temporary.write_bytes(content)


@contextmanager
def _naming(path: Path | str, temporary: Path) -> Iterator[None]:
    """An error of the system, such as a full disk, names the file that is to be written."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename not in (None, str(temporary)):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def hidden_beside(target: Path) -> Path:
    """A hidden name in the same folder, with the same ending."""
    return target.with_name(f".{secrets.token_hex(4)}.{target.name}")


class TooLarge(InputError):
    """A file that is larger than any that this program writes; the message does not name it."""


def read_within(path: Path | str, most: int) -> bytes:
    """The content of a file of at most `most` bytes, without a byte order mark of UTF-8."""
    with open(path, "rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise TooLarge("SFY-FILE-001", f"it is larger than {_size(most)}{_NO_FILE}")
    return content.removeprefix(codecs.BOM_UTF8)  # as Windows editors write it


def lines_within(path: Path | str, most: int, most_in_line: int) -> Iterator[bytes]:
    """Read lines as needed, with a limit of bytes for the file and for each line."""
    with open(path, "rb") as file:
        left = most
        while line := file.readline(min(left, most_in_line) + 1):
            left -= len(line)
            if left < 0:
                raise TooLarge("SFY-FILE-002", f"it is larger than {_size(most)}{_NO_FILE}")
            if len(line) > most_in_line:
                raise TooLarge(
                    "SFY-FILE-003", f"one of its lines is longer than {_size(most_in_line)}"
                )
            yield line


def _size(count: int) -> str:
    return f"{count >> 20} MiB" if count >= 1 << 20 else f"{count} bytes"


def sync(path: Path) -> None:
    """Wait until the disk has it; Windows cannot do that for folders, and need not."""
    if path.is_dir() and os.name == "nt":
        return
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

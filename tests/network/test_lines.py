"""A file of lines holds whole lines only, for one process at a time, and for its owner alone."""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from securefedyj.network.lines import LineFile


@pytest.fixture
def path(tmp_path) -> Path:
    path = tmp_path / "lines.jsonl"
    with LineFile(path) as lines:
        lines.append({"first": 1})
        lines.append({"second": "\u00e9"}, sync=True)
    return path


def test_what_is_appended_is_read(path):
    with LineFile(path, os.O_RDONLY) as lines:
        lines.lock()
        assert [json.loads(line) for line in lines.read()] == [{"first": 1}, {"second": "\u00e9"}]
        assert lines.size == path.stat().st_size
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_that_others_can_read_is_closed_to_them(path):
    path.chmod(0o644)
    with LineFile(path) as lines:
        lines.lock()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("mend", [False, True])
def test_a_last_line_without_its_end_is_dropped_or_kept(path, mend):
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"thi')
    with LineFile(path) as lines:
        assert lines.read(mend=mend) == whole.splitlines() + [b'{"thi'] * (not mend)
        lines.append({"next": 3})
    assert path.read_bytes() == whole + b'{"thi\n' * (not mend) + b'{"next": 3}\n'


def test_a_file_without_lines_is_empty(tmp_path):
    with LineFile(tmp_path / "new") as lines:
        assert lines.read() == []
        lines.append({"first": 1})
        lines.clear()
        assert (lines.read(), lines.size) == ([], 0)


def test_a_writer_has_the_file_alone_and_readers_share_it(path):
    with LineFile(path, os.O_RDONLY) as one, LineFile(path, os.O_RDONLY) as two:
        one.lock()
        two.lock(wait=False)
        with LineFile(path) as writer, pytest.raises(BlockingIOError):
            writer.lock(wait=False)
    with LineFile(path) as writer:
        writer.lock(wait=False)


@pytest.mark.parametrize("failing", ["write", "fsync"])
def test_a_line_that_cannot_be_written_whole_is_not_there_at_all(path, monkeypatch, failing):
    whole, write, pieces = path.read_bytes(), os.write, []

    def full(handle: int, data: bytes) -> int:
        pieces.append(data)
        return write(handle, data[:5]) if len(pieces) == 1 else no_space()

    def no_space(*_: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, failing, full if failing == "write" else no_space)
    with LineFile(path) as lines, pytest.raises(OSError, match="No space left on device"):
        lines.append({"third": 3}, sync=True)
    assert path.read_bytes() == whole


def test_nothing_is_written_after_close(path):
    lines, whole = LineFile(path), path.read_bytes()
    lines.close()
    lines.close()
    for late in (lambda: lines.append({"third": 3}), lines.sync):
        with pytest.raises(OSError, match="Bad file descriptor"):
            late()
    assert path.read_bytes() == whole

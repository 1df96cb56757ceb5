"""A journal that was cut at any byte, and a disk that is full at any write."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from securefedyj.network.errors import EndOfRun, JoinError
from securefedyj.network.session.journal import FILE, open_journal
from securefedyj.network.session.memory import Memory, digest_of
from securefedyj.protocol.transcript import Transcript
from tests.network.machines import AGREEMENT, BEGINNINGS, OPENINGS, whole


def opened(folder: Path, rows: str = "rows") -> Memory:
    return open_journal(folder, AGREEMENT, "f" * 64, "ana", lambda key: rows + key.hex())


def live(journal: Memory) -> None:
    """A run that is interrupted twice, makes one opening again, and comes to its end."""
    journal.begin(0)
    for number, reveal in enumerate(whole().reveals):
        before = Transcript(AGREEMENT, whole().reveals[:number])
        if number in BEGINNINGS:
            journal.exchange(before)
        journal.opening(before)
        if number in (2, 4):
            journal.interrupt("cem")
            journal.begin(number, again=number == 2)
            journal.exchange(before)
            if number == 2:
                journal.opening(before)
        journal.take([reveal])
    journal.confirm(digest_of(journal, journal.outcome()))


def shown(journal: Memory) -> tuple[Any, ...]:
    known = journal
    return (
        len(known.transcript.reveals), known.sent, known.least, known.most, known.repeats,
        [one.by for one in known.interruptions], known.running, known.confirmed, known.failed,
    )  # fmt: skip


@pytest.fixture(scope="module")
def content(tmp_path_factory) -> bytes:
    folder = tmp_path_factory.mktemp("whole")
    journal = opened(folder)
    live(journal)
    journal.close()
    return (folder / FILE).read_bytes()


def test_a_journal_cut_at_any_byte_is_that_of_its_whole_lines(tmp_path, content):
    """As after a power cut; what was cut off is nothing that a message was sent after."""
    path, states = tmp_path / FILE, {}
    for size in range(len(content) + 1):
        path.write_bytes(content[:size])
        journal = opened(tmp_path)
        journal.close()
        lines = content[:size].count(b"\n")
        states.setdefault(lines, shown(journal))
        assert shown(journal) == states[lines]
        kept = path.read_bytes()
        assert kept.endswith(b"\n")
        if lines > 1:
            whole_lines = content[: content[:size].rindex(b"\n") + 1]
            assert kept.startswith(whole_lines)
            added = kept[len(whole_lines) :].splitlines()
            assert [next(iter(json.loads(line))) for line in added] in ([], ["interruption"])
            with pytest.raises(JoinError, match="The rows are not those"):
                opened(tmp_path, "other rows")
    assert states[len(states) - 1][0] == OPENINGS


def test_zeros_in_place_of_the_last_lines_are_dropped_or_refused(tmp_path, content):
    """As some file systems leave them."""
    path = tmp_path / FILE
    for size in range(0, len(content), 7):
        path.write_bytes(content[:size] + bytes(len(content) - size))
        with contextlib.suppress(JoinError):
            opened(tmp_path).close()


@pytest.mark.parametrize("torn", [0, 1, 9])
def test_a_disk_that_is_full_at_any_write_ends_the_run_before_anything_is_sent(
    tmp_path, monkeypatch, torn
):
    """What was noted is at least what was sent, and the run can go on."""
    write = os.write
    for most in range(60):
        folder = tmp_path / str(most)
        folder.mkdir()
        left = [most]

        def full(file: int, data: bytes, left: list[int] = left) -> int:
            if left[0] == 0:
                left[0] = -1
                return write(file, data[:torn]) if torn else _no_space()
            if left[0] < 0:
                return _no_space()
            left[0] -= 1
            return write(file, data)

        journal, words = None, ""
        monkeypatch.setattr(os, "write", full)
        try:
            journal = opened(folder)
            live(journal)
        except JoinError as error:
            words = str(error)
        finally:
            monkeypatch.setattr(os, "write", write)
            if journal is not None:
                journal.close()
        again = opened(folder)
        again.close()
        if not words:
            assert again.confirmed
            return
        assert "the disk is full" in words
        if journal is not None:
            assert len(again.transcript.reveals) in (
                len(journal.transcript.reveals),
                len(journal.transcript.reveals) - 1,
            )
    raise AssertionError("the disk was full all the time")


def _no_space() -> int:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_two_processes_do_not_share_a_journal(tmp_path):
    first = opened(tmp_path)
    with pytest.raises(JoinError, match="Another process takes part"):
        opened(tmp_path)
    first.fail("It is over.")
    first.close()
    with pytest.raises(EndOfRun, match="It is over"):
        opened(tmp_path)

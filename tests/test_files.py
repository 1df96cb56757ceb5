"""Folders are whole or not there; files of others are read up to a bound."""

import os
import stat
from contextlib import suppress
from pathlib import Path

import pytest

from securefedyj.files import (
    TooLarge,
    lines_within,
    read_within,
    replacing_folder,
    write_atomically,
)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def watched(monkeypatch):
    """The rights that files were given at some time; who opens one meanwhile reads it later."""
    given = []
    make, change = os.open, Path.chmod

    def made(path, flags, rights=0o777, **options):
        handle = make(path, flags, rights, **options)
        given.append(stat.S_IMODE(os.fstat(handle).st_mode))
        return handle

    def changed(path, rights, **options):
        given.append(rights)
        change(path, rights, **options)

    monkeypatch.setattr(os, "open", made)
    monkeypatch.setattr(Path, "chmod", changed)
    return given


@pytest.mark.parametrize("there", [False, True])
def test_a_private_file_is_at_no_time_for_others(tmp_path, watched, there):
    path = tmp_path / "report.html"
    if there:
        path.touch(0o644)
    watched.clear()
    write_atomically(path, b"my own rows", private=True)
    assert mode(path) == 0o600
    assert watched
    assert all(rights & 0o077 == 0 for rights in watched)


def test_a_new_file_has_the_usual_rights_and_an_old_one_keeps_its_own(tmp_path, monkeypatch):
    before = os.umask(0o027)
    try:
        # Threads of others would make files with another one.
        monkeypatch.setattr(os, "umask", lambda mask: pytest.fail("the umask was changed"))
        for _ in range(2):
            write_atomically(tmp_path / "new", b"")
        (tmp_path / "old").touch()
        (tmp_path / "old").chmod(0o604)
        write_atomically(tmp_path / "old", b"")
    finally:
        monkeypatch.undo()
        os.umask(before)
    assert (mode(tmp_path / "new"), mode(tmp_path / "old")) == (0o640, 0o604)


def test_a_file_up_to_the_bound_is_read(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"12345")
    assert read_within(path, 5) == b"12345"
    with pytest.raises(TooLarge, match="larger than 4 bytes"):
        read_within(path, 4)


def test_a_file_without_an_end_is_refused():
    with pytest.raises(TooLarge, match="larger than 1 MiB"):
        read_within("/dev/zero", 1 << 20)
    with pytest.raises(TooLarge, match="one of its lines is longer than 1 MiB"):
        list(lines_within("/dev/zero", 1 << 24, 1 << 20))


def test_lines_up_to_the_bounds_are_read(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"123\n45\n6")
    assert list(lines_within(path, 8, 4)) == [b"123\n", b"45\n", b"6"]
    with pytest.raises(TooLarge, match="larger than 7 bytes"):
        list(lines_within(path, 7, 4))
    with pytest.raises(TooLarge, match="longer than 3 bytes"):
        list(lines_within(path, 8, 3))


def test_a_folder_takes_the_place_of_another_when_it_is_whole(tmp_path):
    for text in ("old", "new"):
        with replacing_folder(tmp_path / "a") as folder:
            (folder / "b").mkdir()
            (folder / "b" / text).write_text(text)
    with suppress(KeyboardInterrupt), replacing_folder(tmp_path / "a") as folder:
        (folder / "half").touch()
        raise KeyboardInterrupt
    assert [str(path.relative_to(tmp_path)) for path in sorted(tmp_path.rglob("*"))] == [
        "a", "a/b", "a/b/new"
    ]  # fmt: skip
    with pytest.raises(OSError, match="cannot write"), replacing_folder(tmp_path / "no" / "a"):
        pass

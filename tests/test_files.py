"""Folders are whole or not there; files of others are read up to a bound."""

import errno
import os
import stat
from pathlib import Path

import pytest

from securefedyj.files import (
    TooLarge,
    lines_within,
    read_within,
    replacing,
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


def stopped(replacing, begin):
    """Begin to write, and be interrupted."""
    with replacing as temporary:
        begin(temporary)
        raise KeyboardInterrupt


@pytest.fixture
def steps(monkeypatch):
    """What is made safe, by its inode, and what gets its name, in order; nothing stays open."""
    done: list[int | Path] = []
    still_open = set()
    make, shut, sync, replace = os.open, os.close, os.fsync, os.replace

    def opened(path, *args, **options):
        handle = make(path, *args, **options)
        still_open.add(handle)
        return handle

    def closed(handle):
        still_open.discard(handle)
        shut(handle)

    def synced(handle):
        done.append(os.fstat(handle).st_ino)
        sync(handle)

    def replaced(old, new):
        done.append(new)
        replace(old, new)

    monkeypatch.setattr(os, "open", opened)
    monkeypatch.setattr(os, "close", closed)
    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    yield done
    assert not still_open


def test_a_file_is_safe_on_the_disk_before_it_has_its_name(tmp_path, steps):
    """And its name is, before the call returns: a power cut leaves the old file or the new one."""
    path = tmp_path / "a"
    write_atomically(path, b"whole")
    assert path.read_bytes() == b"whole"
    assert steps == [path.stat().st_ino, path, tmp_path.stat().st_ino]


def test_all_of_a_folder_is_safe_before_it_has_its_name(tmp_path, steps):
    with replacing_folder(tmp_path / "a") as folder:
        (folder / "b").mkdir()
        (folder / "b" / "c").touch()
    path = tmp_path / "a"
    inside = {one.stat().st_ino for one in (path, path / "b", path / "b" / "c")}
    assert set(steps[:3]) == inside
    assert steps[3:] == [path, tmp_path.stat().st_ino]


@pytest.mark.parametrize("there", [False, True])
def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, there):
    path = tmp_path / "a"
    if there:
        path.write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt):
        stopped(replacing(path), lambda temporary: temporary.write_bytes(b"half"))
    with pytest.raises(KeyboardInterrupt):
        stopped(replacing(path), Path.unlink)

    def full(self, content):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space left on device") as caught:
        write_atomically(path, b"new")
    assert caught.value.filename == str(path)
    assert list(tmp_path.iterdir()) == [path] * there
    assert not there or path.read_bytes() == b"old"


def test_where_no_file_can_be_there_is_no_file(tmp_path):
    for path, kind in ((tmp_path, IsADirectoryError), (tmp_path / "no" / "a", FileNotFoundError)):
        with pytest.raises(kind) as caught:
            write_atomically(path, b"")
        assert caught.value.filename == str(path)


def test_a_folder_that_cannot_get_its_name_leaves_the_old_one(tmp_path, monkeypatch):
    path, replace = tmp_path / "a", os.replace
    with replacing_folder(path) as folder:
        (folder / "old").touch()

    def refuse(old, new):
        if Path(new) == path and not (Path(old) / "old").exists():
            raise PermissionError("not now")
        replace(old, new)

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(PermissionError, match="not now"), replacing_folder(path) as folder:
        (folder / "new").touch()
    with pytest.raises(PermissionError, match="not now"), replacing_folder(tmp_path / "b"):
        monkeypatch.setattr(os, "replace", lambda old, new: refuse(old, path))
    assert [str(one.relative_to(tmp_path)) for one in sorted(tmp_path.rglob("*"))] == ["a", "a/old"]


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
    with pytest.raises(KeyboardInterrupt):
        stopped(replacing_folder(tmp_path / "a"), lambda folder: (folder / "half").touch())
    assert [str(path.relative_to(tmp_path)) for path in sorted(tmp_path.rglob("*"))] == [
        "a", "a/b", "a/b/new"
    ]  # fmt: skip
    with pytest.raises(FileNotFoundError), replacing_folder(tmp_path / "no" / "a"):
        pass

"""Folders are whole or not there; files of others are read up to a bound."""

from contextlib import suppress

import pytest

from securefedyj.files import TooLarge, lines_within, read_within, replacing_folder


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

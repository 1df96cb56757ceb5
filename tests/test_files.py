"""Files of others are read up to a bound."""

import pytest

from securefedyj.files import TooLarge, lines_within, read_within


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

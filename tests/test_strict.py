from typing import Annotated, Literal

import pytest
from msgspec import Meta

from securefedyj.strict import (
    Finite,
    Malformed,
    Record,
    convert,
    hexadecimal,
    parse,
)


class Line(Record, frozen=True):
    """A line of a file."""

    name: str
    count: Annotated[int, Meta(ge=0, le=9)]
    width: Finite = 0.0
    digest: Annotated[str, hexadecimal(2)] = "0000"


def test_record_is_read_by_its_annotations():
    assert convert({"name": "a", "count": 3}, Line, "line 1") == Line("a", 3)
    assert convert({"name": "a", "count": 3, "width": 2}, Line, "line 1").width == 2.0


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"name": 1}, "line 1: name must be a text, not 1"),
        ({"count": True}, "line 1: count must be a whole number, not"),
        ({"count": 1.0}, "line 1: count must be a whole number, not"),
        ({"count": 10}, "line 1: count must be a whole number <= 9, not 10"),
        ({"width": float("inf")}, "line 1: width must be a number <="),
        ({"width": float("nan")}, "line 1: width must be a number"),
        ({"width": 10**400}, "line 1: width number out of range"),
        ({"width": False}, "line 1: width must be a number"),
        ({"digest": "00ff\n"}, "line 1: digest must be a text matching"),
        ({"digest": "00FF"}, "line 1: digest must be a text matching"),
        ({"more": 1}, "line 1 has an unknown field 'more'"),
    ],
)
def test_record_refuses_what_its_annotations_do_not_say(fields, why):
    with pytest.raises(Malformed) as raised:
        convert({"name": "a", "count": 3, **fields}, Line, "line 1")
    assert why in str(raised.value)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "not JSON"),
        (b"\xff", "not JSON"),
        ("[" * 100_000, "nested too deeply"),
        ("[" * 500 + "]" * 500, "nested too deeply"),
        ('{"a":' * 500 + "1" + "}" * 500, "nested too deeply"),
        ("[" * 18 + "]" * 18, "nested too deeply"),
        ("[" + "[]," * 100_000 + "[]]", "more than"),
        ("[" + "1," * 800_001 + "1]", "more than"),
        ("{" + ",".join(f'"{j}":1' for j in range(1001)) + "}", "1001 fields; 1000 are possible"),
        ("1" * 5000, "more than 4300 digits"),
        ("[1, -" + "1" * 5000 + ".5]", "more than 4300 digits"),
        (" " * (1 << 24) + "1", "bytes are too many"),
        ('"' + "a" * (1 << 20) + 'é"', "bytes that are not all ASCII are too many"),
        ("\ufeff{}", "not JSON"),
        (b"\xef\xbb\xbf{}", "not JSON"),
        ("{}".encode("utf-16"), "not JSON"),
        (b'"\xed\xa0\x80"', "not JSON"),
        ("\0", "not JSON"),
        ('"\0"', "not JSON"),
        ('"abc', "not JSON"),
        ('{"a": NaN}', "NaN"),
        ("-Infinity", "-Infinity"),
        ('{"a": 1, "b": {"c": 1, "c": 1}}', "'c' is there more than once"),
        ('{"a": 1, "c": 1, "c": 1}', "'c' is there more than once"),
        ("[" + "[]," * 50_000 + "{}," * 49_999 + "{}]", "more than 800000 values, or 100000 lists"),
    ],
)
def test_what_is_not_json_is_refused_in_a_sentence(text, why):
    with pytest.raises(Malformed, match=why):
        parse(text)


def test_json_is_read():
    assert parse(b'{"a": [1, 2.5, null, "x"]}') == {"a": [1, 2.5, None, "x"]}
    assert parse("[" * 17 + "]" * 17)
    assert parse("[1,2]", most=5) == [1, 2]
    with pytest.raises(Malformed, match="5 bytes are too many; 4 are possible here"):
        parse("[1,2]", most=4)
    assert parse('"' + "0" * 5000 + '"') == "0" * 5000
    assert len(parse("[" + "1," * 800_000 + "1]")) == 800_001
    assert len(parse("[" + "[]," * 50_000 + "{}," * 49_998 + "{}]")) == 99_999
    assert len(parse("{" + ",".join(f'"{j}":1' for j in range(1000)) + "}")) == 1000


@pytest.mark.parametrize(
    ("most", "size"), [(1 << 24, 1 << 20), (1 << 20, 1 << 16), (1 << 16, 1 << 16)]
)
def test_a_text_that_is_not_all_ascii_may_be_a_sixteenth_or_small(most, size):
    text = "é" + "a" * (size - 3)
    assert parse(f'"{text}"', most) == text
    if size < most:
        with pytest.raises(Malformed, match="bytes that are not all ASCII are too many"):
            parse(f'"{text}a"', most)


class _Named(Record, frozen=True):
    name: Literal["known"]


@pytest.mark.parametrize(
    "text",
    [r'"\ud800"', r'{"name": "\ud800"}', r'{"\ud800": 1}', r'{"name": "known", "\udfff": 1}'],
)
def test_half_a_character_is_refused_like_all_else_that_is_malformed(text):
    """Otherwise anybody who can leave a file or send a record ends the process that reads it."""
    with pytest.raises(Malformed):
        convert(parse(text), _Named, "the record")

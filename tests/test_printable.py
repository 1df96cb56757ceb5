"""What a file or a peer says cannot move a cursor, and cannot hide."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from securefedyj.printable import in_words, parties_in_words, printable, printable_lines, shown

CONTROLS = {
    "escape": ("\x1b[2J\x1b[H", r"\x1b[2J\x1b[H"),
    "8-bit CSI": ("\x9b2J", r"\x9b2J"),
    "carriage return": ("bad\rgood", r"bad\x0dgood"),
    "backspace": ("bad\b\b\bgood", r"bad\x08\x08\x08good"),
    "delete": ("\x7f", r"\x7f"),
    "line break": ("a\nb", r"a\x0ab"),
    "line separator": ("a\u2028b\u2029c\x85d", r"a\u2028b\u2029c\x85d"),
    "bidirectional override": ("\u202edab\u202c", r"\u202edab\u202c"),
    "isolate": ("\u2066a\u2069", r"\u2066a\u2069"),
    "zero width": ("a\u200bb\u200d\ufeff", r"a\u200bb\u200d\ufeff"),
    "no-break space": ("a\xa0b", r"a\xa0b"),
    "tag": ("\U000e0041", r"\U000e0041"),
    "lone surrogate": ("\ud800", r"\ud800"),
    "filler": ("a\u3164b\u2800", r"a\u3164b\u2800"),
    "variation selector": ("a\ufe0f\U000e0100", r"a\ufe0f\U000e0100"),
    "pile of marks": ("a\u0301\u0302\u0303", r"a\u0301\u0302\u0303"),
    "spaces up to the next line": ("a   b", r"a \x20\x20b"),
    "NUL": ("a\0b", r"a\x00b"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "seen"), CONTROLS.values(), ids=CONTROLS.keys())
def test_what_controls_a_terminal_is_seen(text, seen):
    assert printable(text) == seen


@pytest.mark.parametrize(
    "text", ["", "mmol/L", "10⁹/l", "°C", "Å, é, e\u0301, ß", "年齢", "γδ T cells", "a b"]
)
def test_plain_text_stays_as_it_is(text):
    assert printable(text) == text
    assert printable_lines(text) == text


@given(st.text(st.characters(exclude_categories=())))
def test_nothing_but_printable_characters_is_left(text):
    for out in (printable(text), printable_lines(text).replace("\n", "")):
        out.encode()  # no surrogates
        assert not {"Cc", "Cf", "Cs", "Zl", "Zp", "Cn", "Co"} & set(map(unicodedata.category, out))


def test_the_programs_own_line_breaks_and_indentation_stay():
    assert printable_lines("Parties:\n    a\r\x1b[A\n") == "Parties:\n    a\\x0d\\x1b[A\n"


def test_a_bound_is_kept():
    assert printable("a" * 100, 10) == "aaaaaaa..."
    assert printable("a" * 10, 10) == "a" * 10


def nested(levels):
    value = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [
        nested(100_000),
        1 << 10**6,
        -(1 << 10**6),
        "a" * 10**6,
        ["\x1b"] * 1000,
        {"\r": nested(5000)},
    ],
    ids=["deep", "large", "small", "long", "many", "deep in an object"],
)
def test_any_value_is_shown_in_short(value):
    assert len(shown(value)) <= 80
    assert shown(value).isprintable()


@pytest.mark.parametrize("value", [1, 1.0, True, None, "a", [1, 2], {"a": 1}, float("inf")])
def test_a_small_value_is_shown_as_python_writes_it(value):
    assert shown(value) == repr(value)


def test_names_are_put_as_one_says_them():
    assert in_words(["east", "south", "west"]) == "east, south and west"
    assert in_words(["east\n"]) == r"east\x0a"
    assert in_words([]) == "nobody"
    assert parties_in_words(["east"]) == "Party east"
    assert parties_in_words(["east", "west"]) == "Parties east and west"

"""Hostile content: what is valid, changed a little or much, and what a grammar makes up."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

NUMBERS = (
    "0",
    "-0",
    "-0.0",
    "-1",
    "1",
    "2",
    "3",
    "7",
    "200",
    "201",
    "255",
    "256",
    "65536",
    "0.5",
    "1e-400",
    "1e308",
    "1e400",
    "-1e400",
    "1e999999999",
    "2147483648",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775809",
    "18446744073709551616",
    "1000000000000000000",
    "1" + "0" * 400,
    "9" * 4300,
    "9" * 4301,
    "NaN",
    "Infinity",
    "-Infinity",
    "nan",
    "inf",
    "0x" + "f" * 5000,
    "true",
    "false",
    "null",
    "1979-05-27",
    "1_0",
    "+1",
    ".5",
    "01",
)
TEXTS = (
    "",
    " ",
    "x",
    "\x1b[2J\x1b[H",
    "\x9b2J",
    "\r",
    "\b\b\b",
    "\x7f",
    "\0",
    "a\nb",
    "\u202egood",
    "\u2066",
    "\u200b",
    "\u2028",
    "\x85",
    "\ufeff",
    "\ud800",
    "\U000e0041",
    "a" * 201,
    "a" * 5000,
    "a" * 100_000,
    "  ",
    "é",
    "0x",
    "-0x1",
    "0x" + "f" * 3000,
    "0xg",
    "sha256:",
    "silo",
    "helper",
    "member",
    "replicated",
    "clear",
    "mpyc",
    "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----",
    "127.0.0.1:70000",
    "[::1]:1",
    ":1",
    "a:",
    "\x1b:1",
    "a:１",
    "counts",
    "step",
    "moments",
    "magnitudes",
    "result",
)
KEYS = (
    "format",
    "version",
    "agreement",
    "features",
    "parties",
    "committee",
    "name",
    "hub",
    "party",
    "feature",
    "transcript",
    "reveal",
    "result",
    "step",
    "lmbda",
    "delta",
    "V",
    "S_y",
    "n",
    "magnitude",
    "lower",
    "upper",
    "max_steps",
    "levels_per_exchange",
    "minimum_values",
    "result_bits",
    "digest",
    "clock",
    "random",
    "reveals",
    "session",
    "rounds",
    "bytes_sent",
    "seconds",
    "\x1b",
    "",
)
_SIGNS = ("[", "]", "{", "}", ",", ":", '"', "\\", "\n", "=", "[[", "]]", '"""', "'''", "#")
_DEEP = ("[" * 40, "{" * 40, '{"a":' * 40, "[" * 3000, "]" * 3000, "[[]," * 20)
_TABLES = ("[hub]", "[[party]]", "[[feature]]", "a.b.c = 1\n", ".".join("a" * 300) + " = 1\n")
_BYTES = (b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\xf8\x88\x80\x80\x80", b"\0" * 8)
_QUOTED = (*(json.dumps(text) for text in TEXTS), *(f'"{key}":' for key in KEYS))
PIECES = (
    *_BYTES,
    *(
        piece.encode("utf-8", "surrogatepass")
        for piece in (*NUMBERS, *TEXTS[:20], *_QUOTED, *_SIGNS, *_DEEP, *_TABLES)
    ),
)

_scalars = st.one_of(
    st.sampled_from(TEXTS),
    st.sampled_from([0, -1, 1, 2**31, 2**63, -(2**63) - 1, 10**18, 10**400, True, False, None]),
    st.sampled_from([0.0, -0.0, 0.5, 1e308, -1e-320, float("inf"), float("nan")]),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    _scalars,
    lambda inner: (
        st.lists(inner, max_size=6) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6)
    ),
    max_leaves=12,
)


@st.composite
def edited(draw: st.DrawFn, seed: bytes) -> bytes:
    """The seed after a few cuts, repetitions and insertions."""
    content = seed
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(content)))
        end = min(len(content), at + draw(st.sampled_from([0, 0, 1, 2, 8, 60, 500, 10**9])))
        middle = draw(
            st.one_of(
                st.sampled_from(PIECES),
                st.binary(max_size=8),
                st.just(content[at:end] * 2),
                st.just(b""),
            )
        )
        content = content[:at] + middle + content[end:]
    return content


def _places(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """All places in a tree of JSON, of long lists the first and the last."""
    found = [path]
    if isinstance(data, dict):
        for key, value in data.items():
            found += _places(value, (*path, key))
    elif isinstance(data, list):
        for j in {0, len(data) - 1} if data else ():
            found += _places(data[j], (*path, j))
    return found


@st.composite
def replaced(draw: st.DrawFn, seed: Any) -> Any:
    """A tree of JSON with other values in some places, or with fields too few or too many."""
    data = json.loads(json.dumps(seed))
    for _ in range(draw(st.integers(1, 3))):
        places = _places(data)
        *path, last = draw(st.sampled_from(places)) or (None,)
        if last is None:
            return draw(VALUES)
        inside = data
        for step in path:
            inside = inside[step]
        change = draw(st.sampled_from(["replace", "replace", "replace", "drop", "repeat", "add"]))
        if change == "drop":
            del inside[last]
        elif change == "add" and isinstance(inside, dict):
            inside[draw(st.sampled_from(KEYS))] = draw(VALUES)
        elif change == "repeat" and isinstance(inside[last], list):
            inside[last] = inside[last] * draw(st.sampled_from([2, 100]))
        else:
            inside[last] = draw(VALUES)
    return data


def as_json(data: Any) -> bytes:
    try:
        return json.dumps(data).encode()
    except ValueError:  # a whole number that Python does not write
        return b"1" * 5000


def json_documents(seed: Any) -> st.SearchStrategy[bytes]:
    """Hostile versions of one document."""
    return st.one_of(
        replaced(seed).map(as_json),
        edited(as_json(seed)),
        VALUES.map(as_json),
        st.binary(max_size=60),
    )


@st.composite
def json_lines(draw: st.DrawFn, seed: list[Any]) -> bytes:
    """Hostile versions of a document of lines: changed, dropped, repeated, in another order."""
    lines = list(seed)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(lines) - 1))
        change = draw(
            st.sampled_from(["change", "change", "change", "drop", "repeat", "swap", "end"])
        )
        if change == "change":
            lines[at] = draw(replaced(lines[at]))
        elif change == "drop" and len(lines) > 1:
            del lines[at]
        elif change == "repeat":
            lines.insert(at, lines[at])
        elif change == "end":
            lines = lines[: at + 1]
        else:
            other = draw(st.integers(0, len(lines) - 1))
            lines[at], lines[other] = lines[other], lines[at]
    content = b"".join(as_json(line) + b"\n" for line in lines)
    return draw(edited(content)) if draw(st.integers(0, 3)) == 0 else content


@st.composite
def toml_documents(draw: st.DrawFn, seed: str) -> bytes:
    """Hostile versions of an agreed file: other values behind keys, other lines, other bytes."""
    lines = seed.split("\n")
    assignments = [j for j, line in enumerate(lines) if " = " in line]
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.sampled_from(assignments))
        key = lines[at].partition(" = ")[0]
        value = draw(
            st.one_of(
                st.sampled_from(NUMBERS),
                st.integers(1, 50).map(str),
                st.floats(0.1, 1e6).map(repr),
                st.text("aé °/", min_size=1, max_size=9).map(json.dumps),
                st.sampled_from(TEXTS).map(json.dumps),
                st.text(max_size=20).map(json.dumps),
                VALUES.map(lambda data: as_json(data).decode()),
            )
        )
        key = draw(
            st.sampled_from([key, key, key, f"{key}.a", json.dumps(draw(st.sampled_from(KEYS)))])
        )
        lines[at] = f"{key} = {value}"
    content = "\n".join(lines).encode()
    return draw(edited(content)) if draw(st.integers(0, 2)) == 0 else content


def _filled(begin: bytes, piece: bytes, end: bytes, size: int) -> bytes:
    return begin + piece * ((size - len(begin) - len(end)) // len(piece)) + end


def _numbered(begin: str, form: str, end: str, size: int) -> bytes:
    """As many different pieces as there is room for."""
    count = (size - len(begin) - len(end)) // len(form.format(size))
    content = bytearray(begin.encode())
    for number in range(count):  # not all at once: their own memory would be counted
        content += form.format(number).encode()
    return bytes(content + end.encode())


def large_json(size: int) -> Iterator[bytes]:
    """Texts of that size whose content takes many times as much, if nobody looks."""
    for piece in (b"[],", b"{},", b"1e9,", b"999,", b'"\xc4\x81",', b'"abc",', b'[[[{"a":[]}]]],'):
        yield _filled(b"[", piece, b"1]", size)
    yield _numbered("{", '"{:x}":1,', '"a":1}', size)
    yield _filled(b'"', b"a", "\U0001f600".encode() + b'"', size)
    yield _filled(b"", b"[", b"", size)
    yield _filled(b"", b"9", b"", size)
    yield _filled(b"1", b"9", b".5", size)
    yield _filled(b"", b" ", b"1", size + 1)


def large_toml(size: int) -> Iterator[bytes]:
    """The same for TOML."""
    for form in ("[a{}]\n", "[[a{}]]\n", "a{}.b = 1\n", "a{} = 1\n", "a{}=[]\n", "a{}={{}}\n"):
        yield _numbered("format = 1\n", form, "", size)
    for piece in (b"[],", b"{},", b"1e9,", b"999,", b"{a.b=1},", "'\u0101',".encode()):
        yield _filled(b"format = 1\na = [", piece, b"]", size)
    yield _filled(b"", b"[[feature]]\n", b"", size)
    yield _filled(b"a", b".a", b" = 1", size)
    yield _filled(b"a = ", b"[", b"", size)
    yield _filled(b"a = '", b"a", "\U0001f600".encode() + b"'", size)
    yield _filled(b"", b"#", b"", size + 1)


def large_lines(seed: list[Any], size: int) -> Iterator[bytes]:
    """The same for a transcript: its first line, and then any number of others."""
    head = as_json(seed[0]) + b"\n"
    reveals = {line.get("reveal"): line for line in seed[1:]}
    for line in reveals.values():
        few = {key: value[:1] if isinstance(value, list) else value for key, value in line.items()}
        none = {key: [] if isinstance(value, list) else value for key, value in line.items()}
        for content in (line, few, none):
            yield _filled(head, as_json(content) + b"\n", b"", size // 64)
    yield _filled(head, b"\n", b"", size)
    yield _filled(head, b"[],", b"\n", size)
    for content in large_json(1 << 24):
        content = head + content  # the other is not counted
        yield content

"""The agreed file as TOML: written without loss, and read within bounds."""

import dataclasses
import tomllib
import tracemalloc

import pytest

from securefedyj.network.consortium import Consortium, ConsortiumError, Feature
from securefedyj.network.consortium.toml_text import MOST_BYTES, write_table
from tests.network.harness import prepare


def test_any_text_reads_back_the_same():
    text = 'a "note"\twith\nlines, \\ and \x7f, \x1b, \u202e'
    assert tomllib.loads(write_table("", {"note": text})) == {"note": text}


HOSTILE = {
    "deep lists": "a = " + "[" * 50_000,
    "deep lists, closed": "a = " + "[" * 500 + "]" * 500,
    "deep lists of our own key": "format = " + "[" * 150 + "]" * 150,
    "deep tables": "a = " + "{b = " * 100 + "1" + "}" * 100,
    "deep keys": ".".join("a" * 900) + " = 1",
    "deeper keys": ".".join("a" * 100_000) + " = 1",
    "a deep head": f"[{'.'.join('a' * 50_000)}]",
    "many keys of several parts": "\n".join(f"a{j}.b = 1" for j in range(100_000)),
    "many tables": "\n".join(f"[a{j}]" for j in range(100_000)),
    "many lists of tables": "\n".join(f"[[a{j}]]" for j in range(100_000)),
    "many lists": "a = [" + "[]," * 1_000_000 + "]",
    "many texts": "a = [" + "'\u0101'," * 800_000 + "]",
    "a long number": "format = " + "9" * 5000,
    "a long hexadecimal number": "format = 0x" + "f" * 100_000,
    "a long hexadecimal bound": "format = 1\nlower = 0x" + "f" * 100_000,
    "a huge number of steps": "format = 1\nmax_steps = " + "9" * 30,
    "unclosed text": 'name = "abc',
    "unclosed lines": 'name = """abc\n' * 3,
    "NUL": "name = 'a\0b'",
    "not UTF-8": b"name = '\xff'",
    "UTF-16": "name = 'a'".encode("utf-16"),
    "byte order mark": "\ufefffname = 'a'",
    "surrogate": b"name = '\xed\xa0\x80'",
    "escaped surrogate": r'name = "\ud800"',
    "too large": b"#" * (MOST_BYTES + 1),
    "odd date": "format = 9999-99-99",
    "a date": "format = 1979-05-27",
    "empty": "",
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_file_gets_a_short_sentence(tmp_path, content):
    path = tmp_path / "c.toml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ConsortiumError, match=r"c\.toml") as caught:
        Consortium.read(path)
    assert len(str(caught.value).removeprefix(str(path))) < 400
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("form", ["[a{}]\n", "[[a{}]]\n", "a{}.b = 1\n", "a{} = []\n"])
def test_a_hostile_file_is_refused_before_it_takes_many_times_its_size(tmp_path, form):
    path = tmp_path / "c.toml"
    path.write_text("".join(form.format(j) for j in range(250_000)), encoding="utf-8")
    tracemalloc.start()
    with pytest.raises(ConsortiumError, match="no agreed file has"):
        Consortium.read(path)
    assert tracemalloc.get_traced_memory()[1] < 5 * path.stat().st_size
    tracemalloc.stop()


def test_a_large_honest_file_is_read(tmp_path):
    """20,000 features with units and notes."""
    consortium = prepare(tmp_path)
    features = tuple(
        Feature(f"gene.{j} [log2 {{x}}]", -1.5, 1e6, "counts/1e6", f"panel {j}, of v1.2.3. " * 3)
        for j in range(20_000)
    )
    many = dataclasses.replace(consortium, features=features)
    path = tmp_path / "many.toml"
    many.write(path)
    assert path.stat().st_size < MOST_BYTES
    assert Consortium.read(path).digest() == many.digest()

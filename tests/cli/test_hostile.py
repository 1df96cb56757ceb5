"""Files of others on a terminal: they say what they like, and control nothing."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path

import pytest

from securefedyj.cli.display import Display, tell
from securefedyj.cli.main import main
from securefedyj.parameters import Parameters
from securefedyj.protocol.transcript import Transcript
from tests.network.harness import prepare
from tests.protocol.small_run import small_run

# Clears the screen and begins anew at its top; the same by other means; changes of direction.
REPAINT = "\x1b[2J\x1b[H\x9b2J\r\b\x7f\u202e\u2066\u200b\u2028\x85"
GOOD = "0" * 64
FORGED = f"x\n  {GOOD}\nAudit: passed."


@pytest.fixture
def agreed(tmp_path) -> Path:
    prepare(tmp_path)
    return tmp_path / "consortium.toml"


def changed(path: Path, old: str, new: str) -> Path:
    """A hostile copy of the file; TOML and JSON write such characters alike."""
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    return path


def escaped(text: str) -> str:
    return json.dumps(text)[1:-1]


def assert_harmless(capsys) -> str:
    """Nothing but printable characters and line breaks was printed."""
    printed = capsys.readouterr()
    for text in (printed.out, printed.err):
        text.encode()
        kinds = {one: unicodedata.category(one) for one in text if one != "\n"}
        assert not [one for one, kind in kinds.items() if kind[0] == "C" or kind in ("Zl", "Zp")]
    return printed.out + printed.err


PLACES = {
    "unit": ("upper = 1000.0", 'upper = 1000.0\nunit = "mmol/L{}"'),
    "note": ("upper = 1000.0", 'upper = 1000.0\nnote = "{}"'),
    "hub": ('address = "127', 'address = "{}127'),
    "name": ('name = "on one', 'name = "{}on one'),
    "party": ('name = "ana"', 'name = "ana{}"'),
    "role": ('role = "silo"', 'role = "silo{}"'),
    "feature": ('name = "lactate"', 'name = "lactate{}"'),
    "committee": ('committee = ["ana"', 'committee = ["ana{}"'),
    "fingerprint": ('fingerprint = "', 'fingerprint = "{}'),
    "key": ("max_steps", '"{}" = 1\nmax_steps'),
    "table": ("[hub]", '["{}"]\n[hub]'),
}


@pytest.mark.parametrize("command", ["check", "plan", "join", "hub"])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("what", [REPAINT, FORGED], ids=["repaint", "forged lines"])
def test_an_agreed_file_cannot_repaint_the_screen(agreed, capsys, command, place, what):
    old, new = PLACES[place]
    changed(agreed, old, new.format(escaped(what)))
    identity = ["--key", "nowhere.key", "--certificate", "nowhere.pem"]
    more = {"join": [*identity, "--output", "out"], "hub": identity}.get(command, [])
    assert main([command, str(agreed), *more]) in (0, 1)
    text = assert_harmless(capsys)
    assert f"  {GOOD}" not in text.splitlines()


def test_an_agreed_file_cannot_write_on_the_next_line_by_many_spaces(agreed, capsys):
    changed(agreed, "upper = 1000.0", f'upper = 1000.0\nunit = "m{" " * 40}  {GOOD}"')
    main(["check", str(agreed)])
    assert f"  {GOOD}" not in assert_harmless(capsys)


def test_a_file_name_cannot_either(tmp_path, capsys):
    assert main(["check", str(tmp_path / "a\x1b[2J.toml")]) == 1
    assert r"a\x1b[2J.toml" in assert_harmless(capsys)


@pytest.fixture(scope="module")
def run() -> Transcript:
    return small_run()


def hostile_lines(run: Transcript, what: str) -> list[str]:
    """The transcript of a run with a feature, a party and a member of such names."""
    lines = list(run.to_lines())
    agreement = lines[0]["agreement"]
    agreement["features"] = [name + what for name in agreement["features"]]
    agreement["parties"] = [name + what for name in agreement["parties"]]
    agreement["committee"] = [name + what for name in agreement["committee"]]
    return [json.dumps(line) + "\n" for line in lines]


@pytest.mark.parametrize("what", [REPAINT, FORGED, "\ud800"], ids=["repaint", "lines", "surrogate"])
@pytest.mark.parametrize("command", ["audit", "report"])
@pytest.mark.parametrize("cut", [0, 3])
def test_a_transcript_cannot_repaint_the_screen(tmp_path, capsys, run, command, what, cut):
    path, page = tmp_path / "transcript.jsonl", tmp_path / "page.html"
    path.write_text("".join(hostile_lines(run, what)[: -cut or None]), encoding="utf-8")
    more = ["--output", str(page)] if command == "report" else []
    assert main([command, str(path), *more]) in (0, 1)
    text = assert_harmless(capsys)
    assert text.splitlines().count("Audit: passed.") <= 1 - bool(cut)
    assert f"  {GOOD}" not in text.splitlines()


@pytest.mark.parametrize("what", [REPAINT, FORGED], ids=["repaint", "forged lines"])
def test_parameters_cannot_repaint_the_screen(tmp_path, capsys, run, what):
    data = Parameters.of(run).to_json()
    names = [name + what for name in data["agreement"]["features"]]
    data["agreement"]["features"] = names
    for feature, name in zip(data["features"], names, strict=True):
        feature["name"] = name
    path, table = tmp_path / "parameters.json", tmp_path / "rows.csv"
    path.write_text(json.dumps(data))
    table.write_text("a,b\n1,2\n")
    assert main(["transform", str(path), str(table), "--output", str(tmp_path / "out.csv")]) == 1
    assert f"  {GOOD}" not in assert_harmless(capsys).splitlines()


MARKUP = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'&"


def test_a_transcript_cannot_put_markup_into_the_report(tmp_path, run):
    path, page = tmp_path / "transcript.jsonl", tmp_path / "page.html"
    path.write_text("".join(hostile_lines(run, MARKUP)))
    cost = {"party": MARKUP, "rounds": 1, "bytes_sent": {MARKUP: {MARKUP: 3}}, "seconds": 1.0}
    (tmp_path / "cost.json").write_text(json.dumps(cost))
    more = ["--cost", str(tmp_path / "cost.json"), "--output", str(page)]
    assert main(["report", str(path), *more]) == 0
    text = page.read_text(encoding="utf-8")
    assert "alert(1)" in text
    assert "<script>alert" not in text
    assert "<img" not in text


def test_words_of_others_while_a_run_goes_on_are_harmless(capsys):
    display = Display(terminal=True)
    display.say(f"The hub refuses us: {REPAINT}")
    tell(REPAINT)
    tell(REPAINT, error=True)
    assert r"\x1b[2J" in assert_harmless(capsys)


def test_a_sentence_is_not_longer_than_a_screen(agreed, capsys):
    changed(agreed, 'committee = ["ana"', f'committee = ["{"ana" * 100_000}"')
    assert main(["check", str(agreed)]) == 1
    assert len(assert_harmless(capsys)) < 5000

"""A journal has each line on the disk before the message that the line is about is sent."""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from securefedyj.network.errors import EndOfRun, OwnTrouble
from securefedyj.network.session import journal as module
from securefedyj.network.session.journal import FILE, FORMAT, JournalError, open_journal
from securefedyj.network.session.memory import Interruption, Memory
from securefedyj.protocol.reveals import to_line
from securefedyj.protocol.transcript import Origin, Transcript
from tests.network.machines import AGREEMENT, OPENINGS, whole
from tests.network.test_torn_journals import live, opened


def before(number: int) -> Transcript:
    return Transcript(AGREEMENT, whole().reveals[:number])


def lines_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / FILE).read_bytes().splitlines()]


@pytest.fixture
def journal(tmp_path):
    """Of a run that is about to make its second opening."""
    new = opened(tmp_path)
    new.begin(0)
    new.exchange(before(0))
    new.opening(before(0))
    new.take([whole().reveals[0]])
    yield new
    new.close()


# What is on the disk, and when.

NOTES: dict[str, tuple[Callable[[Memory], None], list[dict[str, Any]]]] = {
    "an exchange": (lambda known: known.exchange(before(1)), [{"exchange": 1}]),
    "an opening": (lambda known: known.opening(before(1)), [{"opening": 1}]),
    "an opening made again": (
        lambda known: known.opening(before(0)),
        [{"repeat": 0}, {"opening": 0}],
    ),
    "a session": (lambda known: known.begin(1), [{"session": 1}]),
    "a session that makes an opening again": (
        lambda known: known.begin(1, again=True),
        [{"session": 1}, {"opening": 1}],
    ),
    "an interruption": (
        lambda known: known.interrupt("bob"),
        [{"interruption": {"by": "bob", "exchange": 2}}],
    ),
    "that all have the result": (lambda known: known.confirm("d" * 64), [{"confirmed": "d" * 64}]),
    "that the run is over": (lambda known: known.fail("It is over."), [{"failed": "It is over."}]),
}


@pytest.mark.parametrize("what", NOTES)
def test_a_note_is_safe_on_the_disk_before_anything_is_sent(tmp_path, monkeypatch, journal, what):
    """At the last fsync, all lines are in the file; then the call returns, and a message may go."""
    safe: list[bytes] = []
    monkeypatch.setattr(os, "fsync", lambda file: safe.append((tmp_path / FILE).read_bytes()))
    known = (tmp_path / FILE).read_bytes()
    note, expected = NOTES[what]
    note(journal)
    content = (tmp_path / FILE).read_bytes()
    assert safe[-1:] == [content]
    assert content.startswith(known)
    assert [json.loads(line) for line in content[len(known) :].splitlines()] == expected


def test_the_fsync_is_of_the_journal(tmp_path, monkeypatch, journal):
    files = []
    monkeypatch.setattr(os, "fsync", lambda file: files.append(os.fstat(file).st_ino))
    journal.opening(before(1))
    assert files == [(tmp_path / FILE).stat().st_ino]


def test_what_was_opened_is_in_the_file_before_the_next_message(tmp_path, journal):
    """Written, so that a crash of the process loses nothing; the next opening makes it safe."""
    journal.take(whole().reveals[1:3])
    assert lines_of(tmp_path)[-2:] == [to_line(reveal) for reveal in whole().reveals[1:3]]


def test_a_new_journal_begins_with_a_line_that_is_safe(tmp_path, monkeypatch):
    safe = []
    monkeypatch.setattr(os, "fsync", lambda file: safe.append((tmp_path / FILE).read_bytes()))
    opened(tmp_path).close()
    (line,) = lines_of(tmp_path)
    assert safe == [(tmp_path / FILE).read_bytes()]
    assert line == {
        "state": FORMAT,
        "file": "f" * 64,
        "key": line["key"],
        "rows": "rows" + line["key"],
        "agreement": AGREEMENT.to_json(),
    }
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600


@pytest.mark.parametrize("content", [b"", b'{"state": 2, "fi', "another run"])
def test_where_nothing_has_begun_a_journal_begins_again(tmp_path, content):
    """The first line is that of this run alone, whatever a process before it has left."""
    (tmp_path / FILE).touch()
    if content == "another run":
        open_journal(tmp_path, AGREEMENT, "e" * 64, "ana").close()
    else:
        (tmp_path / FILE).write_bytes(content)
    opened(tmp_path).close()
    (line,) = lines_of(tmp_path)
    assert (line["file"], line["rows"]) == ("f" * 64, "rows" + line["key"])


@pytest.mark.parametrize("name", ["", "lab"])
def test_the_result_names_the_consortium_if_there_is_one(tmp_path, name):
    journal = open_journal(tmp_path, AGREEMENT, "f" * 64, "ana", consortium=name)
    live(journal)
    assert journal.outcome().origin == (Origin("lab", "f" * 64) if name else None)
    journal.close()


def test_each_run_has_a_key_of_its_own_for_its_rows(tmp_path):
    keys = set()
    for name in "abc":
        (tmp_path / name).mkdir()
        opened(tmp_path / name).close()
        keys.add(lines_of(tmp_path / name)[0]["key"])
    assert len(keys) == 3
    assert {len(bytes.fromhex(key)) for key in keys} == {32}


def test_a_disk_that_takes_a_line_in_pieces_gets_all_of_it(tmp_path, monkeypatch, journal):
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[:5]))
    journal.opening(before(1))
    assert lines_of(tmp_path)[-1] == {"opening": 1}


@pytest.mark.parametrize("call", ["write", "fsync"])
def test_what_cannot_be_kept_ends_the_run_before_anything_is_sent(monkeypatch, journal, call):
    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, call, full)
    with pytest.raises(OwnTrouble, match="the disk is full") as caught:
        journal.opening(before(1))
    assert caught.value.code == {"write": "SFY-JOIN-027", "fsync": "SFY-JOIN-028"}[call]


# One process at a time, and none after the end.


def test_another_process_changes_nothing_in_the_file(tmp_path, journal):
    """Not even the end of a line, which the first process may be about to write."""
    with open(tmp_path / FILE, "ab") as file:
        file.write(b'{"opening"')
    content = (tmp_path / FILE).read_bytes()
    with pytest.raises(JournalError, match="Another process takes part"):
        opened(tmp_path)
    assert (tmp_path / FILE).read_bytes() == content


def test_who_comes_second_does_not_take_the_lock_from_the_first(tmp_path, journal):
    for _ in range(2):
        with pytest.raises(JournalError, match="Another process takes part"):
            opened(tmp_path)
    journal.close()
    opened(tmp_path).close()


def test_nothing_is_written_after_close(tmp_path, journal):
    """The thread that computes may be late, and another file may have the number by then."""
    number = journal._lines._file
    journal.close()
    content = (tmp_path / FILE).read_bytes()
    other = os.open(tmp_path / "other", os.O_RDWR | os.O_CREAT)
    os.dup2(other, number)
    try:
        with pytest.raises(OwnTrouble, match=FILE):
            journal.opening(before(1))
        with pytest.raises(OwnTrouble, match=FILE):
            journal.take([whole().reveals[1]])
        journal.close()
        assert os.fstat(number).st_size == 0, "it is open, and empty"
        assert (tmp_path / FILE).read_bytes() == content
    finally:
        for file in {other, number}:
            os.close(file)


def test_a_journal_that_is_refused_is_let_go(tmp_path, journal):
    """Else the same process could not take part with it until it ends."""
    journal.close()
    for _ in range(2):
        with pytest.raises(JournalError, match="The rows are not those"):
            opened(tmp_path, "other rows")
    opened(tmp_path).close()


# Going on.


def test_a_journal_tells_all_that_was_noted_before(tmp_path):
    first = opened(tmp_path)
    live(first)
    first.close()
    again = opened(tmp_path)
    again.close()
    assert list(again.transcript.to_lines()) == list(first.transcript.to_lines())
    assert len(again.transcript.reveals) == again.sent == OPENINGS
    assert again.repeats == first.repeats == [2]
    assert again.interruptions == [Interruption("cem", 2), Interruption("cem", 3)]
    assert again.confirmed == first.confirmed != ""
    assert (again.least, again.most) == (first.least, first.most)
    assert not again.running


def test_the_end_of_a_process_within_a_session_is_our_interruption_and_is_noted_once(
    tmp_path, journal
):
    journal.close()
    for _ in range(2):
        again = opened(tmp_path)
        assert again.interruptions == [Interruption("ana", 2)]
        assert not again.running
        again.close()
    assert lines_of(tmp_path)[-1] == {"interruption": {"by": "ana", "exchange": 2}}


def test_the_end_of_a_process_after_the_last_opening_is_none(tmp_path, journal):
    journal.take(whole().reveals[1:])
    journal.close()
    again = opened(tmp_path)
    again.close()
    assert again.interruptions == []


def test_a_line_that_was_cut_short_is_gone_before_the_next_one_is_written(tmp_path, journal):
    journal.opening(before(1))
    journal.close()
    known = (tmp_path / FILE).read_bytes()
    (tmp_path / FILE).write_bytes(known + b'{"reveal": "variation", "fea')
    again = opened(tmp_path)
    again.close()
    assert (again.sent, len(again.transcript.reveals)) == (2, 1)
    assert (tmp_path / FILE).read_bytes().startswith(known)
    assert lines_of(tmp_path)[len(known.splitlines()) :] == [
        {"interruption": {"by": "ana", "exchange": 2}}
    ]


def test_a_run_that_has_ended_for_good_stays_over_and_says_why_once(tmp_path, journal):
    journal.fail("It is over.")
    journal.fail("It is over, for another reason.")
    journal.close()
    with pytest.raises(EndOfRun, match=r"^It is over\.$"):
        opened(tmp_path)
    assert [line["failed"] for line in lines_of(tmp_path) if "failed" in line] == ["It is over."]


def test_an_opening_that_was_made_again_once_is_not_made_a_third_time(tmp_path, journal):
    """Also by the next process, and the third one."""
    journal.opening(before(1))
    journal.close()
    again = opened(tmp_path)
    again.begin(1, again=True)
    again.exchange(before(1))
    again.opening(before(1))
    again.close()
    third = opened(tmp_path)
    third.begin(1, again=True)
    third.exchange(before(1))
    with pytest.raises(EndOfRun, match="Opening 2 was sent before an interruption"):
        third.opening(before(1))
    third.close()
    assert [line for line in lines_of(tmp_path) if "repeat" in line] == [{"repeat": 1}]


# What is no journal.


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("[]", "line 3: a note must be an object with one field"),
        ("3", "line 3: a note must be an object with one field"),
        ("{}", "line 3: a note must be an object with one field"),
        ('{"closing": 3}', "line 3: the note has an unknown field 'closing'"),
        ('{"opening": -1}', "line 3: the note: opening must be .*, not -1"),
        ('{"opening": 4294967296}', "line 3: the note: opening must be .*, not 4294967296"),
        ('{"opening": true}', "line 3: the note: opening must be a whole number"),
        ('{"opening": null}', "line 3: the note: opening must be a whole number"),
        ('{"opening": 1, "repeat": 1}', "line 3: a note must be an object with one field"),
        ('{"exchange": 1}', "line 3: an exchange that begins at 1 of 0 openings"),
        ('{"failed": 1}', "line 3: the note: failed must be a text"),
        ('{"confirmed": null}', "line 3: the note: confirmed must be a text"),
        ('{"interruption": "bob"}', "line 3: the note: interruption must be an object"),
        ('{"interruption": {"by": "bob"}}', "line 3: the note: interruption lacks 'exchange'"),
        (
            '{"accepted": {"opening": 3, "session": "ab", "bits": "0"}}',
            "line 3: the note: accepted .*hex",
        ),
        ('{"reveal": "row", "values": [1.5]}', "line 3: unknown reveal 'row'"),
        ("", "line 3: this is not JSON"),
        ('{"opening": 0', "line 3: this is not JSON"),
    ],
)
def test_a_line_that_is_no_note_is_refused_with_its_number(tmp_path, line, why):
    journal = opened(tmp_path)
    journal.begin(0)
    journal.close()
    content = (tmp_path / FILE).read_bytes()
    (tmp_path / FILE).write_bytes(content + line.encode() + b"\n")
    with pytest.raises(JournalError, match=f"cannot be read: {why}"):
        opened(tmp_path)
    assert (tmp_path / FILE).read_bytes() == content + line.encode() + b"\n"


def test_the_largest_number_of_a_note_is_read(tmp_path):
    journal = opened(tmp_path)
    journal.begin(2**32 - 1)
    journal.close()
    opened(tmp_path).close()


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("state", FORMAT - 1, "an older release wrote it, and only that release can resume"),
        ("state", FORMAT + 1, f"this is not a state of format {FORMAT}"),
        ("state", True, f"this is not a state of format {FORMAT}"),
        ("key", "no key", "line 1: key must be"),
        ("key", 5, "line 1: key must be a text"),
        ("more", 1, "line 1 has an unknown field 'more'"),
        ("file", "e" * 64, "from a run with another agreed file"),
        ("rows", "other", "The rows are not those"),
    ],
)
def test_a_first_line_of_another_run_is_refused(tmp_path, journal, field, value, why):
    journal.close()
    first, *others = lines_of(tmp_path)
    changed = "".join(json.dumps(line) + "\n" for line in [first | {field: value}, *others])
    (tmp_path / FILE).write_text(changed)
    with pytest.raises(JournalError, match=why):
        opened(tmp_path)
    assert (tmp_path / FILE).read_text() == changed


def test_a_journal_that_is_larger_than_a_run_can_make_it_is_not_read(tmp_path, monkeypatch):
    opened(tmp_path).close()
    size = (tmp_path / FILE).stat().st_size
    monkeypatch.setattr(module, "largest_record", lambda agreement: size // 4 + 1)
    opened(tmp_path).close()
    with open(tmp_path / FILE, "ab") as file:
        file.write(b" " * 10)
    with pytest.raises(JournalError, match="larger than a run can make it"):
        opened(tmp_path)


def test_a_result_that_is_not_what_all_have_confirmed_is_refused(tmp_path):
    journal = opened(tmp_path)
    live(journal)
    journal.close()
    *others, _ = lines_of(tmp_path)
    lines = [*others, {"confirmed": "0" * 64}]
    (tmp_path / FILE).write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(JournalError, match="not as it was when all parties confirmed"):
        opened(tmp_path)


def test_a_result_that_was_confirmed_before_all_was_opened_is_refused(tmp_path, journal):
    journal.confirm("0" * 64)
    journal.close()
    with pytest.raises(JournalError, match="not as it was when all parties confirmed"):
        opened(tmp_path)

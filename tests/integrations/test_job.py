"""What a site tells all others of why it has no result, and what it keeps to itself."""

from __future__ import annotations

import errno
import stat

import pytest

from securefedyj.integrations.job import LOG, notes, public_reason
from securefedyj.network.errors import JoinError
from securefedyj.network.session.journal import open_journal
from securefedyj.network.session.run import check_end
from securefedyj.numerics.passes import ChangedData, check_rows
from tests.network.harness import prepare


def end_by(error: Exception) -> JoinError:
    """What comes out of a run whose program ends so."""
    with pytest.raises(JoinError) as caught:
        check_end(error)
    return caught.value


def changed(before: int, now: int) -> ChangedData:
    with pytest.raises(ChangedData) as caught:
        check_rows(before, now)
    return caught.value


@pytest.mark.parametrize(
    "error",
    [
        changed(4711, 4712),
        OSError(errno.ENOENT, "No such file", "/home/ann/4711.csv"),
        OSError(errno.ENOSPC, "No space left on device", "/home/ann/4711/state.jsonl"),
    ],
)
def test_neither_rows_nor_files_of_a_site_are_told_to_others(error):
    ended = end_by(error)
    assert "4711" in str(ended)  # at home
    assert "4711" not in public_reason(ended, "north")


def test_folder_of_a_run_is_not_told_to_others(tmp_path):
    consortium = prepare(tmp_path)
    journal = open_journal(tmp_path, consortium.agreement(), consortium.digest(), "ana")
    journal.close()
    with pytest.raises(JoinError, match=str(tmp_path)) as caught:
        journal.begin(0)
    # Once more as what ends a program, where it happens in the thread that computes.
    for error in (caught.value, end_by(caught.value)):
        assert str(tmp_path) in str(error)
        assert str(tmp_path) not in public_reason(error, "ana")


def test_reasons_at_others_are_told():
    sentence = "Party south speaks protocol version 2."
    assert public_reason(end_by(JoinError("SFY-TEST-001", sentence)), "north") == sentence


def test_notes_are_for_their_owner_alone(tmp_path):
    say = notes(tmp_path / "result")
    say("patients.csv, line 5: 'secret 4711' is not a number")
    say("One line.\nAnother.")
    path = tmp_path / "result" / LOG
    assert "secret 4711" in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600

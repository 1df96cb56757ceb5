"""A journal of an older release is left as it is, and a sentence says what to do now."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from securefedyj.network.session.journal import FILE, FORMAT, JournalError
from securefedyj.network.session.memory import NEW_RUN
from tests.network.test_torn_journals import opened

OLD = Path(__file__).parents[1] / "data" / "version_3" / FILE


def test_a_state_of_an_older_release_says_how_to_start_a_new_run(tmp_path):
    shutil.copy(OLD, tmp_path / FILE)
    with pytest.raises(JournalError) as told:
        opened(tmp_path)
    assert str(told.value) == (
        f"{tmp_path / FILE}: an older release wrote it, and only that release can resume this "
        f"run. {NEW_RUN}"
    )
    assert (tmp_path / FILE).read_bytes() == OLD.read_bytes()


@pytest.mark.parametrize("version", [FORMAT + 1, f'"{FORMAT}"', "true", "null"])
def test_what_is_no_state_of_any_release_is_refused(tmp_path, version):
    first, rest = OLD.read_text().split("\n", 1)
    (tmp_path / FILE).write_text(first.replace('"state": 2', f'"state": {version}') + "\n" + rest)
    with pytest.raises(JournalError, match=f"this is not a state of format {FORMAT}"):
        opened(tmp_path)

"""`make soak` for seconds instead of minutes; and that it would notice."""

from __future__ import annotations

import json
import random
import tempfile
from typing import Any

import numpy as np
import pytest

from benchmarks import soak
from securefedyj.network import local
from tests.patience import PATIENCE

pytestmark = pytest.mark.processes


def quiet(line: str) -> None:
    pass


def test_each_kind_of_process_may_be_killed():
    tally = soak.soak_kills(3, random.Random(1), quiet, max_steps=20)
    assert tally.done == {"member": 1, "silo": 1, "hub": 1}
    assert tally.same == tally.runs, str(tally)
    assert tally.openings > 20


def test_corrupted_streams_give_the_same_bits_or_a_sentence():
    tally = soak.soak_corruptions(6, random.Random(1), quiet, most_per_run=6, max_steps=20)
    assert tally.done.total() >= 6  # more, where a run has stopped before it had its six
    assert (tally.same == tally.runs) == (not tally.stopped), str(tally)


def test_soak_notices_another_bit(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # the folder is kept
    expected = soak.in_one_process(4, 24)
    expected.lambdas_ = np.nextafter(expected.lambdas_, 9.0)
    monkeypatch.setattr(soak, "in_one_process", lambda max_steps, result_bits: expected)
    with pytest.raises(soak.Broken, match="has another result"):
        soak.soak_kills(1, random.Random(1), quiet, max_steps=4)


@pytest.fixture(scope="module")
def a_run(tmp_path_factory):
    """A run that has come to its end undisturbed."""
    folder = tmp_path_factory.mktemp("run")
    soak.prepare(folder, max_steps=4)
    with local.Processes(folder) as processes:
        processes.start_hub()
        for name in soak.TABLES:
            processes.start_party(name)
        assert set(processes.wait(PATIENCE).values()) == {0}
    return folder


def kept_part(number):
    """The notes of a member that has sent its part of a final opening."""
    part = {"opening": number, "session": "ab" * 16, "bits": ""}
    return f'{{"accepted": {json.dumps(part)}}}\n{{"opening": {number}}}\n'


CHANGES: dict[str, Any] = {
    "a double opening": (lambda text: text + '{"opening": 3}\n', "was opened twice"),
    "a second repeat": (
        lambda text: text + "".join(f'{{"repeat": {n}}}\n{{"opening": {n}}}\n' for n in (3, 4)),
        "more than one opening was repeated",
    ),
    "another computation of the final opening": (
        lambda text: text + kept_part(text.count('"reveal": ') - 1),
        "sent of 2 computations",
    ),
    "another reveal": (lambda text: text.replace("[true", "[false", 1), "different reveals"),
    "no confirmation": (
        lambda text: text[: text.index('{"confirmed"')],
        "eva has a result that not all have confirmed",
    ),
    "an opening that is missing": (
        lambda text: text[: text.index('{"reveal": "final"')] + '{"confirmed": "00"}\n',
        "confirmed",
    ),
}


@pytest.mark.parametrize("how", CHANGES)
def test_soak_notices_what_one_party_keeps(a_run, monkeypatch, how):
    change, sentence = CHANGES[how]
    path = a_run / "eva" / "state.jsonl"
    before = path.read_text()
    monkeypatch.setattr(soak, "sentences_of", lambda processes: [])
    processes = local.Processes(a_run)
    end = soak.end_of(processes)
    assert (end.sentences, end.repeats) == ([], 0)
    path.write_text(change(before))
    try:
        with pytest.raises(soak.Broken, match=sentence):
            soak.end_of(processes)
    finally:
        path.write_text(before)

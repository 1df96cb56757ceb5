"""`make soak` for seconds instead of minutes; and that it would notice."""

from __future__ import annotations

import random
import tempfile

import numpy as np
import pytest

from benchmarks import soak

pytestmark = pytest.mark.processes


def quiet(line: str) -> None:
    pass


def test_each_kind_of_process_may_be_killed():
    tally = soak.soak_kills(3, random.Random(1), quiet, max_steps=20)
    assert tally.done == {"member": 1, "silo": 1, "hub": 1}
    assert tally.same == tally.runs, str(tally)


def test_corrupted_streams_give_the_same_bits_or_a_sentence():
    tally = soak.soak_corruptions(6, random.Random(1), quiet, most_per_run=6, max_steps=20)
    assert tally.done.total() == 6


def test_soak_notices_another_bit(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # the folder is kept
    expected = soak.in_one_process(4)
    expected.lambdas_ = np.nextafter(expected.lambdas_, 9.0)
    monkeypatch.setattr(soak, "in_one_process", lambda max_steps: expected)
    with pytest.raises(soak.Broken, match="has another result"):
        soak.soak_kills(1, random.Random(1), quiet, max_steps=4)

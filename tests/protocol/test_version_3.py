"""Transcripts of version 3 can still be read and audited: verdict, magnitudes, moments apart."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from securefedyj.party.messages import VERSION
from securefedyj.protocol.reveals import Counts, Magnitudes, Moments, Verdict
from securefedyj.protocol.schedule import Schedule
from securefedyj.protocol.transcript import Transcript, TranscriptError
from securefedyj.report import page
from tests.protocol.small_run import of_kind

FILE = Path(__file__).parents[1] / "data" / "version_3" / "transcript.jsonl"


@pytest.fixture
def earlier() -> Transcript:
    return Transcript.read(FILE)


@pytest.fixture
def lines(earlier):
    """The file, to be tampered with."""
    return copy.deepcopy(list(earlier.to_lines()))


def test_a_transcript_of_an_earlier_release_passes_the_audit(earlier):
    assert (earlier.agreement.version, VERSION) == (3, 4)
    audit = earlier.audit()
    assert audit.passed, audit.findings
    assert audit.verdict is True
    assert "Verified: yes." in " ".join(audit.statement().split())
    assert "Verified: yes." in " ".join(page.render(earlier).split())


def test_it_is_read_as_it_is(earlier):
    assert earlier.to_text() == FILE.read_text()
    again = Transcript(earlier.agreement, earlier.reveals, origin=earlier.origin).with_result()
    assert again.to_text() == FILE.read_text(), "the result follows from the reveals"
    assert Schedule.of(earlier).complete
    for kind in (Verdict, Magnitudes, Moments):
        assert [type(reveal) for reveal in earlier.all(kind)] == [kind]


def test_a_verdict_was_opened_also_where_there_were_no_values(earlier):
    course, features = Schedule(replace(earlier.agreement, minimum_values=0)), np.arange(2)
    course.take(Counts(features, np.zeros(2, dtype=np.int64)))
    assert course.due is not None
    assert course.due.kind is Verdict
    course.take(Verdict(features, True))
    assert course.complete


def test_what_it_tells_is_counted_as_in_this_version(earlier):
    """The same openings in one line tell the same bits."""
    *search, verdict, magnitudes, moments = earlier.reveals
    now = Transcript.from_lines(
        [
            {"transcript": 2, "agreement": replace(earlier.agreement, version=VERSION).to_json()},
            *list(Transcript(earlier.agreement, search).to_lines())[1:],
            {
                "reveal": "final",
                "features": [0, 1],
                "holds": verdict.holds,
                "magnitude": magnitudes.magnitude.tolist(),
                "V": [hex(V) for V in moments.V],
                "S_y": [hex(S_y) for S_y in moments.S_y],
            },
        ]
    ).with_result()
    assert now.audit().passed
    assert now.bits_opened().tolist() == earlier.bits_opened().tolist()
    assert now.magnitudes().tolist() == earlier.magnitudes().tolist()
    assert now.result is not None
    assert earlier.result is not None
    for ours, theirs in zip(now.result, earlier.result, strict=True):
        assert ours.tolist() == theirs.tolist()


def _of(kind, change):
    def tamper(lines):
        (line,) = of_kind(lines, kind)
        change(line)
        return lines

    return tamper


def _without(kind):
    return lambda lines: [line for line in lines if line.get("reveal") != kind]


def _other_result(lines):
    lines[-1]["result"]["mean"][0] += 1e-9
    return lines


def _other_sign(lines):
    of_kind(lines, "step")[-1]["delta"][0] *= -1
    return lines


def _as_version(version):
    def tamper(lines):
        lines[0]["agreement"]["version"] = version
        return lines

    return tamper


def _swapped(lines):
    lines[-3], lines[-4] = lines[-4], lines[-3]
    return lines


TAMPERED = {
    "a verdict of 0": _of("verdict", lambda line: line.update(holds=False)),
    "no verdict": _without("verdict"),
    "no moments": _without("moments"),
    "a magnitude more": _of("magnitudes", lambda line: line["magnitude"].__setitem__(0, 17)),
    "another V": _of("moments", lambda line: line["V"].__setitem__(1, "0x1154922")),
    "another S_y": _of("moments", lambda line: line["S_y"].__setitem__(0, "0x6686bb3")),
    "another count": _of("counts", lambda line: line["n"].__setitem__(0, 13)),
    "another sign": _other_sign,
    "another result": _other_result,
    "magnitudes before the verdict": _swapped,
    "this version": _as_version(VERSION),
}


@pytest.mark.parametrize("how", TAMPERED)
def test_one_that_was_tampered_with_does_not_pass(lines, how):
    assert not Transcript.from_lines(TAMPERED[how](lines)).audit().passed


@pytest.mark.parametrize("version", [2, VERSION + 1])
def test_other_versions_are_not_read(lines, version):
    with pytest.raises(TranscriptError, match=f"version {version}"):
        Transcript.from_lines(_as_version(version)(lines))

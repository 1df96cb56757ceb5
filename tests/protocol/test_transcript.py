"""Transcripts: what was revealed can be read off them, and their files are read strictly."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from securefedyj.numerics.search import Bracket, exp_update
from securefedyj.protocol import transcript as transcript_module
from securefedyj.protocol.reveals import (
    KINDS,
    Final,
    Magnitudes,
    Moments,
    Step,
    Verdict,
    read_reveal,
    to_line,
)
from securefedyj.protocol.transcript import Origin, Transcript, TranscriptError
from securefedyj.strict import Malformed
from tests.protocol.small_run import NAMES


def test_all_gives_the_reveals_of_one_kind_in_order(transcript):
    found = {kind: list(transcript.all(kind)) for kind in KINDS.values()}
    assert all(type(reveal) is kind for kind, reveals in found.items() for reveal in reveals)
    assert sum(map(len, found.values())) == len(transcript.reveals)
    assert [reveal.step for reveal in found[Step]] == sorted(r.step for r in found[Step])


def test_the_parts_of_a_final_opening_are_told_as_those_of_their_own(transcript):
    """The small run has a feature without a value, of which nothing was opened."""
    *search, magnitudes, moments = transcript.reveals
    zeros = Final(np.arange(6), True, np.zeros(6, dtype=np.int64), [0] * 6, [0] * 6)
    final = zeros._replace(
        magnitude=np.append(magnitudes.magnitude, 0), V=[*moments.V, 0], S_y=[*moments.S_y, 0]
    )
    found = replace(transcript, reveals=[*search, final])
    for kind, expected in [
        (Magnitudes, magnitudes),
        (Moments, moments),
        (Verdict, Verdict(np.arange(6), True)),
        (Final, final),
    ]:
        (reveal,) = found.all(kind)
        assert to_line(reveal) == to_line(expected)
    assert found.magnitudes().tolist() == transcript.magnitudes().tolist()
    assert found.bits_opened().tolist() == transcript.bits_opened().tolist()
    refuted = replace(transcript, reveals=[*search, zeros._replace(holds=False)])
    assert not list(refuted.all(Magnitudes))
    assert not list(refuted.all(Moments))
    assert [verdict.holds for verdict in refuted.all(Verdict)] == [False]


def test_the_search_state_is_where_the_signs_lead(transcript):
    state = transcript.search_state()
    limits = transcript.agreement.domain.limits()
    for j in range(6):
        value, lower, upper = 0.0, -np.inf, np.inf
        for reveal in transcript.all(Step):
            if j not in reveal.features:
                continue
            place = reveal.features.tolist().index(j)
            assert reveal.lmbda[place] == value
            if reveal.delta[place] > 0:
                lower, value = value, 2 * value if value > 0 else 1.0
            else:
                upper, value = value, 2 * value if value < 0 else -1.0
            if np.isfinite(lower) and np.isfinite(upper):
                value = (lower + upper) / 2
            value = min(max(value, limits.lowest[j]), limits.highest[j])
        assert (state.value[j], state.lower[j], state.upper[j]) == (value, lower, upper)


def test_the_search_state_of_a_run_that_has_just_begun(transcript):
    begun = Transcript(transcript.agreement)
    assert begun.search_state().value.tolist() == [0.0] * 6
    first = next(transcript.all(Step))
    begun.reveals.append(first)
    expected = exp_update(Bracket.start(6).take(first.features), first.delta)
    assert begun.search_state().value[first.features].tolist() == expected.value.tolist()


# --- Files -----------------------------------------------------------------------------------


def test_what_was_written_is_read_back_exactly(transcript, tmp_path):
    path = tmp_path / "run.jsonl"
    transcript.write(path)
    again: Any = Transcript.read(path)
    assert list(again.to_lines()) == list(transcript.to_lines())
    assert again.agreement.to_bytes() == transcript.agreement.to_bytes()
    for ours, theirs in zip(again.result, transcript.result, strict=True):
        assert np.asarray(ours).tobytes() == np.asarray(theirs).tobytes()
    for ours, theirs in zip(again.reveals, transcript.reveals, strict=True):
        assert type(ours) is type(theirs)
        for a, b in zip(ours, theirs, strict=True):
            assert np.array_equal(a, b)
            assert getattr(a, "dtype", None) == getattr(b, "dtype", None)
    path.write_text(path.read_text().replace("\n", "\n\n"))
    assert list(Transcript.read(path).to_lines()) == list(transcript.to_lines())


def test_files_are_plain_json_lines(transcript, tmp_path):
    path = tmp_path / "run.jsonl"
    transcript.write(str(path))
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert rows[0]["transcript"] == 2
    assert rows[0]["agreement"]["features"] == list(NAMES)
    assert {row["reveal"] for row in rows[1:-1]} == set(KINDS) - {
        "verdict",
        "final",
        "headers",
        "possible",
    }
    assert list(rows[-1]) == ["result"]


GARBAGE = {
    "empty": lambda lines: [],
    "no header": lambda lines: lines[1:],
    "another format": lambda lines: [lines[0] | {"transcript": 1}, *lines[1:]],
    "unknown reveal": lambda lines: [*lines, {"reveal": "row", "features": [0], "values": [5.0]}],
    "no reveal": lambda lines: [*lines, {"features": [0]}],
    "more in a reveal": lambda lines: [*lines[:-1], lines[2] | {"sum": 5}, lines[-1]],
    "less in a reveal": lambda lines: [*lines[:2], {"reveal": "step", "step": 1}, *lines[2:]],
    "a count that is text": lambda lines: [
        *lines[:1], {"reveal": "counts", "features": [0], "n": ["many"]}, *lines[2:]
    ],
    "a result without mean": lambda lines: [
        *lines[:-1], {"result": {k: v for k, v in lines[-1]["result"].items() if k != "mean"}}
    ],
    "another version": lambda lines: [
        lines[0] | {"agreement": lines[0]["agreement"] | {"version": 10**6}}, *lines[1:]
    ],
    "lists of different lengths": lambda lines: [
        *lines[:1], {"reveal": "counts", "features": [0, 1], "n": [3]}, *lines[1:]
    ],
    "an unknown feature": lambda lines: [
        *lines[:2], {"reveal": "variation", "features": [6], "varies": [True]}, *lines[2:]
    ],
    "a feature from the end": lambda lines: [
        *lines[:2], {"reveal": "variation", "features": [-1], "varies": [True]}, *lines[2:]
    ],
    "a result of fewer features": lambda lines: [
        *lines[:-1], {"result": {k: v[:-1] for k, v in lines[-1]["result"].items()}}
    ],
    "two results": lambda lines: [*lines, lines[-1]],
    "a reveal after the result": lambda lines: [*lines, lines[1]],
    "more beside the result": lambda lines: [*lines[:-1], lines[-1] | {"rows": [1.0]}],
    "more in the result": lambda lines: [
        *lines[:-1], {"result": lines[-1]["result"] | {"rows": [1.0]}}
    ],
    "more in the header": lambda lines: [lines[0] | {"rows": [1.0]}, *lines[1:]],
    "more in the agreement": lambda lines: [
        lines[0] | {"agreement": lines[0]["agreement"] | {"rows": [1.0]}}, *lines[1:]
    ],
    "more features than bounds": lambda lines: [
        lines[0] | {"agreement": lines[0]["agreement"] | {"features": ["a"] * 7}}, *lines[1:]
    ],
    "no agreement": lambda lines: [{"transcript": 2}, *lines[1:]],
    "an unknown engine": lambda lines: [
        lines[0] | {"agreement": lines[0]["agreement"] | {"engine": "paillier"}}, *lines[1:]
    ],
    "a count that is no whole number": lambda lines: [
        *lines[:1], {"reveal": "counts", "features": [0], "n": [2.5]}, *lines[2:]
    ],
    "a count beyond 64 bits": lambda lines: [
        *lines[:1], {"reveal": "counts", "features": [0], "n": [2**70]}, *lines[2:]
    ],
    "a sign beyond 8 bits": lambda lines: [
        *lines[:2],
        {"reveal": "step", "step": 0, "features": [0], "lmbda": [0.0], "delta": [300]},
        *lines[2:],
    ],
    "a line that is a list": lambda lines: [*lines[:1], [1, 2], *lines[1:]],
    "a lambda that is not finite": lambda lines: [
        *lines[:-1],
        {"result": lines[-1]["result"] | {"lmbda": [float("nan")] * 6}},
    ],
    "a feature without a name": lambda lines: [
        lines[0] | {"agreement": lines[0]["agreement"] | {"features": [0, 1, 2, 3, 4, 5]}},
        *lines[1:],
    ],
    "steps that are no number": lambda lines: [
        lines[0] | {"agreement": lines[0]["agreement"] | {"max_steps": "ten"}}, *lines[1:]
    ],
}  # fmt: skip


@pytest.mark.parametrize("kind", GARBAGE)
def test_what_is_no_transcript_is_refused(lines, tmp_path, kind):
    path = tmp_path / "run.jsonl"
    path.write_text("\n".join(map(json.dumps, GARBAGE[kind](lines))))
    with pytest.raises(TranscriptError):
        Transcript.read(path)


@pytest.mark.parametrize("text", ["hello", '{"transcript": 2', "\x00\x01", "[]", "3", "null"])
def test_what_is_no_json_is_refused(tmp_path, text):
    path = tmp_path / "run.jsonl"
    path.write_text(text)
    with pytest.raises(TranscriptError):
        Transcript.read(path)


@pytest.mark.parametrize("more", [False, True])
def test_a_result_with_a_single_list_of_another_length_is_refused(lines, more):
    result = lines[-1]["result"]
    for name, values in result.items():
        altered = [*values, values[0]] if more else values[:-1]
        with pytest.raises(TranscriptError, match="a result of another number of features"):
            Transcript.from_lines([*lines[:-1], {"result": result | {name: altered}}])


def test_the_error_names_the_line(lines):
    lines[3] = {"reveal": "secret", "features": [0]}
    with pytest.raises(TranscriptError, match=r"line 4 .*unknown reveal 'secret'"):
        Transcript.from_lines(lines)


def test_integers_are_read_as_they_are_written_only(transcript):
    line = to_line(transcript.reveals[-1])
    for text in ("0X1f", "0x1F", "1f", " 0x1", "0x1_0", "0x01", "-0x0", "0x", "", "-", "½"):
        altered = line | {"V": [text, *line["V"][1:]]}
        with pytest.raises(Malformed, match=r"moments: V\[0\] must be a text matching"):
            read_reveal(altered, 6)
    assert to_line(read_reveal(line, 6)) == line


@pytest.mark.parametrize("wrong", [-1, 6])
def test_one_unknown_feature_among_others_is_refused(wrong):
    line = {"reveal": "counts", "features": [0, 1, wrong], "n": [3, 3, 3]}
    with pytest.raises(Malformed, match="a feature that was not agreed on"):
        read_reveal(line, 6)


def test_a_reveal_of_more_features_than_there_are_is_refused():
    line = {"reveal": "counts", "features": [0] * 7, "n": [3] * 7}
    with pytest.raises(Malformed, match="more features than were agreed on"):
        read_reveal(line, 6)


FINAL = {"reveal": "final", "holds": True, "V": ["0x1"] * 3, "S_y": ["-0x1"] * 3}


@pytest.mark.parametrize("rest", [{"reveal": "magnitudes"}, FINAL], ids=["magnitudes", "final"])
def test_a_magnitude_is_that_of_a_number_of_the_protocol(rest):
    line = {**rest, "features": [0, 1, 2], "magnitude": [0, 1024, 1]}
    assert to_line(read_reveal(line, 6)) == line
    for wrong in (-1, 1025):
        with pytest.raises(Malformed, match=r"magnitude.* must be a whole number"):
            read_reveal(line | {"magnitude": [0, wrong, 1]}, 6)


@pytest.mark.parametrize(
    "change",
    [
        {"holds": 1},
        {"holds": None},
        {"magnitude": [1, 2]},
        {"V": ["0x1"] * 2},
        {"S_y": ["0x1"] * 4},
        {"S_y": "0x1"},
        {"verdict": True},
    ],
    ids=str,
)
def test_a_final_opening_has_its_fields_and_no_others(change):
    line = {**FINAL, "features": [0, 1, 2], "magnitude": [0, 4, 1]}
    assert to_line(read_reveal(line, 6)) == line
    with pytest.raises(Malformed):
        read_reveal({**line, **change}, 6)
    for name in line:
        with pytest.raises(Malformed):
            read_reveal({key: value for key, value in line.items() if key != name}, 6)


def test_a_file_of_more_lines_than_any_run_has_is_refused(transcript, tmp_path, monkeypatch):
    path = tmp_path / "run.jsonl"
    transcript.write(path)
    lines = len(list(transcript.to_lines()))
    monkeypatch.setattr(transcript_module, "MOST_LINES", lines)
    assert len(list(Transcript.read(path).to_lines())) == lines
    monkeypatch.setattr(transcript_module, "MOST_LINES", lines - 1)
    with pytest.raises(TranscriptError, match=f"more than {lines - 1} lines"):
        Transcript.read(path)


def test_a_transcript_names_its_consortium_or_none(transcript, lines):
    origin = Origin("lab", "d" * 64)
    named = replace(transcript, origin=origin)
    again = Transcript.from_lines(list(named.to_lines()))
    assert again.origin == origin
    assert list(again.to_lines()) == list(named.to_lines())
    assert Transcript.from_lines(lines).origin is None
    for wrong in ({"name": "lab"}, {"name": "lab", "digest": 5}, "lab"):
        with pytest.raises(TranscriptError, match="line 1 is not an agreement"):
            Transcript.from_lines([lines[0] | {"consortium": wrong}, *lines[1:]])


def test_the_result_follows_from_the_reveals(transcript):
    bare = Transcript(transcript.agreement, transcript.reveals)
    for ours, theirs in zip(bare.certainty(), transcript.certainty(), strict=True):
        assert ours.tolist() == theirs.tolist()
    assert bare.result is None
    assert bare.with_result().result is not None
    assert list(bare.to_lines()) == list(transcript.to_lines())


# --- The hash of a transcript ----------------------------------------------------------------


def test_the_digest_is_a_chain_over_the_lines_of_the_file(transcript):
    first, *lines = transcript.to_text().splitlines()[:-1]
    link = hashlib.sha256(first.encode()).digest()
    for length, line in enumerate(lines):
        assert transcript.digest(length) == link
        link = hashlib.sha256(link + line.encode()).digest()
    assert transcript.digest() == transcript.digest(len(lines)) == link
    assert len(link) == 32


def test_the_digest_does_not_depend_on_the_result(transcript):
    assert Transcript(transcript.agreement, transcript.reveals).digest() == transcript.digest()


def test_the_digest_of_a_transcript_that_has_changed_is_another(transcript):
    copy = Transcript(transcript.agreement, list(transcript.reveals))
    assert copy.digest() == transcript.digest()
    reveal: Any = copy.reveals[3]
    copy.reveals[3] = reveal._replace(delta=-reveal.delta)
    assert copy.digest(3) == transcript.digest(3)
    assert copy.digest(4) != transcript.digest(4)
    assert copy.digest() != transcript.digest()
    copy.reveals[3] = reveal
    assert copy.digest() == transcript.digest()
    del copy.reveals[5:]
    assert copy.digest() == transcript.digest(5)
    copy.agreement = replace(copy.agreement, minimum_values=1)
    assert copy.digest(0) != transcript.digest(0)


def test_the_digest_of_more_than_there_is_is_refused(transcript):
    for length in (-1, len(transcript.reveals) + 1):
        with pytest.raises(ValueError, match="reveals"):
            transcript.digest(length)


def test_a_digest_that_was_computed_leaves_no_trace(transcript):
    copy = Transcript(transcript.agreement, list(transcript.reveals))
    plain = repr(copy)
    copy.digest()
    assert repr(copy) == plain

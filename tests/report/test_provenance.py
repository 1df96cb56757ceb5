"""Where a result comes from: what all know is in all files, the rest in the party's own."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

import securefedyj
from securefedyj import parameters
from securefedyj.protocol.transcript import Origin, Transcript
from securefedyj.report import page
from securefedyj.report.results import Provenance, ResultError, write_results
from tests.refusals import refused
from tests.report.runs import data, fit

ORIGIN = Origin("sepsis <2026>", "ab" * 32)


@pytest.fixture(scope="module")
def run() -> Transcript:
    return dataclasses.replace(fit(data()[:, :2], ("x", "y"), ("a", "b")), origin=ORIGIN)


def test_transcript_and_parameters_name_the_consortium(run, tmp_path):
    write_results(run, None, "a", tmp_path)
    assert Transcript.read(tmp_path / "transcript.jsonl").origin == ORIGIN
    read = parameters.read(tmp_path / "parameters.json")
    assert read.origin == ORIGIN
    assert read.to_bytes() == (tmp_path / "parameters.json").read_bytes()


def test_digest_of_the_reveals_does_not_depend_on_the_name(run):
    """Parties compare it before there is a result, and it was so before consortia were named."""
    assert run.digest() == dataclasses.replace(run, origin=None).digest()


def test_files_without_a_consortium_are_read_as_before(run, tmp_path):
    before = dataclasses.replace(run, origin=None)
    write_results(before, None, "a", tmp_path)
    for name in ("transcript.jsonl", "parameters.json"):
        assert b"consortium" not in (tmp_path / name).read_bytes()
    assert parameters.read(tmp_path / "parameters.json").origin is None
    assert Transcript.read(tmp_path / "transcript.jsonl").origin is None


@pytest.mark.parametrize("wrong", [None, {}, {"name": 1, "digest": ""}, {"name": "a", "x": "b"}])
def test_consortium_is_read_strictly(wrong, run):
    lines = list(run.to_lines())
    with pytest.raises(ValueError, match="consortium"):
        Transcript.from_lines([lines[0] | {"consortium": wrong}, *lines[1:]])
    with pytest.raises(parameters.ParametersError, match="consortium"):
        parameters.Parameters.from_json(
            parameters.Parameters.of(run).to_json() | {"consortium": wrong}
        )


def test_own_file_says_who_when_and_which_table(run, tmp_path):
    state = {"state": 2, "file": ORIGIN.digest, "key": "00" * 32, "rows": "cd" * 32}
    (tmp_path / "state.jsonl").write_text(json.dumps(state) + "\n")
    write_results(run, None, "a", tmp_path, Path("data/rows.csv"))
    known = Provenance.read(tmp_path / "provenance.json")
    assert (known.party, known.table, known.rows_digest) == ("a", "rows.csv", "cd" * 32)
    assert known.release == securefedyj.__version__
    assert known.finished.endswith("+00:00")
    assert known.transcript_sha256 == parameters.digest_of(run)
    assert "00" * 32 not in (tmp_path / "provenance.json").read_text()  # the key stays where it is


def test_what_all_parties_have_says_nothing_of_one(run, tmp_path):
    for party in ("a", "b"):
        (tmp_path / party).mkdir()
        write_results(run, None, party, tmp_path / party, Path(f"{party}.csv"))
    for name in ("transcript.jsonl", "parameters.json"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_date_is_that_of_the_result_not_of_a_later_look(run, tmp_path):
    write_results(run, None, "a", tmp_path, Path("first.csv"))
    before = (tmp_path / "provenance.json").read_bytes()
    write_results(run, None, "a", tmp_path, Path("later.csv"))
    assert (tmp_path / "provenance.json").read_bytes() == before


def test_what_was_said_of_another_result_is_replaced(run, tmp_path):
    other = fit(data()[:, :2] + 1, ("x", "y"), ("a", "b"))
    write_results(other, None, "a", tmp_path)
    with refused("SFY-REP-009", ResultError):
        write_results(run, None, "a", tmp_path)
    for name in ("transcript.jsonl", "parameters.json"):
        (tmp_path / name).unlink()
    write_results(run, None, "a", tmp_path)
    known = Provenance.read(tmp_path / "provenance.json")
    assert known.transcript_sha256 == parameters.digest_of(run)
    with refused("SFY-REP-007"):
        page.render(other, provenance=known)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"format": "other"}'])
def test_file_that_is_none_is_named(content, tmp_path):
    (tmp_path / "p.json").write_text(content)
    with refused("SFY-REP-008") as error:
        Provenance.read(tmp_path / "p.json")
    assert "p.json" in str(error.value)


def test_page_tells_it_and_what_was_checked(run, tmp_path):
    write_results(run, None, "a", tmp_path, Path("<rows>.csv"))
    known = Provenance.read(tmp_path / "provenance.json")
    words = " ".join(page.render(run, provenance=known).split())
    for part in ("sepsis &lt;2026&gt;", ORIGIN.digest, "&lt;rows&gt;.csv", known.release):
        assert part in words
    head = f"Report of run <bdi>sepsis &lt;2026&gt;</bdi> on {known.finished[:10]}, made from its"
    assert head in words
    assert "except who wrote it." in words
    checked = words[words.index("Checked in the run") : words.index("Assumed, not checked")]
    assert "TLS 1.3" in checked
    assert "encrypted and authenticated" not in words[words.index("Assumed, not checked") :]


def test_page_of_a_transcript_alone_assumes_what_it_cannot_know(run):
    words = " ".join(page.render(run).split())
    assert "Report of run <bdi>sepsis &lt;2026&gt;</bdi>, made from its transcript by" in words
    assert "Checked in the run" not in words
    assert "TLS" not in words
    assert "encrypted and authenticated" in words[words.index("Assumed, not checked") :]

"""What the report says about secrecy: it depends on the engine and on the audit."""

from __future__ import annotations

import dataclasses

from securefedyj.report import page as report
from tests.protocol.small_run import small_run, small_verified_run
from tests.report.runs import as_engine


def test_statement_names_who_must_not_collude(transcript):
    page = report.render(transcript)
    assert "Any two of <bdi>silo A</bdi>, <bdi>silo B</bdi> and" in page
    assert "could have seen exact sums over all silos but their own, taken together" in page
    fewer = dataclasses.replace(transcript.agreement, helpers=("silo D",))
    words = report.render(dataclasses.replace(transcript, agreement=fewer))
    assert "Two of them together could have seen the exact sums of one silo by itself" in words
    parties = transcript.agreement.parties
    assert "2 or more of the 4 parties" in report.render(as_engine(transcript, "mpyc", parties))
    clear = report.render(as_engine(transcript, "clear", parties))
    assert "This run kept nothing secret." in clear
    assert "No row and no value" not in clear


def test_statement_says_how_precise_the_result_is(transcript):
    coarse = dataclasses.replace(transcript.agreement, result_bits=17)
    words = report.render(dataclasses.replace(transcript, agreement=coarse)).replace("\n", " ")
    assert "λ is found in at most 12 steps, and mean and variance are given to 17 bits" in words
    assert "<dt>Mean and variance</dt><dd>to 17 bits</dd>" in words
    assert "They are exact" not in words


def test_bits_per_feature_are_told(transcript):
    bits = transcript.bits_opened()
    words = report.render(transcript).replace("\n", " ")
    assert f"{bits.min()} to {bits.max()} bits were revealed of the values of each" in words


def test_failed_audit_is_told_at_the_top(transcript):
    result = transcript.result._replace(lmbda=transcript.result.lmbda + 1)
    page = report.render(dataclasses.replace(transcript, result=result))
    assert page.index("The audit failed.") < page.index("<h2>")
    assert "does not follow from what was revealed" in page
    assert "The audit passed" not in page


def test_page_says_whether_the_result_was_verified(transcript):
    def words(page: str) -> str:
        return " ".join(page.split())

    not_verified = as_engine(transcript, "replicated", transcript.agreement.parties[:3])
    page = words(report.render(not_verified))
    assert page.index("The result was not verified.") < page.index("<h2>")
    assert "One member of the committee that cheated could have falsified the result" in page
    clear = as_engine(transcript, "clear", transcript.agreement.parties)
    assert "Engine clear cannot do that. One party that cheated" in words(report.render(clear))
    verified = small_verified_run()
    assert verified.audit().passed
    page = words(report.render(verified))
    assert "not verified" not in page.lower()
    assert "<dd>agreed on; the verdict was opened as 1" in page
    assert page.count("Who has only this transcript cannot check that.") == 2
    assert "who does not may learn more than the result" in page
    ended_otherwise = dataclasses.replace(verified, reveals=small_run().reveals)
    page = words(report.render(ended_otherwise))
    assert "<dd>agreed on, but the transcript does not tell that it succeeded" in page
    assert "opened as 1" not in page

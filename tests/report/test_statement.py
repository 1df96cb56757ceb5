"""What the report says about secrecy: it depends on the engine and on the audit."""

from __future__ import annotations

import dataclasses
from html import escape

from securefedyj.protocol.audit import one_could_cheat
from securefedyj.protocol.transcript import Transcript
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


def test_bits_per_feature_are_on_the_page(transcript):
    bits = transcript.bits_opened()
    words = report.render(transcript).replace("\n", " ")
    assert f"{bits.min()} to {bits.max()} bits were revealed of the values of each" in words


def test_failed_audit_is_at_the_top(transcript):
    result = transcript.result._replace(lmbda=transcript.result.lmbda + 1)
    page = report.render(dataclasses.replace(transcript, result=result))
    assert page.index("The audit failed.") < page.index("<h2>")
    assert "does not follow from what was revealed" in page
    assert "The audit passed" not in page


def test_page_says_whether_the_result_was_verified(transcript):
    def words(page: str) -> str:
        return " ".join(page.split())

    def shown(transcript: Transcript) -> str:
        sentence = one_could_cheat(transcript.agreement)
        return sentence[0].upper() + sentence[1:]

    not_verified = as_engine(transcript, "replicated", transcript.agreement.parties[:3])
    page = words(report.render(not_verified))
    assert page.index("The result was not verified.") < page.index("<h2>")
    assert shown(not_verified) in page
    clear = as_engine(transcript, "clear", transcript.agreement.parties)
    assert shown(clear) in words(report.render(clear))
    verified = small_verified_run()
    assert verified.audit().passed
    page = words(report.render(verified))
    assert "not verified" not in page.lower()
    assert "<dt>Verified</dt><dd>yes" in page
    assert page.count(escape(" ".join(verified.audit().how_certainly()))) == 2
    assert "may learn more than the result" in page
    ended_otherwise = dataclasses.replace(verified, reveals=small_run().reveals)
    page = words(report.render(ended_otherwise))
    assert "<dt>Verified</dt><dd>agreed on, but" in page
    assert "<dd>yes" not in page

"""What the report says about secrecy: it depends on the engine and on the audit."""

from __future__ import annotations

import dataclasses

from securefedyj.report import page as report
from tests.report.runs import as_engine


def test_statement_names_who_must_not_collude(transcript):
    page = report.render(transcript)
    assert "Any two of <bdi>silo A</bdi>, <bdi>silo B</bdi> and" in page
    assert "Two of them together could have seen one sum over all silos but their own" in page
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

"""The report: complete, alone in its file, and harmless whatever the names are."""

from __future__ import annotations

import dataclasses
import json
import re
from html.parser import HTMLParser

from securefedyj.protocol.transcript import Transcript
from securefedyj.report import page as report
from tests.refusals import refused
from tests.report.runs import data


class Elements(HTMLParser):
    """Every element and attribute of a page, and that elements are closed in order."""

    VOID = frozenset({"meta", "input", "path", "polyline"})

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_page_is_well_formed(page):
    assert Elements(page).open == []


def test_names_cannot_bring_in_elements_or_attributes(page):
    elements = Elements(page).found
    assert [tag for tag, _ in elements].count("script") == 1
    assert {tag for tag, _ in elements}.isdisjoint({"img", "b", "iframe", "link", "object"})
    assert not any(name.startswith("on") for _, attributes in elements for name in attributes)
    assert "&lt;script&gt;alert(" in page
    assert "<bdi>&lt;b&gt;silo C&lt;/b&gt;</bdi>" in page
    assert "\x00" not in page
    assert "\u202e" not in page


def test_page_loads_nothing_from_elsewhere(page):
    elements = Elements(page).found
    attributes = [name for _, found in elements for name in found if name != "href"]
    assert {"src", "srcset", "action"}.isdisjoint(attributes)
    links = [found["href"] for _, found in elements if "href" in found]
    assert all(re.fullmatch(r"#f\d+", link or "") for link in links)
    assert "url(" not in page
    assert "@import" not in page
    assert "default-src 'none'" in page


def test_script_is_the_one_that_the_policy_admits(page):
    import base64
    import hashlib

    (script,) = re.findall(r"<script>(.*?)</script>", page, re.S)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in page


def test_page_with_data_says_so_before_anything_else(page, transcript):
    warning = page.index("This page shows your own data")
    assert warning < page.index("<svg")
    assert warning < page.index('class="tiles"')
    assert "Local only." in page
    without = report.render(transcript)
    assert "your own data" not in without
    assert "Every party knows what is on this page" in without


def test_page_without_data_holds_nothing_of_the_rows(transcript):
    """Only what is in the transcript can be in it: another silo's page is the same."""
    again = Transcript.from_lines(json.loads(json.dumps(list(transcript.to_lines()))))
    assert report.render(again) == report.render(transcript)


def test_run_without_result_has_no_report(transcript):
    with refused("SFY-REP-006"):
        report.render(dataclasses.replace(transcript, result=None))


def test_file_can_be_written_whatever_the_names_are(transcript, tmp_path):
    report.write(tmp_path / "r.html", transcript, data()[:20])
    assert (tmp_path / "r.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")

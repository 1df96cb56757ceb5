"""The report: complete, alone in its file, and harmless whatever the names are."""

from __future__ import annotations

import dataclasses
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from securefedyj.numerics.encoding import Domain
from securefedyj.protocol.agreement import Agreement
from securefedyj.protocol.simulation import simulate
from securefedyj.protocol.transcript import Transcript
from securefedyj.report import page as report
from securefedyj.report.charts import histogram, quantiles, search

EVIL = '</title></script><script>alert("x")</script><img src=x onerror=alert(1)>"\' onload="y'
NAMES = ("skewed", "rare", "constant", "empty", "few", EVIL, "\ud800\x00\u202eoh")


def data(rows: int = 60) -> np.ndarray:
    rng = np.random.default_rng(0)
    X = rng.lognormal(size=(rows, len(NAMES)))
    X[:, 1] = np.arange(rows) == 3
    X[:, 2] = 7.5
    X[:, 3] = np.nan
    X[4:, 4] = np.nan
    return X


def fit(X: np.ndarray, names: tuple[str, ...], parties: tuple[str, ...]) -> Transcript:
    agreement = Agreement(
        features=names,
        domain=Domain.from_bounds((0, 64), len(names)),
        parties=parties,
        committee=parties,
        engine="clear",
        max_steps=12,
        levels_per_exchange=4,
    )
    return simulate(agreement, np.array_split(X, len(parties)))[0]


def as_engine(transcript: Transcript, engine: str, committee: tuple[str, ...]) -> Transcript:
    """All engines open the same: the transcript of another one differs in its agreement."""
    agreement = dataclasses.replace(transcript.agreement, engine=engine, committee=committee)
    return dataclasses.replace(transcript, agreement=agreement)


@pytest.fixture(scope="module")
def transcript() -> Transcript:
    parties = ("silo A", "silo B", "<b>silo C</b>", "silo D")
    return as_engine(fit(data(), NAMES, parties), "replicated", parties[:3])


@pytest.fixture(scope="module")
def page(transcript) -> str:
    cost = {
        "encoding": report.Cost(10, {}, 2000, 1.0),
        "this run": report.Cost(None, {"<i>": 1000}, 1000, None),
    }
    return report.render(transcript, data()[:20], cost)


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
    attributes = [name for _, found in Elements(page).found for name in found]
    assert {"src", "href", "srcset", "action"}.isdisjoint(attributes)
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


def test_every_feature_is_in_the_table_with_its_note(page):
    body = page[page.index("<tbody>") : page.index("</tbody>")]
    rows = body.split("<tr>")[1:]
    assert len(rows) == len(NAMES)
    notes = [re.findall(r'class="flag">(.*?)<', row) for row in rows]
    assert notes == [[], ["at the edge"], ["constant"], ["no values"], ["few values"], [], []]


def test_statement_names_who_must_not_collude(transcript):
    page = report.render(transcript)
    assert "Any two of <bdi>silo A</bdi>, <bdi>silo B</bdi> and" in page
    assert "<bdi>silo A</bdi> and <bdi>silo B</bdi> together could have seen the sums" in page
    parties = transcript.agreement.parties
    assert "2 or more of the 4 parties" in report.render(as_engine(transcript, "mpyc", parties))
    clear = report.render(as_engine(transcript, "clear", parties))
    assert "This run kept nothing secret." in clear
    assert "No row and no value" not in clear


def test_failed_audit_is_told_at_the_top(transcript):
    result = transcript.result._replace(lmbda=transcript.result.lmbda + 1)
    page = report.render(dataclasses.replace(transcript, result=result))
    assert page.index("The audit failed.") < page.index("<h2>")
    assert "does not follow from what was revealed" in page
    assert "The audit passed" not in page


def test_cost_stands_beside_the_plan(page, tmp_path):
    table = page[page.index("What it cost") :]
    assert table.index("<th>encoding</th>") < table.index("<th>this run</th>")
    assert "<td>sent by the party that sends most</td><td>2.0 kB</td><td>1.0 kB</td>" in table
    assert "<td>sent by &lt;i&gt;</td><td>–</td><td>1.0 kB</td>" in table
    path = tmp_path / "cost.json"
    sent = {"a": {"b": 1, "c": 2}, "b": {"a": 7}}
    run = {"rounds": 3, "bytes_sent": sent, "seconds_local": 1.0, "seconds_secure": 2.0}
    path.write_text(json.dumps(run))
    parts = {"sums of own rows": 1.0, "secure computation": 2.0}
    assert report.read_cost(path) == report.Cost(3, {"a": 3, "b": 7}, 7, 3.0, {}, parts)
    run = {"party": "a", "bytes_sent": 5, "bytes_received": 6, "seconds_waiting": 4}
    path.write_text(json.dumps(run))
    parts = {"waiting for others": 4.0}
    assert report.read_cost(path) == report.Cost(None, {"a": 5}, None, 4.0, {"a": 6}, parts)
    path.write_text(json.dumps({"bytes_sent": 5}))
    assert report.read_cost(path) == report.Cost(None, {"this party": 5}, None, None)
    path.write_text('{"levels": [{"levels": 4, "rounds": 9, "megabytes": 0.5, "seconds": 2}]}')
    assert report.read_plan(path, 4) == report.Cost(9, {}, 500_000, 2.0)
    with pytest.raises(ValueError, match="does not say what 3 levels cost"):
        report.read_plan(path, 3)


@pytest.mark.parametrize("content", ["[]", "{}", "x", '{"bytes_sent": "x"}', '{"levels": [3]}'])
def test_file_that_is_no_cost_is_named(content, tmp_path):
    (tmp_path / "c.json").write_text(content)
    for read in (report.read_cost, lambda path: report.read_plan(path, 4)):
        with pytest.raises(ValueError, match=r"c\.json: this"):
            read(tmp_path / "c.json")


def test_run_without_result_has_no_report(transcript):
    with pytest.raises(ValueError, match="did not come to its end"):
        report.render(dataclasses.replace(transcript, result=None))


def test_many_features_are_drawn_in_part_and_listed_in_full(tmp_path):
    p = 300
    X = np.random.default_rng(0).lognormal(size=(30, p))
    X[:, 200] = np.arange(30) == 3
    transcript = fit(X, tuple(f"f{j}" for j in range(p)), ("a",))
    report.write(tmp_path / "r.html", transcript, X)
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    drawn = re.findall(r"<h3><bdi>f(\d+)</bdi>", page)
    assert len(drawn) == report.PLOTS
    assert drawn[:10] == [str(j) for j in range(10)]
    assert "200" in drawn  # at the edge
    assert f"{report.PLOTS} of {p} features are drawn" in page
    assert page.count("<tr>") == 1 + p
    assert len(page) < 1_000_000
    assert "<h3>" not in report.render(transcript, plots=0)


def test_charts_stay_inside_their_frame():
    rng = np.random.default_rng(0)
    for x in (rng.lognormal(size=500), np.array([1e300, -1e300, 0.0]), np.array([2.0, 2.0])):
        z = (x / np.abs(x).max() - np.mean(x / np.abs(x).max())) / 0.5
        drawings = [
            histogram(x, "t", "x", None),
            histogram(z, "t", "z", (0.0, 1.0)),
            quantiles(z, z, "t"),
            search(np.array([0.0, -1.0, -2.0]), np.array([-1, -1, 1], dtype=np.int8), -1.5, "t"),
        ]
        for svg in drawings:
            assert "nan" not in svg
            assert "inf" not in svg
            points = re.findall(r"([\d.-]+),([\d.-]+)", svg)
            assert all(0 <= float(a) <= 270 and -1 <= float(b) <= 168 for a, b in points)


def test_file_can_be_written_whatever_the_names_are(transcript, tmp_path):
    report.write(tmp_path / "r.html", transcript, data()[:20])
    assert (tmp_path / "r.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")

"""The pages of `securefedyj desk` in a real browser, from the choice of files to the report."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from securefedyj.network import local
from securefedyj.network.consortium import Feature
from tests.patience import PATIENCE, wait_until
from tests.report.browser import CHROMIUM, Browser

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed"),
]
NAMES = ("lactate", "creatinine", "C-reactive protein", "age")
WIDTHS = (1280, 390)


class Visitor:
    """A person in front of a browser, who sees each page at both widths."""

    def __init__(self, browser: Browser, url: str, folder: Path) -> None:
        self.browser, self.url, self._folder = browser, url, folder
        self._number = itertools.count(1)
        self.browser.open(url, WIDTHS[0])

    def look(self, page: str) -> str:
        """Its text; nothing may be wider than the window, or too small for a finger."""
        for width in WIDTHS:
            self.browser.open(self.url + page, width)
            inner = "document.documentElement.scrollWidth"
            assert self.browser.evaluate(inner) <= width
            small = "[...document.querySelectorAll('button, .main, summary, .files a')].filter("
            small += "e => e.checkVisibility() && e.getBoundingClientRect().height < 24).length"
            assert self.browser.evaluate(small) == 0
            self.browser.picture(self._folder / f"{next(self._number):02}-{width}.png")
        text: str = self.browser.evaluate("document.body.innerText")
        return text

    def click(self, what: str, then: str) -> None:
        """Click on what a selector finds first, and wait for what is on the next page."""
        # The page may be about to load itself again, in place of where the click leads.
        self.browser.evaluate(f"window.stop(); document.querySelector({what!r}).click()")
        self.browser.until(f"document.querySelector({then!r}) !== null")


@pytest.fixture
def visitor(tmp_path) -> Iterator[tuple[Visitor, local.Processes]]:
    draws = np.random.default_rng(1).lognormal(sigma=0.5, size=(90, len(NAMES)))
    tables = {name: draws[30 * j :][:30] for j, name in enumerate(("north", "east", "south"))}
    features = [Feature(name, 0.0, 1024.0) for name in NAMES]
    local.prepare(tmp_path, tables, features, name="sepsis", max_steps=12)
    (tmp_path / "securefedyj.toml").write_text('ledger = "ledger.jsonl"\n')
    (tmp_path / "pictures").mkdir()
    with local.Processes(tmp_path) as running:
        running.start("desk", "-m", "securefedyj", "desk", "--no-browser")
        url = r"http://127\.0\.0\.1:\d+/\S+/"
        wait_until(lambda: re.search(url, running.log("desk")), lambda: running.log("desk"))
        browser = Browser(tmp_path / "browser")
        address = re.findall(url, running.log("desk"))[0]
        yield Visitor(browser, address, tmp_path / "pictures"), running
        browser.close()


def test_a_run_from_the_choice_of_files_to_the_report(visitor, tmp_path):
    person, running = visitor
    assert "Nothing leaves this machine" in person.look("")
    for field, file in {
        "consortium": "consortium.toml",
        "data": "north.csv",
        "key": "north.key",
    }.items():
        person.click(f"button[value={field}]", "input[type=hidden]")
        if "north.csv" not in person.browser.evaluate("document.body.innerText"):
            person.look(f"folder?field={field}&folder={tmp_path}")
        person.click(f"button[value='{tmp_path / file}']", "details")
    assert person.browser.evaluate("certificate.value") == str(tmp_path / "north.pem")
    assert person.browser.evaluate("ledger.value") == str(tmp_path / "ledger.jsonl")
    person.browser.evaluate("ledger.focus()")
    person.browser.press("Enter")
    person.browser.until("document.querySelector('button[value=join]') !== null")
    text = person.look("work")
    assert "30 rows" in text
    assert "What will be revealed" in text

    # Nobody is there yet.
    person.click("button[value=connect]", "[role=alert]")
    assert "[SFY-" in person.browser.evaluate("document.body.innerText")
    person.click("button[value=join]", "form[action=stop]")
    person.browser.until("document.body.innerText.includes('hub')")
    assert "Under way" in person.look("work")
    person.click("form[action=stop] button", "button[value=join]")
    assert "You have stopped this" in person.look("work")

    running.start_hub()
    for name in ("east", "south"):
        running.start_party(name)
    person.click("button[value=join]", "form[action=stop], a[href=report]")
    person.browser.until("document.querySelector('a[href=report]') !== null")
    assert "Done." in person.look("work")
    person.click("a[href=report]", "#features")
    assert "The audit passed." in person.look("report")
    assert person.browser.told == []

    assert [running.running[name].wait(PATIENCE) for name in ("east", "south")] == [0, 0]
    files = [tmp_path / folder / "parameters.json" for folder in ("consortium-result", "east")]
    assert files[0].read_bytes() == files[1].read_bytes()

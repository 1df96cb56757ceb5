"""The report in a real browser: nothing overflows, nothing is refused, and the table obeys."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from securefedyj.report import page as report
from tests.report.browser import CHROMIUM, Browser
from tests.report.runs import EVIL, fit

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed"),
]
P = 260
ROWS = "[...document.querySelectorAll('#features tbody tr')].filter(r => r.checkVisibility())"


@pytest.fixture(scope="module")
def path(tmp_path_factory) -> Path:
    X = np.random.default_rng(0).lognormal(sigma=np.linspace(0.1, 1, P), size=(30, P))
    X[:, 250] = np.arange(30) == 3
    X[:15, 7] *= 9
    names = (EVIL + "long" * 30, *(f"f{j}" for j in range(1, P)))
    made = tmp_path_factory.mktemp("page") / "report.html"
    report.write(made, fit(X, names, ("a", "b")), X[:15])
    return made


@pytest.fixture(scope="module")
def browser(tmp_path_factory) -> Iterator[Browser]:
    running = Browser(tmp_path_factory.mktemp("browser"))
    yield running
    running.close()


@pytest.mark.parametrize("width", [1280, 390])
def test_page_fits_and_charts_have_one_size(width, browser, path):
    browser.open(path, width)
    widths = "(e => [e.scrollWidth, e.clientWidth])(document.documentElement)"
    wanted, there = browser.evaluate(widths)  # less than the window's by a scroll bar
    assert wanted == there <= width
    sizes = browser.evaluate(
        "[...document.querySelectorAll('.charts svg')].map(s => s.getBoundingClientRect())"
        ".map(r => r.width + 'x' + r.height)"
    )
    assert set(sizes) == {"280x190"}
    text = browser.evaluate("getComputedStyle(document.querySelector('.charts text')).fontSize")
    assert float(text.removesuffix("px")) >= 11
    assert browser.told == []


def test_the_table_is_as_narrow_as_a_telephone(browser, path):
    browser.open(path, 390)
    wide = "(e => e.scrollWidth - e.clientWidth)(document.querySelector('.scroll'))"
    assert browser.evaluate(wide) == 0
    assert browser.evaluate(f"{ROWS}.length") == 200
    said = f"getComputedStyle({ROWS}[0].cells[3], '::before').content"
    assert browser.evaluate(said) == '"center "'


def test_table_is_sorted_by_keyboard(browser, path):
    browser.open(path, 1280)
    shifts = f"{ROWS}.map(r => parseFloat(r.cells[6].textContent.replace('−', '-')))"
    before = browser.evaluate(shifts)
    browser.evaluate("document.querySelectorAll('#features th button')[6].focus()")
    browser.press("Enter")
    down = browser.evaluate(shifts)
    assert down == sorted(down, reverse=True) != before
    assert browser.evaluate(f"{ROWS}[0].cells[0].textContent").startswith("f7")
    browser.press("Enter")
    up = browser.evaluate(shifts)
    assert up == sorted(up)
    browser.press("Enter")
    assert browser.evaluate(shifts) == before


def test_many_rows_are_shown_when_asked_for_and_all_are_searched(browser, path):
    browser.open(path, 390)
    assert browser.evaluate(f"{ROWS}.length") == 200
    search = (
        "(w => {const t = document.getElementById('filter-text'); t.value = w;"
        "t.dispatchEvent(new Event('input', {bubbles: true}))})"
    )
    browser.evaluate(f"{search}('f25')")
    assert browser.evaluate(f"{ROWS}.map(r => r.cells[0].textContent.trim().split(' ')[0])") == [
        "f25",
        *(f"f25{d}" for d in range(10)),
    ]
    browser.evaluate(f"{search}('')")
    browser.evaluate("document.getElementById('filter-all').click()")
    assert browser.evaluate(f"{ROWS}.length") == P
    browser.evaluate("document.getElementById('filter-flagged').click()")
    noted = browser.evaluate(f"{ROWS}.map(r => r.querySelector('.flag') !== null)")
    assert 0 < len(noted) < P
    assert all(noted)
    assert browser.told == []

"""The features on the page: all of them in the table, with a note where one is unusual."""

from __future__ import annotations

import re

from tests.report.runs import NAMES


def test_every_feature_is_in_the_table_with_its_note(page):
    body = page[page.index("<tbody") : page.index("</tbody>")]
    rows = body.split("<tr>")[1:]
    assert len(rows) == len(NAMES)
    notes = [re.findall(r'class="flag">(.*?)<', row) for row in rows]
    assert notes == [
        [],
        ["search hit its limit", "λ beyond 10"],
        ["constant", "not certain"],
        ["no values"],
        ["few values"],
        [],
        [],
    ]

"""Numbers of docs/security.md that follow from the code."""

from __future__ import annotations

import re
from math import ceil, log2
from pathlib import Path

from securefedyj.engines.replicated.gates import Layout
from securefedyj.protocol.course import PAIRS_AT_ONCE

PAGE = (Path(__file__).parents[2] / "docs" / "security.md").read_text(encoding="utf-8")
WORDS = {"million": 10**6, "billion": 10**9}


def wrongly_accepted(gates: int, exchanges: int = 1) -> float:
    """At most, as the page says, products included."""
    layout = Layout.of(gates // 8)
    tried = 6 + ceil(layout.columns / 512) + 2 * layout.rows
    return exchanges * (tried / (2**64 - 2**8) + 2**-64)


def test_how_likely_wrong_gates_are_accepted():
    found = re.findall(r"^\| (\d+) (\w+) \| (\d+) \| ([\d,]+) \| 2\^-([\d.]+) \|$", PAGE, re.M)
    assert len(found) == 3
    for number, word, rows, columns, bits in found:
        gates = int(number) * WORDS[word]
        assert Layout.of(gates // 8) == Layout(int(rows), int(columns.replace(",", "")))
        assert 0 <= -log2(wrongly_accepted(gates)) - float(bits) < 0.1


def test_how_likely_a_whole_run_accepts_them():
    (features, gates, one, six) = re.search(
        r"up to ([\d,]+) features,\s+some (\d+) million gates: 2\^-([\d.]+) for one exchange, and "
        r"2\^-([\d.]+) for six",
        PAGE,
    ).groups()
    assert int(features.replace(",", "")) == PAIRS_AT_ONCE // 15
    for exchanges, bits in ((1, one), (6, six)):
        assert 0 <= -log2(wrongly_accepted(int(gates) * 10**6, exchanges)) - float(bits) < 0.1

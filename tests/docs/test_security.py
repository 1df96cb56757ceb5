"""Numbers of docs/security.md and security-details.md that follow from the code."""

from __future__ import annotations

import re
import subprocess
import sys
from itertools import count, takewhile
from math import ceil, log2, log10
from pathlib import Path

import pytest

from securefedyj.engines.mpyc.library import STATISTICAL_SECURITY
from securefedyj.engines.replicated.gates import Layout
from securefedyj.network.consortium import Consortium
from securefedyj.network.errors import EndOfRun
from securefedyj.network.session.memory import Memory, count_interruptions
from securefedyj.protocol.reveals import Step, Variation
from securefedyj.protocol.schedule import PAIRS_AT_ONCE
from tests.federated_data import agreement
from tests.protocol.small_run import STEPS, small_run

ROOT = Path(__file__).parents[2]
SHORT, DETAILS, OFFICERS, PROTOCOL = (
    (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    for name in ("security", "security-details", "data-protection", "protocol")
)
PAGE = SHORT + DETAILS
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


def slack(parties: int) -> int:
    """Bits of the one part of a mask of engine `mpyc` that a coalition does not know."""
    threshold = (parties - 1) // 2
    return int(log2(2**STATISTICAL_SECURITY // (threshold + 1)))


def test_how_far_masks_of_engine_mpyc_hide_what_they_are_added_to():
    said = re.search(
        r"2\^-(\d+) with (\d+) or (\d+) parties, 2\^-(\d+) with (\d+) to (\d+), 2\^-(\d+)\s+with "
        r"(\d+) to (\d+)\.",
        PAGE,
    )
    numbers = list(map(int, said.groups()))
    assert (numbers[1], numbers[-1] + 1) == (3, 17)
    for bits, first, last in zip(*[iter(numbers)] * 3, strict=True):
        assert {slack(parties) for parties in range(first, last + 1)} == {bits}
    in_table = re.search(
        r"2\^-(\d+) for each masked number with K = (\d+), 2\^-(\d+) with K = (\d+)", PAGE
    )
    three, first, ten, last = map(int, in_table.groups())
    assert (three, ten) == (slack(first), slack(last)) == (63, 61)
    (million,) = re.search(
        r"a million masked numbers it is 2\^-(\d+) with 3 parties", PAGE
    ).groups()
    assert 0 <= slack(3) - log2(10**6) - int(million) < 0.1


MASKS = """
import sys
from types import SimpleNamespace
from securefedyj.engines.mpyc.library import STATISTICAL_SECURITY, load

def told(bound):
    print(bound)
    raise SystemExit

mpc = load(0, int(sys.argv[1]))
sys.modules["mpyc.runtime"].secrets = SimpleNamespace(randbelow=told)
mpc._np_randoms(mpc.SecInt(64).field, 1, 1 << STATISTICAL_SECURITY)
"""


@pytest.mark.mpyc
@pytest.mark.parametrize("parties", [3, 10])
def test_mpyc_draws_masks_as_wide_as_the_page_says(parties):
    command = [sys.executable, "-c", MASKS, str(parties)]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert int(told) == 2 ** slack(parties)


def can_begin(earlier: int) -> bool:
    """Whether a run can begin after so many over the same columns that did not finish."""
    agreed = agreement(1)
    try:
        count_interruptions(Memory(agreed), Consortium.max_interruptions, earlier)
    except EndOfRun:
        return False
    return True


def test_how_much_a_cheating_member_learns_before_a_run_ends_unverified():
    """A bit of each step, of the variation, and of the one opening that is made again."""
    searched = [type(reveal) for reveal in small_run().reveals]
    assert (searched.count(Variation), searched.count(Step)) == (1, STEPS)
    bits = Consortium.max_steps + 1 + 1
    runs = len(list(takewhile(can_begin, count())))
    said = re.search(
        r"max_steps \+ 2\s+bits of its choice about each feature, which is (\d+) bits at the "
        r"default of (\d+) steps.*?the default of (\d+) \(`max_interruptions`\) the ledger lets "
        r"(\d+) such runs begin: (\d+) times\s+(\d+) is (\d+), about (\d+) bits of a feature.*?"
        r"(\d+) bits tell one number to (\d+) digits",
        PAGE,
        re.DOTALL,
    )
    numbers = list(map(int, said.groups()))
    assert numbers[:7] == [
        bits,
        Consortium.max_steps,
        Consortium.max_interruptions,
        runs,
        runs,
        bits,
        runs * bits,
    ]
    about = round(runs * bits, -1)
    assert numbers[7:] == [about, bits, int(bits * log10(2))]
    for_officers = re.search(
        r"lets (\d+) of them begin, which\s+makes about (\d+) answers about each column "
        r"\((\d+) times (\d+): (\d+) steps, and two more\)",
        OFFICERS,
    )
    assert list(map(int, for_officers.groups())) == [runs, about, runs, bits, Consortium.max_steps]


def test_all_published_vectors_are_named():
    vectors = {path.name for path in (ROOT / "tests" / "vectors").glob("*.json")}
    for page in (PAGE, PROTOCOL[PROTOCOL.index("## 11. ") : PROTOCOL.index("## 12. ")]):
        assert set(re.findall(r"`tests/vectors/(\w+\.json)`", page)) == vectors

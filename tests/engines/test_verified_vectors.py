"""The published messages of a verified final opening hold, also for a second implementation."""

import json
import re
import runpy
from pathlib import Path

import numpy as np
import pytest

from securefedyj.party.inprocess import run
from securefedyj.party.messages import Kind
from tests.engines.verified_reference import Draws, Exchange, Opening, Stream, proof_messages
from tests.federated_data import agreement, assemble
from tests.simulation import Recorder

VECTORS = Path(__file__).parents[1] / "vectors"
PAGE = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text(encoding="utf-8")
SECTION_9_1 = PAGE[PAGE.index("### 9.1") : PAGE.index("## 10.")]
PUBLISHED = json.loads((VECTORS / "verified.json").read_text())
SETTINGS = ("silos", "helper")
GREETED = Kind.HELLO | Kind.KEY


def opening(setting):
    published = PUBLISHED[setting]
    agreement = json.loads(published["transcript"][0])["agreement"]
    exchange = Exchange(
        agreement["parties"],
        agreement["committee"],
        [party for party in agreement["parties"] if party not in agreement["helpers"]],
        [bytes.fromhex(key) for key in PUBLISHED["keys"]],
        {tuple(pair.split()): bytes.fromhex(key) for pair, key in published["mask_keys"].items()},
        {"west": [[bytes.fromhex(u) for u in pair] for pair in PUBLISHED["fresh_keys"]]},
    )
    points = {(entry["feature"], entry["lambda"]): entry for entry in published["sums"]}
    sums = {
        point: {
            silo: {name: int(value, 16) for name, value in values.items()}
            for silo, values in entry["silos"].items()
        }
        for point, entry in points.items()
    }
    return Opening(exchange, published["transcript"], published["counts"], sums, points)


def test_the_package_sends_what_is_published():
    made = runpy.run_path(str(VECTORS / "make_verified_vectors.py"))["vectors"]()
    assert json.loads(json.dumps(made)) == PUBLISHED


def result_of(program, rounds):
    """What a program returns that sends what is published."""
    for published in rounds:
        kinds, messages = next(program)
        assert kinds == set(published["kind"].split("+")), published["round"]
        sent = {" ".join(pair): payload.hex() for pair, payload in messages.items()}
        assert sent == published["sent"], published["round"]
    with pytest.raises(StopIteration) as end:
        next(program)
    return end.value.value


@pytest.mark.parametrize("setting", SETTINGS)
def test_all_messages_are_those_of_the_second_implementation(setting):
    published = PUBLISHED[setting]
    noted, reveal = result_of(opening(setting).program(), published["rounds"])
    assert json.dumps(reveal) == published["reveal"]
    assert [part.hex() for part in noted] == list(published["noted"].values())


@pytest.mark.parametrize("setting", SETTINGS)
def test_an_opening_from_what_was_noted_is_that_of_the_second_implementation(setting):
    published = PUBLISHED[setting]
    noted = list(map(bytes.fromhex, published["noted"].values()))
    program = opening(setting).from_noted(noted)
    reveal = result_of(program, published["rounds_from_noted"])
    assert json.dumps(reveal) == published["reveal"]


def test_its_proofs_are_those_of_the_reference_of_gates():
    published = json.loads((VECTORS / "gates.json").read_text())
    x, y, z, drawn = (
        [bytes.fromhex(part) for part in published[name]] for name in ("x", "y", "z", "drawn")
    )
    shape = published["rows"], published["columns"]
    draws = [Draws(Stream(bytes.fromhex(key)), *shape) for key in published["keys"]]
    for i, proof in enumerate(published["proofs"]):
        sent = proof_messages(i, x, y, z, drawn, draws, *shape)
        assert [part.hex() for part in sent] == [
            proof[name] for name in ("challenge", "proof", "evaluations")
        ]


def taken(operation):
    """Rounds and bytes of one member, for planes of one byte."""
    sizes = [sum(len(p) for pair, p in sent.items() if pair[0] == "a") for _, sent in operation]
    return len(sizes), sum(sizes)


def numbers(label):
    """A row of the table of section 9.1."""
    (row,) = re.findall(rf"^\| {re.escape(label)} \| (.*) \|$", SECTION_9_1, re.MULTILINE)
    return [int(number) for number in row.split(" | ")]


@pytest.mark.parametrize("limbs", [1, 2, 3, 5])
def test_rounds_and_bytes_are_those_of_section_9_1(limbs):
    names = ["a", "b", "c"]
    exchange = Exchange(names, names, names, [bytes([i] * 32) for i in range(3)], {}, {})
    place, w = numbers("l").index(limbs), 64 * limbs
    one, two = [[0]] * 3, [[0, 0]] * 3
    negative = numbers("rounds of negative")[place], numbers("4 w - 9")[place]
    assert taken(exchange.negative(one, limbs)) == negative
    assert negative[1] == 4 * w - 9
    rounds, size = numbers("rounds of bits")[place], numbers("B(l)")[place]
    assert taken(exchange.bits(two, limbs)) == (rounds, size)
    rounds = numbers("rounds of below_powers")[place]
    assert taken(exchange.powers([[0, 0, 0]] * w, 1, 1)) == (rounds, numbers("E(l)")[place])
    bounds = 2 * w // (place + 3)
    below = exchange.claim_below([[0, 0, 0]] * w, [(1 << bounds) - 1], False)
    assert taken(below) == ((bounds - 1).bit_length(), 2 * (bounds - 1))
    assert taken(exchange.claim_zero(one, limbs)) == (2 + (w - 1).bit_length(), 3 * w - 4)
    assert taken(exchange.challenge()) == (2, 66)
    assert taken(exchange.verdict()) == (6, 63)


def test_the_example_of_section_9_1_is_what_a_run_sends():
    rng = np.random.default_rng(198)
    tables = [rng.lognormal(0.3, 0.7, (100, 1)) for _ in range(3)]
    names = ("a", "b", "c")
    agreed = agreement(1, engine="replicated", parties=names, committee=names, verified=True)
    parties, recorder = assemble([agreed] * 3, tables), Recorder()
    run(parties, recorder)
    sent = [m for m in recorder.messages if m.sender == "a"]
    first = max(m.round for m in sent if m.kind & Kind.DIGEST)

    def size(kinds):
        return sum(len(m.payload) for m in sent if m.round >= first and m.kind & kinds)

    lines = re.findall(r"^    (\w+) .* = (\d+)$", SECTION_9_1, re.MULTILINE)
    listed = {name: int(number) for name, number in lines}
    assert listed["rounds"] == parties[0].rounds - first
    computed = Kind.PRODUCT | Kind.CARRY | Kind.CHECK
    for kinds in (Kind.DIGEST | Kind.INPUT, computed, Kind.OPENING):
        assert size(kinds) == sum(listed[str(kind)] for kind in kinds), kinds
    (said,) = re.findall(
        r"has (\d+) rounds, and the payloads are (\d+) bytes from `a` and (\d+) each from `b`",
        " ".join(SECTION_9_1.split()),
    )
    of_each = [
        sum(len(m.payload) for m in recorder.messages if m.sender == name and not m.kind & GREETED)
        for name in names
    ]
    assert [parties[0].rounds, *of_each] == list(map(int, [*said, said[-1]]))

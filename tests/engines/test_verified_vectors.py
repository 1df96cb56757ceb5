"""The published messages of a verified final opening hold, also for a second implementation."""

import json
import runpy
from pathlib import Path

import pytest

from tests.engines.verified_reference import Exchange, Opening

VECTORS = Path(__file__).parents[1] / "vectors"
PUBLISHED = json.loads((VECTORS / "verified.json").read_text())
SETTINGS = ("silos", "helper")


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


@pytest.mark.parametrize("setting", SETTINGS)
def test_all_messages_are_those_of_the_second_implementation(setting):
    rounds, program = PUBLISHED[setting]["rounds"], opening(setting).program()
    for published in rounds:
        kinds, messages = next(program)
        assert kinds == set(published["kind"].split("+")), published["round"]
        sent = {" ".join(pair): payload.hex() for pair, payload in messages.items()}
        assert sent == published["sent"], published["round"]
    with pytest.raises(StopIteration) as end:
        next(program)
    assert [json.dumps(reveal) for reveal in end.value.value] == PUBLISHED[setting]["reveals"]

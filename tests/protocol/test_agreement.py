"""Agreements from files and peers: read back exactly, and refused where no run can work."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from securefedyj.protocol.agreement import Agreement
from securefedyj.strict import Malformed, parse
from tests.federated_data import agreement


def right(**changes: Any) -> dict[str, Any]:
    agreed = agreement(
        2, silos=4, engine="replicated", helpers=("silo 2",), result_bits=24, verified=True
    )
    return agreed.to_json() | changes


def test_what_was_written_is_read_back_exactly():
    data = parse(json.dumps(right()))
    agreed = Agreement.from_json(data)
    assert agreed.to_json() == data
    assert (agreed.result_bits, agreed.helpers) == (24, ("silo 2",))
    assert agreed.silos == ("silo 1", "silo 3", "silo 4")
    assert Agreement.from_json(right(result_bits=8, max_steps=200, helpers=[])).result_bits == 8


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no steps": ({"max_steps": 0}, "max_steps must be from 1 to 200, not 0"),
    "many steps": ({"max_steps": 10**9}, "max_steps must be from 1 to 200"),
    "no levels": ({"levels_per_exchange": 0}, "levels_per_exchange must be from 1 to 8"),
    "many levels": ({"levels_per_exchange": 9}, "levels_per_exchange must be from 1 to 8"),
    "few bits": ({"result_bits": 7}, "result_bits must be from 8 to 44, not 7"),
    "many bits": ({"result_bits": 45}, "result_bits must be from 8 to 44, not 45"),
    "bits that are true": ({"result_bits": True}, "result_bits must be a whole number"),
    "a negative minimum": ({"minimum_values": -1}, "minimum_values must be from 0"),
    "a huge minimum": ({"minimum_values": 10**30}, "minimum_values must be from 0"),
    "an unknown helper": ({"helpers": ["nobody"]}, "helpers: 'nobody' is not one of the parties"),
    "a helper twice": ({"helpers": ["silo 2"] * 2}, "helpers has a name more than once"),
    "only helpers": (
        {"helpers": [f"silo {k}" for k in (1, 2, 3, 4)]},
        "all parties are helpers: nobody has data",
    ),
    "an unknown member": (
        {"committee": ["silo 1", "silo 2", "silo 9"]},
        "committee: 'silo 9' is not one of the parties",
    ),
    "a small committee": ({"committee": ["silo 1", "silo 2"]}, "has 3 members, not 2"),
    "a party twice": ({"parties": ["silo 1"] * 4}, "parties has a name more than once"),
    "nobody": ({"parties": [], "committee": [], "helpers": []}, "0 parties cannot keep secrets"),
    "tiny bounds": ({"lower": [0, 0], "upper": [1, 1e-300]}, "below 1e-292"),
    "small bounds": ({"lower": [0, 0], "upper": [1, 1e-20]}, "would need a lambda beyond"),
    "verified in words": ({"verified": "yes"}, "verified must be true or false"),
    "verified by an engine that cannot": (
        {"engine": "clear", "committee": [f"silo {k}" for k in (1, 2, 3, 4)]},
        "engine 'clear' cannot verify a result: agree on engine 'replicated', or on verified = ",
    ),
    "another version": (
        {"version": 10**6},
        "this is of protocol version 1000000, and this release",
    ),
    "a bound less": ({"lower": [0]}, "2 features, but 1 lower and 2 upper bounds"),
    "a bound more": ({"upper": [1, 2, 3]}, "2 features, but 2 lower and 3 upper bounds"),
    "helpers that are text": ({"helpers": "silo 2"}, "helpers must be a list"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_no_run_can_work_with_is_refused_with_a_sentence(case):
    change, sentence = WRONG[case]
    with pytest.raises(ValueError, match=sentence):
        Agreement.from_json(right(**change))


@pytest.mark.parametrize("field", list(right()))
def test_every_field_must_be_there(field):
    data = right()
    del data[field]
    with pytest.raises(Malformed, match=f"lacks {field}"):
        Agreement.from_json(data)


def test_the_document_lists_the_fields_and_its_example_is_an_agreement():
    page = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text(encoding="utf-8")
    section = page[page.index("## 2. Agreement") : page.index("## 3. ")]
    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == sorted(right())
    (example,) = re.findall(r'^    (\{"committee".*?\})$', section, re.MULTILINE | re.DOTALL)
    agreed = Agreement.from_json(parse(example))
    assert f"`{hashlib.sha256(agreed.to_bytes()).hexdigest()}`" in section

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
from tests.refusals import refused


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
    "no steps": ({"max_steps": 0}, "max_steps must be a whole number >= 1, not 0"),
    "many steps": ({"max_steps": 10**9}, "max_steps must be a whole number <= 200"),
    "no levels": ({"levels_per_exchange": 0}, "levels_per_exchange must be a whole number >= 1"),
    "many levels": ({"levels_per_exchange": 9}, "levels_per_exchange must be a whole number <= 8"),
    "few bits": ({"result_bits": 7}, "result_bits must be a whole number >= 8, not 7"),
    "many bits": ({"result_bits": 45}, "result_bits must be a whole number <= 44, not 45"),
    "bits that are true": ({"result_bits": True}, "result_bits must be a whole number"),
    "a negative minimum": ({"minimum_values": -1}, "minimum_values must be a whole number >= 0"),
    "a huge minimum": ({"minimum_values": 10**30}, "minimum_values must be a whole number"),
    "verified in words": ({"verified": "yes"}, "verified must be true or false"),
    "another version": ({"version": 10**6}, "this is of protocol version 1000000"),
    "a bound less": ({"lower": [0]}, "2 features, but 1 lower and 2 upper bounds"),
    "a bound more": ({"upper": [1, 2, 3]}, "2 features, but 2 lower and 3 upper bounds"),
    "an endless bound": ({"upper": [1, float("inf")]}, "upper"),
    "helpers that are text": ({"helpers": "silo 2"}, "helpers must be a list"),
    "another field": ({"more": 1}, "unknown field 'more'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_fields_of_another_form_are_refused_by_name(case):
    change, sentence = WRONG[case]
    with pytest.raises(Malformed, match=sentence):
        Agreement.from_json(right(**change))


SILOS = [f"silo {k}" for k in (1, 2, 3, 4)]
UNUSABLE: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown helper": ({"helpers": ["nobody"]}, "SFY-CON-031"),
    "a helper twice": ({"helpers": ["silo 2"] * 2}, "SFY-CON-016"),
    "only helpers": ({"helpers": SILOS}, "SFY-CON-005"),
    "an unknown member": ({"committee": ["silo 1", "silo 2", "silo 9"]}, "SFY-CON-010"),
    "a member twice": ({"committee": ["silo 1", "silo 2", "silo 2"]}, "SFY-CON-010"),
    "a small committee": ({"committee": ["silo 1", "silo 2"]}, "SFY-CON-010"),
    "not all compute": (
        {"engine": "clear", "verified": False, "committee": SILOS[:3]},
        "SFY-CON-017",
    ),
    "a party twice": ({"parties": ["silo 1"] * 4}, "SFY-CON-016"),
    "nobody": ({"parties": [], "committee": [], "helpers": []}, "SFY-ENG-022"),
    "an unknown engine": ({"engine": "paillier"}, "SFY-ENG-021"),
    "tiny bounds": ({"lower": [0, 0], "upper": [1, 1e-300]}, "SFY-NUM-003"),
    "small bounds": ({"lower": [0, 0], "upper": [1, 1e-20]}, "SFY-NUM-004"),
    "verified by an engine that cannot": ({"engine": "clear", "committee": SILOS}, "SFY-CON-009"),
}


@pytest.mark.parametrize("case", UNUSABLE)
def test_what_no_run_can_work_with_is_refused(case):
    change, code = UNUSABLE[case]
    with refused(code):
        Agreement.from_json(right(**change))


@pytest.mark.parametrize("field", list(right()))
def test_every_field_must_be_there(field):
    data = right()
    del data[field]
    with pytest.raises(Malformed, match=f"lacks '{field}'"):
        Agreement.from_json(data)


def test_the_document_lists_the_fields_and_its_example_is_an_agreement():
    page = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text(encoding="utf-8")
    section = page[page.index("## 2. Agreement") : page.index("### 2.1")]
    others = {"methods", "resolution", "digits", "rounded", "submitted", "claimed_points"}
    fields = sorted({*right(), *others})
    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == fields
    (example,) = re.findall(r'^    (\{"committee".*?\})$', section, re.MULTILINE | re.DOTALL)
    agreed = Agreement.from_json(parse(example))
    assert f"`{hashlib.sha256(agreed.to_bytes()).hexdigest()}`" in section

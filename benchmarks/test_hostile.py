"""Hostile files and records, a few hundred for each reader; `make fuzz` gives more."""

from __future__ import annotations

import json

import pytest

from benchmarks.fuzz import hostile

EXAMPLES = 200


@pytest.mark.slow
@pytest.mark.parametrize("name", hostile.TARGETS)
def test_a_reader_takes_hostile_content_or_refuses_it_in_a_sentence(name):
    tally = hostile.attack(name, EXAMPLES, seed=1)
    assert tally.examples >= EXAMPLES
    assert tally.accepted < tally.examples


@pytest.mark.slow
@pytest.mark.parametrize("name", ["consortium", "parameters", "transcript"])
def test_large_hostile_files_take_little_memory(name):
    assert hostile.attack_apart(name, 1, seed=1).memory < hostile.MOST_MEMORY


def test_valid_content_is_accepted():
    """So that what is refused is refused for a reason."""
    for name, content in [
        ("consortium", hostile.agreed_file().encode()),
        ("transcript", hostile.transcript().to_text().encode()),
        ("transcript", hostile.transcript(verified=True).to_text().encode()),
        ("state", "".join(json.dumps(line) + "\n" for line in hostile.state_lines()).encode()),
        ("message", hostile.message().to_bytes()),
    ]:
        assert hostile.TARGETS[name].take(content), name


@pytest.mark.parametrize(
    ("read", "error"),
    [
        (lambda content: [][1], IndexError),
        (lambda content: hostile.check_sentence("\x1b"), hostile.Broken),
        (lambda content: hostile.check_sentence("a" * 10**4), hostile.Broken),
    ],
)
def test_a_reader_that_breaks_is_noticed(monkeypatch, read, error):
    target = hostile.TARGETS["message"]
    broken = hostile.Target(target.contents, read, target.refusals)
    monkeypatch.setitem(hostile.TARGETS, "message", broken)
    with pytest.raises(error):
        hostile.attack("message", 5, seed=1)

"""The checker of states finds what was opened twice, and lets pass what may be."""

from __future__ import annotations

import json
from typing import Any

import pytest

from benchmarks import once

REVEALS = [{"reveal": "counts", "n": [60]}, {"reveal": "variation"}, {"reveal": "step", "step": 0}]


def journal(*lines: Any) -> str:
    """A state file; a number stands for the note of an opening, a reveal for itself."""
    header = {"transcript": 2, "agreement": {}}
    notes = [{"opening": line} if isinstance(line, int) else line for line in lines]
    return "".join(json.dumps(line) + "\n" for line in [header, *notes])


def a_run() -> str:
    notes: list[Any] = [{"session": "ab"}, {"exchange": 0}]
    for number, reveal in enumerate(REVEALS):
        notes += [number, reveal]
    return journal(*notes)


def test_an_undisturbed_run_passes():
    assert once.violations({"ana": a_run(), "bob": a_run()}) == []


def test_parties_that_only_listen_pass():
    assert once.violations({"ana": a_run(), "dua": journal(*REVEALS)}) == []


def test_who_was_handed_a_reveal_passes():
    other = journal(0, REVEALS[0], 1, REVEALS[1], {"interruption": "bob"}, REVEALS[2])
    assert once.violations({"ana": a_run(), "bob": other}) == []


def test_one_lost_opening_may_be_repeated_once():
    again = [{"interruption": {"by": "bob", "exchange": 1}}, {"repeat": 1}, 1]
    repeated = journal(0, REVEALS[0], 1, *again, REVEALS[1], 2, REVEALS[2])
    assert once.violations({"ana": repeated, "bob": repeated, "cem": a_run()}) == []


def test_what_only_one_party_has_may_be_repeated_once():
    alone = journal(0, REVEALS[0], 1, REVEALS[1], {"repeat": 1}, 1, 2, REVEALS[2])
    others = journal(0, REVEALS[0], 1, {"repeat": 1}, 1, REVEALS[1], 2, REVEALS[2])
    assert once.violations({"ana": alone, "bob": others, "cem": others}) == []


def test_a_second_time_without_a_note_is_found():
    twice = journal(0, REVEALS[0], 1, 1, REVEALS[1])
    assert once.violations({"ana": twice}) == [
        "ana: opening 1 was sent again without a note that it is a repeat"
    ]


def test_different_results_are_found():
    states = {name: a_run() + f'{{"confirmed": "{name}"}}\n' for name in ("ana", "bob")}
    assert once.violations(states) == ["parties have confirmed different results"]
    assert once.violations({"ana": states["ana"], "bob": a_run()}) == []


def test_a_third_time_is_found():
    repeated = journal(0, REVEALS[0], 1, {"repeat": 1}, 1, 1, REVEALS[1])
    assert once.violations({"ana": repeated}) == ["ana: opening 1 was sent 3 times"]


@pytest.mark.parametrize("same_party", [True, False])
def test_a_second_repeat_is_found_at_one_party_or_at_two(same_party):
    first, second = {"repeat": 0}, {"repeat": 1}
    if same_party:
        states = {"ana": journal(0, first, 0, REVEALS[0], 1, second, 1, REVEALS[1])}
    else:
        states = {
            "ana": journal(0, first, 0, REVEALS[0], 1, REVEALS[1]),
            "bob": journal(0, REVEALS[0], 1, second, 1, REVEALS[1]),
        }
    (found,) = once.violations(states)
    assert "more than one opening was repeated: 0 by ana; 1 by " in found


def test_an_opening_of_what_is_known_is_found():
    states = {"ana": journal(0, REVEALS[0], 1, REVEALS[1], 1)}
    assert once.violations(states) == ["ana: opening 1 was sent when it was known already"]


# --- The final opening of a verified run ---------------------------------------------------------

INTERRUPTED = {"interruption": {"by": "bob", "exchange": 2}}


def part(session: str = "ab", opening: int = 2) -> dict[str, Any]:
    return {"accepted": {"opening": opening, "session": session, "bits": "00ff"}}


def verified(*end: Any) -> str:
    """A run up to its final opening, which is number 2, and then this."""
    return journal(0, REVEALS[0], 1, REVEALS[1], *end)


FINAL = {"reveal": "final", "holds": True}


@pytest.mark.parametrize(
    "end",
    [
        [part(), 2, FINAL],
        [part(), 2, INTERRUPTED, 2, INTERRUPTED, 2, FINAL],
        [part(), 2, FINAL, INTERRUPTED, 2],
        [part("ab"), INTERRUPTED, part("cd"), 2, FINAL],
        [part("cd"), INTERRUPTED, 2, FINAL],
    ],
    ids=["once", "again", "again by one who has it", "computed again before", "taken along"],
)
def test_what_was_accepted_may_be_sent_again(end):
    outsider = verified(2, FINAL)
    assert once.violations({"ana": verified(*end), "dua": outsider}) == []


def test_a_repeat_elsewhere_does_not_count_together_with_it():
    end = [part(), 2, INTERRUPTED, 2, FINAL]
    again = journal(0, {"repeat": 0}, 0, REVEALS[0], 1, REVEALS[1], *end)
    assert once.violations({"ana": again, "bob": verified(*end)}) == []


def test_a_final_opening_that_is_computed_after_it_was_sent_is_found():
    end = [part("ab"), 2, INTERRUPTED, part("cd"), 2, FINAL]
    assert once.violations({"ana": verified(*end)}) == [
        "ana: opening 2 was computed again after it was sent"
    ]


def test_two_computations_of_a_final_opening_are_found_at_two_parties():
    states = {"ana": verified(part("ab"), 2, FINAL), "bob": verified(part("cd"), 2, FINAL)}
    assert once.violations(states) == ["opening 2 was sent of 2 computations"]
    states["bob"] = verified(part("cd"), INTERRUPTED)
    assert once.violations(states) == [], "what was not sent does not matter"


def test_what_was_accepted_is_not_made_again():
    end = [part(), 2, INTERRUPTED, {"repeat": 2}, 2, FINAL]
    assert once.violations({"ana": verified(*end)}) == [
        "ana: opening 2 was accepted, and made again"
    ]


def test_a_part_of_another_opening_allows_nothing():
    states = {"ana": verified(part(opening=1), 2, 2, FINAL)}
    assert once.violations(states) == [
        "ana: opening 1 was computed again after it was sent",
        "ana: opening 2 was sent again without a note that it is a repeat",
    ]


@pytest.mark.parametrize(
    "wrong",
    [None, [], {}, {"opening": 2, "session": "ab"}, {"opening": -1, "session": "ab", "bits": ""}],
    ids=str,
)
def test_a_note_without_a_part_is_found(wrong):
    (found,) = once.violations({"ana": verified({"accepted": wrong})})
    assert found.endswith("has no part of an opening")


def test_different_reveals_are_found():
    other = journal(0, REVEALS[0], 1, {"reveal": "variation", "varies": [False]})
    assert once.violations({"ana": a_run(), "bob": other}) == [
        "bob and ana have different reveals 1"
    ]


def test_strangers_have_no_say():
    assert once.violations({"ana": a_run(), "cem": journal(0, 0, 0)}, strangers=["cem"]) == []


def test_a_line_that_was_cut_passes_only_at_the_end():
    assert once.violations({"ana": a_run() + '{"opening": 3'}) == []
    assert once.violations({"ana": a_run() + '{"opening"\n'}) == ["ana: line 10 is not JSON"]


@pytest.mark.parametrize("number", [True, -1, 1.0, "1", None])
@pytest.mark.parametrize("kind", ["opening", "repeat"])
def test_a_note_without_a_number_is_found(kind, number):
    (found,) = once.violations({"ana": journal({kind: number})})
    assert f"{kind} without a number" in found


def test_states_are_found_in_their_folders(tmp_path):
    for name in ("ana", "bob"):
        (tmp_path / name).mkdir()
        (tmp_path / name / once.FILE).write_text(journal(0, {"repeat": 0}, 0, 0))
    assert len(once.check_folder(tmp_path, ["ana", "bob", "cem"])) == 2
    assert once.main([str(tmp_path / "ana" / once.FILE)]) == 1
    assert once.main([]) == 1

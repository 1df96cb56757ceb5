"""The audit finds what does not follow from the result; the statement says what was revealed."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest

from securefedyj.numerics.encoding import choose_encoding
from securefedyj.protocol.reveals import Final, Magnitudes, Moments
from securefedyj.protocol.transcript import Transcript
from tests.federated_data import agreement, run, shuffled
from tests.protocol.small_run import NAMES, STEPS, data, of_kind, small_run, small_verified_run


def audited(lines: list[dict]) -> list[str]:
    audit = Transcript.from_lines(lines).audit()
    assert audit.passed == (not audit.findings)
    return audit.findings


@pytest.mark.parametrize("engine", ["clear", "replicated"])
@pytest.mark.parametrize("levels", [1, 2, 4, 8])
def test_an_honest_run_passes(engine, levels):
    found = small_run(engine, levels)
    assert found.audit().findings == []
    assert found.result.at_bound.tolist() == [False, False, True, False, False, False]
    assert found.result.constant.tolist() == [False, False, False, True, True, True]


def test_every_flipped_sign_is_found(lines):
    flipped = 0
    for line in of_kind(lines, "step"):
        for k in range(len(line["delta"])):
            line["delta"][k] *= -1
            findings = audited(lines)
            name, step = NAMES[line["features"][k]], line["step"] + 1
            assert any(f"{name!r}, step {step}: the sign" in finding for finding in findings)
            line["delta"][k] *= -1
            flipped += 1
    # Two features take all steps; the third is at its edge after 0, -1, -2, -4, -8 and the edge.
    assert flipped == 2 * STEPS + 6
    assert audited(lines) == []


def test_every_altered_point_is_found(lines):
    for line in of_kind(lines, "step"):
        for k, lmbda in enumerate(line["lmbda"]):
            line["lmbda"][k] = float(np.nextafter(lmbda, 9))
            findings = audited(lines)
            *two, course = findings
            assert len(two) == 2, "this sign does not follow, and the right one is missing"
            assert f"step {line['step']} at another lambda" in course
            line["lmbda"][k] = lmbda


def test_every_missing_sign_is_found(lines):
    for line in of_kind(lines, "step"):
        for k in range(len(line["features"])):
            whole = copy.deepcopy(line)
            for part in ("features", "lmbda", "delta"):
                del line[part][k]
            name, step = NAMES[whole["features"][k]], whole["step"] + 1
            wanted = f"feature {name!r}, step {step}: a sign of the search is missing"
            assert wanted in audited(lines)
            line.update(whole)


@pytest.mark.parametrize("times", [0, 2])
def test_a_final_opening_is_revealed_once(times):
    lines = list(small_verified_run().to_lines())
    lines[-2:-1] = [lines[-2]] * times
    findings = audited(lines)
    for what in ("whether it was verified", "its magnitude", "its moments"):
        assert f"feature 'income': {what} revealed {times} times, not 1" in findings
    assert any("feature 'empty': whether it was verified" in finding for finding in findings)


@pytest.mark.parametrize("name", ["holds", "magnitude", "V", "S_y"])
def test_a_final_opening_that_was_altered_is_found(name):
    lines = copy.deepcopy(list(small_verified_run().to_lines()))
    assert audited(lines) == []
    final = lines[-2]
    if name == "holds":
        final["holds"] = False
    elif name == "magnitude":
        final["magnitude"][1] += 1
    else:
        final[name][1] = hex(int(final[name][1], 16) + 1)
    assert audited(lines) != []


def test_a_whole_missing_step_is_found(lines):
    last = of_kind(lines, "step")[-1]
    lines.remove(last)
    findings = audited(lines)
    for j in last["features"]:
        assert f"feature {NAMES[j]!r}, step {STEPS}: a sign of the search is missing" in findings


@pytest.mark.parametrize(
    ("feature", "step", "sentence"),
    [
        (0, STEPS, "a sign was revealed that the search does not need"),
        (0, 10**6, "a sign was revealed that the search does not need"),
        (0, -1, "a sign was revealed that the search does not need"),
        (0, 3, "more than one sign was revealed"),
        (2, 6, "a sign was revealed that the search does not need"),
        (3, 0, "a sign was revealed that the search does not need"),
        (4, 0, "a sign was revealed that the search does not need"),
        (5, 0, "a sign was revealed that the search does not need"),
    ],
    ids=["after the end", "far after", "before", "twice", "at the edge", "constant", "n=1", "n=0"],
)
@pytest.mark.parametrize("delta", [-1, 1])
def test_an_extra_sign_is_found(lines, feature, step, sentence, delta):
    """Also one that repeats what is known, and one of a feature that has no search."""
    steps = of_kind(lines, "step")
    known = [line for line in steps if line["step"] == step and feature in line["features"]]
    if known:
        place = known[0]["features"].index(feature)
        lmbda, delta = known[0]["lmbda"][place], known[0]["delta"][place]
    else:
        lmbda = 0.0
    extra = {
        "reveal": "step",
        "step": step,
        "features": [feature],
        "lmbda": [lmbda],
        "delta": [delta],
    }
    lines.insert(-2, extra)
    where = f"feature {NAMES[feature]!r}, step {step + 1}: "
    assert any(f.startswith(where) and sentence in f for f in audited(lines))


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        ("counts", "its count"),
        ("variation", "its variation"),
        ("magnitudes", "its magnitude"),
        ("moments", "its moments"),
    ],
)
def test_what_is_revealed_twice_or_not_at_all_is_found(lines, kind, what):
    line = of_kind(lines, kind)[0]
    lines.insert(lines.index(line), copy.deepcopy(line))
    assert f"feature 'income': {what} revealed 2 times, not 1" in audited(lines)
    for _ in range(2):
        lines.remove(line)
    assert f"feature 'income': {what} revealed 0 times, not 1" in audited(lines)


def test_counts_of_a_feature_that_nobody_needs_are_found(lines):
    """Moments of a feature without values, and the variation of one with a single value."""
    lines.insert(-1, {"reveal": "moments", "features": [4], "V": ["0x0"], "S_y": ["0x0"]})
    lines.insert(-1, {"reveal": "variation", "features": [4], "varies": [False]})
    findings = audited(lines)
    assert "feature 'single': its moments revealed 2 times, not 1" in findings
    assert "feature 'single': its variation revealed 1 times, not 0" in findings


ALTERED = {
    "lmbda": lambda v: float(np.nextafter(v, 9)),
    "mean": lambda v: float(np.nextafter(v, 9)),
    "var": lambda v: float(np.nextafter(v, 9)),
    "n": lambda v: v + 1,
    "at_bound": lambda v: not v,
    "constant": lambda v: not v,
    "center": lambda v: float(np.nextafter(v, 9)),
    "width": lambda v: float(np.nextafter(v, 9)),
}


@pytest.mark.parametrize("feature", range(6))
@pytest.mark.parametrize("name", ALTERED)
def test_an_altered_result_is_found(lines, name, feature):
    values = lines[-1]["result"][name]
    values[feature] = ALTERED[name](values[feature])
    findings = audited(lines)
    assert any(f.startswith(f"feature {NAMES[feature]!r}: ") for f in findings)
    assert any("does not follow from what was revealed" in f for f in findings)


def test_moments_that_do_not_fit_are_found(lines):
    (line,) = of_kind(lines, "moments")
    place = line["features"].index(0)
    right = line["V"][place]
    for V in (hex(int(right, 16) << 8), hex(int(right, 16) >> 8), "-0x1"):
        line["V"][place] = V
        sentence = "feature 'income': the variance is not of the magnitude that was revealed"
        assert sentence in audited(lines)
    line["V"][place] = right
    # V and S_y are told in units that depend on the magnitude: with another one, other moments
    # would fit, or none.
    (known,) = of_kind(lines, "magnitudes")
    assert known["features"][place] == 0
    for change in (-1, +1):
        known["magnitude"][place] += change
        findings = audited(lines)
        assert "feature 'income': var does not follow from what was revealed" in findings
        known["magnitude"][place] -= change
    assert audited(lines) == []


@pytest.mark.parametrize("part", ["V", "S_y"])
def test_every_opened_bit_of_the_moments_is_in_the_result(lines, part):
    (line,) = of_kind(lines, "moments")
    line[part][0] = hex(int(line[part][0], 16) + 1)
    feature = NAMES[line["features"][0]]
    name = {"V": "var", "S_y": "mean"}[part]
    assert f"feature {feature!r}: {name} does not follow from what was revealed" in audited(lines)


def test_a_transcript_without_a_result_does_not_pass(lines):
    assert audited(lines[:-1]) == ["the transcript ends without a result"]


# --- The statement ---------------------------------------------------------------------------


def test_the_statement_says_who_computed_what_with_which_engine(transcript):
    statement = transcript.audit().statement()
    for word in (*transcript.agreement.parties, *NAMES, "Engine: clear", "Audit: passed."):
        assert word in statement
    rows = {line.split()[0]: line.split()[1:] for line in statement.splitlines()[-6:]}
    bits = transcript.bits_opened().tolist()
    assert rows["income"] == ["40", str(STEPS), str(bits[0]), f"{transcript.result.lmbda[0]:.8g}"]
    assert rows["rare"][:2] == ["31", "6"]
    assert rows["fixed"] == ["12", "0", str(bits[3]), "1"]
    assert rows["empty"] == ["0", "0", "0", "1"]


@pytest.mark.parametrize(
    ("helpers", "said"),
    [
        ((), ""),
        (("cem",), "Only ana and bob have data. Each can subtract its own part"),
        (("bob", "cem"), "Only ana has data, so all parties know about ana the number of values"),
    ],
)
def test_the_statement_says_what_the_result_tells_of_one_or_two_silos(transcript, helpers, said):
    parties = ("ana", "bob", "cem")
    agreed = replace(transcript.agreement, engine="replicated", parties=parties,
                     committee=parties, helpers=helpers)  # fmt: skip
    lines = Transcript(agreed, transcript.reveals, transcript.result).audit().who_computed()
    assert lines[0] == "Parties: ana, bob, cem" + (
        f"; without data: {', '.join(helpers)}." if helpers else "."
    )
    assert said in " ".join(lines)
    assert ("have data" in " ".join(lines) or "has data" in " ".join(lines)) == bool(said)
    assert all(len(line) < 80 for line in lines)


@pytest.mark.parametrize("result_bits", [8, 24, 44])
def test_the_statement_says_how_much_was_revealed(result_bits):
    agreed = agreement(6, max_steps=STEPS, result_bits=result_bits)
    found = run(agreed, shuffled(data(), 3))[0]
    statement = found.audit().statement()
    assert f"at most {STEPS} signs for lambda; for mean and variance at least" in statement
    assert f"\n{result_bits} bits below the standard deviation, up to 4 and 8 more." in statement
    encoding = choose_encoding(agreed.domain, found.result.n, found.result.lmbda)
    (magnitudes,), (moments,) = found.all(Magnitudes), found.all(Moments)
    counted = found.bits_opened()
    rows = (magnitudes.features, magnitudes.magnitude, moments.S_y)
    for j, magnitude, S_y in zip(*rows, strict=True):
        of_V = min(8 * magnitude + 8, result_bits + 8)
        of_S_y = len(f"{S_y:+b}")  # its digits and its sign
        of_S_y -= S_y == 0
        thresholds = int(encoding.v_bits[j]) // 8
        assert counted[j] == found.signs_opened()[j] + thresholds + of_V + of_S_y
    assert counted[5] == 0


def as_agreed(transcript: Transcript, **changes) -> Transcript:
    agreed = replace(transcript.agreement, **changes)
    return Transcript(agreed, list(transcript.reveals), transcript.result)


def test_the_statement_says_whether_the_result_was_verified(transcript):
    """Of what a transcript tells it is never said that it proves anything."""
    told = small_verified_run()
    plain = as_agreed(transcript, engine="replicated", committee=transcript.agreement.parties)
    agreed = "The parties agreed to verify the result,"
    cannot = "cannot verify results. One party could have falsified"
    cases = [
        (told, True, f"Verified: yes. {agreed} and each that took part has checked"),
        (plain, None, "Verified: no. One member of the committee could have falsified"),
        (transcript, None, f"Verified: no. Engine clear {cannot}"),
        (as_agreed(transcript, engine="mpyc"), None, f"Verified: no. Engine mpyc {cannot}"),
    ]
    *search, final = told.reveals
    assert isinstance(final, Final)
    zeros = Final(final.features, False, np.zeros(6, dtype=np.int64), [0] * 6, [0] * 6)
    of_some = Final(final.features[:2], True, final.magnitude[:2], final.V[:2], final.S_y[:2])
    for reveals in (search, [*search, *plain.reveals[-2:]], [*search, zeros], [*search, of_some]):
        changed = replace(told, reveals=reveals)
        cases.append((changed, False, f"Verified: no. {agreed} but this transcript does not say"))
    for one, verdict, words in cases:
        audit = one.audit()
        assert audit.verdict is verdict
        assert words in " ".join(audit.statement().split())
        assert ("could have falsified" in " ".join(audit.how_certainly())) == (verdict is None)
        assert ("Verified: yes" in audit.statement()) == (verdict is True)
        assert all(len(line) < 80 for line in audit.how_certainly())


def test_the_statement_says_loudly_that_clear_keeps_nothing_secret(transcript):
    loud = "keeps NOTHING secret"
    assert loud in transcript.audit().statement()
    for engine, committee in (
        ("replicated", "the three members of the committee"),
        ("mpyc", "all parties"),
    ):
        secret = Transcript(
            replace(transcript.agreement, engine=engine), transcript.reveals, transcript.result
        )
        assert loud not in secret.audit().statement()
        assert committee in secret.audit().statement()


def test_the_statement_of_a_failed_audit_lists_what_was_found(lines):
    for line in of_kind(lines, "step"):
        line["delta"] = [-delta for delta in line["delta"]]
    audit = Transcript.from_lines(lines).audit()
    statement = audit.statement()
    assert "Audit: FAILED." in statement
    assert audit.findings[0] in statement
    assert f"and {len(audit.findings) - 20} more findings" in statement
    assert "passed" not in statement


def test_an_audit_shows_its_findings_only(transcript):
    assert repr(transcript.audit()) == "Audit(findings=[])"

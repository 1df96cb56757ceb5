"""Transcripts: the result follows from what was revealed, and what was revealed from the result."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from securefedyj.numerics.encoding import choose_encoding
from securefedyj.numerics.search import Bracket, exp_update
from securefedyj.protocol.transcript import (
    Moments,
    Step,
    Transcript,
    TranscriptError,
    lowest_opened,
)
from tests.federated_data import agreement, as_table, run, shuffled

NAMES = ("income", "change", "rare", "fixed", "single", "empty")
STEPS = 14


def data() -> np.ndarray:
    """An ordinary feature of each sign, one beyond the edge, a constant, one value, none."""
    rng = np.random.default_rng(12)
    return as_table(
        [
            rng.lognormal(2, 1, size=40),
            rng.normal(size=30),
            [0.0] * 30 + [1.0],
            [7.5] * 12,
            [3.25],
            np.zeros(0),
        ]
    )


@pytest.fixture(scope="module")
def transcript() -> Transcript:
    agreed = agreement(6, features=NAMES, max_steps=STEPS, levels_per_exchange=2)
    return run(agreed, shuffled(data(), 3))[0]


@pytest.fixture
def lines(transcript) -> list[dict]:
    """The file of a run, to be tampered with."""
    return copy.deepcopy(list(transcript.to_lines()))


def audited(lines: list[dict]) -> list[str]:
    audit = Transcript.from_lines(lines).audit()
    assert audit.passed == (not audit.findings)
    return audit.findings


def of_kind(lines: list[dict], kind: str) -> list[dict]:
    return [line for line in lines if line.get("reveal") == kind]


@pytest.mark.parametrize("engine", ["clear", "replicated"])
@pytest.mark.parametrize("levels", [1, 2, 4, 8])
def test_an_honest_run_passes(engine, levels):
    agreed = agreement(
        6, engine=engine, features=NAMES, max_steps=STEPS, levels_per_exchange=levels
    )
    found = run(agreed, shuffled(data(), 3))[0]
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
            assert len(findings) == 2, "this sign does not follow, and the right one is missing"
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
    [("counts", "its count"), ("variation", "its variation"), ("moments", "its moments")],
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
    lines.insert(
        -1, {"reveal": "moments", "features": [4], "magnitude": [0], "V": ["0x0"], "S_y": ["0x0"]}
    )
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
    for change in (-1, +1):
        line["magnitude"][place] += change
        findings = audited(lines)
        assert findings
        assert all("does not follow" in f or f.startswith("no result follows") for f in findings)
        line["magnitude"][place] -= change
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


# --- Files -----------------------------------------------------------------------------------


def test_what_was_written_is_read_back_exactly(transcript, tmp_path):
    path = tmp_path / "run.jsonl"
    transcript.write(path)
    again = Transcript.read(path)
    assert list(again.to_lines()) == list(transcript.to_lines())
    assert again.agreement.to_bytes() == transcript.agreement.to_bytes()
    for ours, theirs in zip(again.result, transcript.result, strict=True):
        assert np.asarray(ours).tobytes() == np.asarray(theirs).tobytes()
    for ours, theirs in zip(again.reveals, transcript.reveals, strict=True):
        assert type(ours) is type(theirs)
        for a, b in zip(ours, theirs, strict=True):
            assert np.array_equal(a, b)
            assert getattr(a, "dtype", None) == getattr(b, "dtype", None)
    path.write_text(path.read_text().replace("\n", "\n\n"))
    assert list(Transcript.read(path).to_lines()) == list(transcript.to_lines())


def test_files_are_plain_json_lines(transcript, tmp_path):
    path = tmp_path / "run.jsonl"
    transcript.write(str(path))
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert rows[0]["transcript"] == 1
    assert rows[0]["agreement"]["features"] == list(NAMES)
    assert {row["reveal"] for row in rows[1:-1]} == {"counts", "variation", "step", "moments"}
    assert list(rows[-1]) == ["result"]


GARBAGE = {
    "empty": lambda lines: [],
    "no header": lambda lines: lines[1:],
    "another format": lambda lines: [lines[0] | {"transcript": 2}, *lines[1:]],
    "unknown reveal": lambda lines: [*lines, {"reveal": "row", "features": [0], "values": [5.0]}],
    "no reveal": lambda lines: [*lines, {"features": [0]}],
    "more in a reveal": lambda lines: [*lines[:-1], lines[2] | {"sum": 5}, lines[-1]],
    "less in a reveal": lambda lines: [*lines[:2], {"reveal": "step", "step": 1}, *lines[2:]],
    "a count that is text": lambda lines: [
        *lines[:1], {"reveal": "counts", "features": [0], "n": ["many"]}, *lines[2:]
    ],
    "a result without mean": lambda lines: [
        *lines[:-1], {"result": {k: v for k, v in lines[-1]["result"].items() if k != "mean"}}
    ],
    "another version": lambda lines: [
        lines[0] | {"agreement": lines[0]["agreement"] | {"version": 10**6}}, *lines[1:]
    ],
    "lists of different lengths": lambda lines: [
        *lines[:1], {"reveal": "counts", "features": [0, 1], "n": [3]}, *lines[1:]
    ],
    "an unknown feature": lambda lines: [
        *lines[:2], {"reveal": "variation", "features": [6], "varies": [True]}, *lines[2:]
    ],
    "a feature from the end": lambda lines: [
        *lines[:2], {"reveal": "variation", "features": [-1], "varies": [True]}, *lines[2:]
    ],
    "a result of fewer features": lambda lines: [
        *lines[:-1], {"result": {k: v[:-1] for k, v in lines[-1]["result"].items()}}
    ],
    "two results": lambda lines: [*lines, lines[-1]],
    "a reveal after the result": lambda lines: [*lines, lines[1]],
    "more beside the result": lambda lines: [*lines[:-1], lines[-1] | {"rows": [1.0]}],
    "more in the result": lambda lines: [
        *lines[:-1], {"result": lines[-1]["result"] | {"rows": [1.0]}}
    ],
    "more in the header": lambda lines: [lines[0] | {"rows": [1.0]}, *lines[1:]],
    "more in the agreement": lambda lines: [
        lines[0] | {"agreement": lines[0]["agreement"] | {"rows": [1.0]}}, *lines[1:]
    ],
    "more features than bounds": lambda lines: [
        lines[0] | {"agreement": lines[0]["agreement"] | {"features": ["a"] * 7}}, *lines[1:]
    ],
    "no agreement": lambda lines: [{"transcript": 1}, *lines[1:]],
    "an unknown engine": lambda lines: [
        lines[0] | {"agreement": lines[0]["agreement"] | {"engine": "paillier"}}, *lines[1:]
    ],
    "steps that are no number": lambda lines: [
        lines[0] | {"agreement": lines[0]["agreement"] | {"max_steps": "ten"}}, *lines[1:]
    ],
}  # fmt: skip


@pytest.mark.parametrize("kind", GARBAGE)
def test_what_is_no_transcript_is_refused(lines, tmp_path, kind):
    path = tmp_path / "run.jsonl"
    path.write_text("\n".join(map(json.dumps, GARBAGE[kind](lines))))
    with pytest.raises(TranscriptError):
        Transcript.read(path)


@pytest.mark.parametrize("text", ["hello", '{"transcript": 1', "\x00\x01", "[]", "3", "null"])
def test_what_is_no_json_is_refused(tmp_path, text):
    path = tmp_path / "run.jsonl"
    path.write_text(text)
    with pytest.raises(TranscriptError):
        Transcript.read(path)


def test_the_error_names_the_line(lines):
    lines[3] = {"reveal": "secret", "features": [0]}
    with pytest.raises(TranscriptError, match=r"line 4 .*unknown reveal 'secret'"):
        Transcript.from_lines(lines)


# --- The result is a function of the reveals ---------------------------------------------------


def test_the_result_needs_the_reveals_and_nothing_else(transcript):
    bare = Transcript(transcript.agreement, list(transcript.reveals))
    for ours, theirs in zip(bare.compute_result(), transcript.result, strict=True):
        assert np.asarray(ours).tobytes() == np.asarray(theirs).tobytes()


def test_mean_and_variance_are_the_opened_integers(transcript):
    """By rational numbers: what is not opened lies at the middle of its range."""
    result, checked = transcript.result, 0
    grid = choose_encoding(transcript.agreement.domain, result.n, result.lmbda).grid
    for reveal in transcript.reveals:
        if not isinstance(reveal, Moments):
            continue
        lows = zip(*lowest_opened(reveal.magnitude), strict=True)
        rows = zip(reveal.features.tolist(), reveal.V, reveal.S_y, lows, strict=True)
        for j, V, S_y, (V_low, y_low) in rows:
            n, unit = int(result.n[j]), Fraction(1, 2 ** int(grid[j]))
            whole_V = (V + (Fraction(1, 2) if V_low else 0)) * 2 ** int(V_low)
            whole_y = (S_y + (Fraction(1, 2) if y_low else 0)) * 2 ** int(y_low)
            assert result.var[j] == float(whole_V * unit**2 / n**2)
            assert result.mean[j] == float(whole_y * unit / n)
            checked += 1
    assert checked == 5


def test_what_is_opened_of_the_moments_is_no_more_than_the_answer_needs(transcript):
    opened = [reveal for reveal in transcript.reveals if isinstance(reveal, Moments)]
    for reveal in opened:
        for j, V in zip(reveal.features.tolist(), reveal.V, strict=True):
            assert V.bit_length() <= 52
            assert transcript.result.constant[j] == (V == 0)
    # A standard deviation is told to 2^-45 of itself at worst, a mean to 2^-44 of that.
    V_low, y_low = lowest_opened(np.array([20]))
    assert 8 * 20 - V_low == 44
    assert 8 * 20 // 2 - y_low == 44


def test_the_search_state_is_where_the_signs_lead(transcript):
    state = transcript.search_state()
    limits = transcript.agreement.domain.limits()
    for j in range(6):
        value, lower, upper = 0.0, -np.inf, np.inf
        for reveal in transcript.reveals:
            if not isinstance(reveal, Step) or j not in reveal.features:
                continue
            place = reveal.features.tolist().index(j)
            assert reveal.lmbda[place] == value
            if reveal.delta[place] > 0:
                lower, value = value, 2 * value if value > 0 else 1.0
            else:
                upper, value = value, 2 * value if value < 0 else -1.0
            if np.isfinite(lower) and np.isfinite(upper):
                value = (lower + upper) / 2
            value = min(max(value, limits.lowest[j]), limits.highest[j])
        assert (state.value[j], state.lower[j], state.upper[j]) == (value, lower, upper)


def test_the_search_state_of_a_run_that_has_just_begun(transcript):
    begun = Transcript(transcript.agreement)
    assert begun.search_state().value.tolist() == [0.0] * 6
    first = next(reveal for reveal in transcript.reveals if isinstance(reveal, Step))
    begun.reveals.append(first)
    expected = exp_update(Bracket.start(6).take(first.features), first.delta)
    assert begun.search_state().value[first.features].tolist() == expected.value.tolist()


# --- The statement ---------------------------------------------------------------------------


def test_the_statement_says_who_computed_what_with_which_engine(transcript):
    statement = transcript.audit().statement()
    for word in (*transcript.agreement.parties, *NAMES, "Engine: clear", "Audit: passed."):
        assert word in statement
    rows = {line.split()[0]: line.split()[1:] for line in statement.splitlines()[-6:]}
    assert rows["income"] == ["40", str(STEPS), f"{transcript.result.lmbda[0]:.8g}"]
    assert rows["rare"][:2] == ["31", "6"]
    assert rows["fixed"] == ["12", "0", "1"]


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

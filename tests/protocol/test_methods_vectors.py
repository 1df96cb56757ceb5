"""The published vectors of a run with all methods hold, also for a second implementation.

The second one shares no code with the package: rational numbers, Python's integers and mpmath.
"""

from __future__ import annotations

import hashlib
import json
import math
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from mpmath import mp, mpf

from tests.vectors.make_methods_vectors import vectors

PUBLISHED = json.loads((Path(__file__).parents[1] / "vectors" / "methods.json").read_text())
AGREED = PUBLISHED["agreement"]
ORDER = ("yeo-johnson", "box-cox", "standard", "robust", "quantiles")
number = float.fromhex


def questions():
    """(feature, method, quantile) in the order of section 2.1."""
    found = []
    for feature, methods in enumerate(AGREED["methods"]):
        for method in ORDER:
            wanted = [""] if methods.get(method) == [] else methods.get(method, [])
            known = {quantile for j, _, quantile in found if j == feature and quantile}
            found += [(feature, method, q) for q in wanted if q not in known]
    return found


QUESTIONS = questions()
FITTED = [i for i, (_, method, _) in enumerate(QUESTIONS) if method in ORDER[:3]]
RANKED = [i for i in range(len(QUESTIONS)) if i not in FITTED]


def values(question):
    """All values of its feature, over all silos."""
    column = [row[QUESTIONS[question][0]] for rows in PUBLISHED["silos"].values() for row in rows]
    return [number(x) for x in column if x is not None]


def rank(question):
    return max(1, math.ceil(Fraction(QUESTIONS[question][2]) * len(values(question))))


def admitted():
    """The quantiles that are not refused."""
    found, least = [], AGREED["minimum_values"]
    for i in RANKED:
        k, n = rank(i), len(values(i))
        others = [rank(j) for j in found if QUESTIONS[j][0] == QUESTIONS[i][0]]
        apart = all(k == other or abs(k - other) >= least for other in others)
        if n and k >= least and n - k + 1 >= least and apart:
            found.append(i)
    return found


def grid(question):
    """The first point, the distance, and the number of the last."""
    j = QUESTIONS[question][0]
    lower, upper, text = AGREED["lower"][j], AGREED["upper"][j], AGREED["resolution"][j]
    if not text:
        return Fraction(lower), (Fraction(upper) - Fraction(lower)) / 2**24, 2**24
    first, step = Fraction(Decimal(repr(lower))), Fraction(text)
    return first, step, math.ceil((Fraction(upper) - first) / step)


def steps(question):
    """(step, point, sign) that were revealed."""
    return [
        (line["step"], number(line["lmbda"][place]), line["delta"][place])
        for line in PUBLISHED["reveals"]
        if line["reveal"] == "step" and question in line["features"]
        for place in [line["features"].index(question)]
    ]


def test_the_package_computes_what_is_published():
    assert json.loads(json.dumps(vectors())) == PUBLISHED


def test_the_digest_is_that_of_the_agreement():
    text = json.dumps(AGREED, sort_keys=True)
    assert hashlib.sha256(text.encode()).hexdigest() == PUBLISHED["digest"]


def test_counts_are_those_of_the_silos():
    counts = PUBLISHED["reveals"][0]
    assert counts["features"] == list(range(len(QUESTIONS)))
    assert counts["n"] == [len(values(i)) for i in range(len(QUESTIONS))]


def test_ranks_and_refusals_are_those_of_the_rules():
    points = PUBLISHED["points"]
    assert points["features"] == admitted() != RANKED
    assert points["rank"] == [rank(i) for i in admitted()]
    assert points["n"] == [len(values(i)) for i in admitted()]


@pytest.mark.parametrize("question", RANKED)
def test_a_quantile_is_found_by_bisection(question):
    if question not in admitted():
        assert not steps(question)
        return
    first, step, last = grid(question)
    lower, upper, taken = -1, last, 0
    while upper - lower > 1:
        middle = (lower + upper) // 2
        point = Fraction(float(first + middle * step))  # points are float64
        grows = sum(Fraction(x) <= point for x in values(question)) < rank(question)
        assert steps(question)[taken] == (taken, middle, 1 if grows else -1)
        lower, upper = (middle, upper) if grows else (lower, middle)
        taken += 1
    assert taken == len(steps(question))
    place = PUBLISHED["points"]["features"].index(question)
    assert PUBLISHED["points"]["number"][place] == upper
    assert number(PUBLISHED["points"]["value"][place]) == float(first + upper * step)
    wanted = sorted(values(question))[rank(question) - 1]
    assert Fraction(float(first + (upper - 1) * step)) < Fraction(wanted)
    assert Fraction(wanted) <= Fraction(float(first + upper * step))


def psi(question, x, lmbda):
    """y and its slope, of x/lower - 1 for box-cox; lambda = 1 is the identity for standard."""
    feature, method, _ = QUESTIONS[question]
    if method == "box-cox":
        x = x / mpf(AGREED["lower"][feature]) - 1
    side, u = (1, lmbda) if x >= 0 else (-1, 2 - lmbda)
    L = mp.log1p(abs(x))
    if not u:
        return side * L, L * L / 2, side * L
    w = mp.exp(u * L)
    return side * (w - 1) / u, (L * w - (w - 1) / u) / u, side * L


@pytest.mark.parametrize("question", [i for i in FITTED if QUESTIONS[i][1] != "standard"])
def test_signs_of_a_search_for_lambda_are_those_of_the_score(question):
    x = [mpf(v) for v in values(question)]
    lower, upper, lmbda = None, None, 0.0
    with mp.workprec(300):
        for taken, (step, visited, sign) in enumerate(steps(question)):
            assert (step, visited) == (taken, lmbda)
            y, d, phi = zip(*(psi(question, v, mpf(lmbda)) for v in x), strict=True)
            n = len(x)
            V = n * mp.fsum(v * v for v in y) - mp.fsum(y) ** 2
            K = n * mp.fsum(a * b for a, b in zip(y, d, strict=True)) - mp.fsum(y) * mp.fsum(d)
            assert sign == (1 if mp.fsum(phi) * V >= n * K else -1)
            lower, upper = (lmbda, upper) if sign > 0 else (lower, lmbda)
            if lower is not None and upper is not None:
                lmbda = (lower + upper) / 2
            else:
                lmbda = max(2 * lmbda, 1.0) if sign > 0 else min(2 * lmbda, -1.0)
    assert len(steps(question)) == AGREED["max_steps"]
    assert number(PUBLISHED["result"]["lmbda"][FITTED.index(question)]) == lmbda


@pytest.mark.parametrize("question", FITTED)
def test_mean_and_variance_are_right_to_the_agreed_bits(question):
    result, place = PUBLISHED["result"], FITTED.index(question)
    feature, method, _ = QUESTIONS[question]
    lmbda, center = (number(result[key][place]) for key in ("lmbda", "center"))
    with mp.workprec(300):
        x = [mpf(v) for v in values(question)]
        if method == "standard":
            assert (lmbda, steps(question)) == (1.0, [])
            y = x
        else:
            y = [psi(question, v, mpf(lmbda))[0] for v in x]
        mean = mp.fsum(y) / len(y)
        var = mp.fsum((v - mean) ** 2 for v in y) / len(y)
        bits = AGREED["result_bits"]
        off = abs(mpf(number(result["mean"][place])) - mean)
        assert off < mpf(2) ** -bits * mp.sqrt(var)
        assert abs(mpf(number(result["var"][place])) / var - 1) < mpf(2) ** -bits
        # y of the center is the mean that was opened; the width goes with the slope there.
        found, slope = mpf(number(result["mean"][place])), mpf(1)
        if method != "standard":
            assert abs(psi(question, mpf(center), mpf(lmbda))[0] - found) < mpf(2) ** -48
            c = mpf(center) / mpf(AGREED["lower"][feature]) if method == "box-cox" else 1 + center
            slope = c ** mpf(lmbda)
        else:
            assert center == number(result["mean"][place])
        width = mp.sqrt(mpf(number(result["var"][place]))) / slope
        assert abs(mpf(number(result["width"][place])) / width - 1) < mpf(2) ** -48

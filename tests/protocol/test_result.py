"""The result is a function of the reveals, exact to the last bit."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from math import log

import numpy as np
import pytest
from mpmath import mp

from securefedyj.numerics.encoding import choose_encoding
from securefedyj.protocol import result as result_module
from securefedyj.protocol.reveals import Moments, lowest_opened
from securefedyj.protocol.transcript import Transcript


def lows_of(transcript, reveal):
    magnitude = transcript.magnitudes()[reveal.features]
    return lowest_opened(magnitude, transcript.agreement.result_bits)


def test_the_result_needs_the_reveals_and_nothing_else(transcript):
    bare = Transcript(transcript.agreement, list(transcript.reveals))
    for ours, theirs in zip(bare.compute_result(), transcript.result, strict=True):
        assert np.asarray(ours).tobytes() == np.asarray(theirs).tobytes()


def test_mean_and_variance_are_the_opened_integers(transcript):
    """By rational numbers: what is not opened lies at the middle of its range."""
    result, checked = transcript.result, 0
    grid = choose_encoding(transcript.agreement.domain, result.n, result.lmbda).grid
    for reveal in transcript.all(Moments):
        lows = zip(*lows_of(transcript, reveal), strict=True)
        rows = zip(reveal.features.tolist(), reveal.V, reveal.S_y, lows, strict=True)
        for j, V, S_y, (V_low, y_low) in rows:
            n, unit = int(result.n[j]), Fraction(1, 2 ** int(grid[j]))
            whole_V = (V + (Fraction(1, 2) if V_low else 0)) * 2 ** int(V_low)
            whole_y = (S_y + (Fraction(1, 2) if y_low else 0)) * 2 ** int(y_low)
            assert result.var[j] == float(whole_V * unit**2 / n**2)
            if result.constant[j]:  # the value itself: see `test_constants`
                assert result.mean[j] == pytest.approx(float(whole_y * unit / n), rel=1e-15)
            else:
                assert result.mean[j] == float(whole_y * unit / n)
            checked += 1
    assert checked == 5


def test_what_is_opened_of_the_moments_is_no_more_than_the_answer_needs(transcript):
    for reveal in transcript.all(Moments):
        for j, V in zip(reveal.features.tolist(), reveal.V, strict=True):
            assert V.bit_length() <= 52
            assert transcript.result.constant[j] == (V == 0)
    # A standard deviation is told to 2^-45 of itself at worst, a mean to 2^-44 of that.
    V_low, y_low = lowest_opened(np.array([20]), 44)
    assert 8 * 20 - V_low == 44
    assert 8 * 20 // 2 - y_low == 44


@pytest.mark.parametrize("direction", [-np.inf, np.inf])
def test_no_bit_of_the_result_depends_on_the_logarithm_of_the_c_library(
    transcript, monkeypatch, direction
):
    """`center_low` has the digits beyond float64, and parties must have the same ones."""

    def another_log(x: Decimal) -> float:
        return float(np.nextafter(log(x), direction))

    monkeypatch.setattr(result_module, "log", another_log)
    again = Transcript(transcript.agreement, list(transcript.reveals)).compute_result()
    for ours, theirs in zip(again.standardization, transcript.result.standardization, strict=True):
        assert ours.tobytes() == theirs.tobytes()


def test_the_center_is_right_to_the_digits_of_two_float64(transcript):
    """Psi(lambda*, center + center_low) is the opened mean, to some 30 digits."""
    result = transcript.result
    grid = choose_encoding(transcript.agreement.domain, result.n, result.lmbda).grid
    checked = 0
    for reveal in transcript.all(Moments):
        _, lows = lows_of(transcript, reveal)
        for j, S_y, low in zip(reveal.features, reveal.S_y, lows.tolist(), strict=True):
            u = mp.mpf(float(result.lmbda[j]))
            if result.constant[j] or S_y < 0 or u <= 0:
                continue
            with mp.workdps(60):
                mean = mp.mpf((S_y << low) + (1 << low >> 1)) / (int(result.n[j]) << int(grid[j]))
                exact = mp.powm1(1 + u * mean, 1 / u)
                center = mp.mpf(float(result.standardization.center[j]))
                low_part = mp.mpf(float(result.standardization.center_low[j]))
                assert abs(center + low_part - exact) <= mp.mpf(10) ** -30 * abs(exact)
            checked += 1
    assert checked

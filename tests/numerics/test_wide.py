"""Wide integers agree with Python's, modulo 2^(64 * limbs)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from securefedyj.numerics import wide
from tests.simulation import wrapped


def product(a: wide.Limbs, b: wide.Limbs) -> wide.Limbs:
    return wide.sum_of_products(a[:, None], b[:, None])


def integers(limbs: int) -> st.SearchStrategy[int]:
    bound = 1 << (64 * limbs - 1)
    edges = [0, 1, -1, bound - 1, -bound, 1 << 63, (1 << 64) - 1, 1 << 32, (1 << 32) - 1]
    return st.sampled_from([wrapped(edge, limbs) for edge in edges]) | st.integers(
        -bound, bound - 1
    )


@st.composite
def pairs(draw: st.DrawFn) -> tuple[int, list[int], list[int]]:
    limbs = draw(st.sampled_from([1, 2, 3, 4, 16]))
    size = draw(st.integers(0, 9))
    vector = st.lists(integers(limbs), min_size=size, max_size=size)
    return limbs, draw(vector), draw(vector)


@given(pairs())
def test_sums_differences_and_products_are_those_of_python(case):
    limbs, xs, ys = case
    a, b = wide.from_ints(xs, limbs), wide.from_ints(ys, limbs)
    assert wide.to_ints(a) == xs
    for operation, exact in [
        (wide.add, int.__add__),
        (wide.subtract, int.__sub__),
        (product, int.__mul__),
    ]:
        result = operation(a, b)
        assert result.flags.c_contiguous
        assert wide.to_ints(result) == [
            wrapped(exact(x, y), limbs) for x, y in zip(xs, ys, strict=True)
        ]
    assert wide.to_ints(wide.negate(a)) == [wrapped(-x, limbs) for x in xs]
    assert wide.to_ints(a) == xs, "operands are left alone"


@given(st.data())
def test_public_factors_shifts_and_widths_are_those_of_python(data):
    limbs = data.draw(st.sampled_from([1, 2, 4]))
    xs = data.draw(st.lists(integers(limbs), max_size=9))
    factor = data.draw(integers(limbs))
    bits = data.draw(st.integers(0, 64 * limbs + 70))
    other = data.draw(st.integers(1, 6))
    a = wide.from_ints(xs, limbs)
    factors = wide.from_ints([factor] * len(xs), limbs)
    one = wide.from_ints([factor], limbs)

    assert wide.to_ints(wide.scale(a, factor)) == [wrapped(x * factor, limbs) for x in xs]
    assert wide.to_ints(wide.scale(a, factors)) == [wrapped(x * factor, limbs) for x in xs]
    assert wide.to_ints(wide.add(a, one)) == [wrapped(x + factor, limbs) for x in xs]
    assert wide.to_ints(wide.add(one, a)) == [wrapped(x + factor, limbs) for x in xs]
    assert wide.to_ints(wide.subtract(one, a)) == [wrapped(factor - x, limbs) for x in xs]
    assert wide.to_ints(wide.shift_left(a, bits)) == [wrapped(x << bits, limbs) for x in xs]
    assert wide.to_ints(wide.resize(a, other)) == [wrapped(x, other) for x in xs]
    np.testing.assert_array_equal(wide.from_bytes(wide.to_bytes(a), limbs), a)


@pytest.mark.parametrize("position", [0, 32, 64, 96])
def test_the_largest_factor_of_one_digit_carries_right(position):
    xs = [-1, 1, 2**127 - 1, -(2**127), 2**96 - 1, 2**32 - 1, 0]
    factor = (2**32 - 1) << position
    product = wide.scale(wide.from_ints(xs, 2), wide.from_ints([wrapped(factor, 2)] * len(xs), 2))
    assert wide.to_ints(product) == [wrapped(x * factor, 2) for x in xs]


def test_products_of_long_vectors_do_not_depend_on_the_blocks():
    size = 2 * 1024 + 1
    values = [(-3) ** (i % 80) * (i + 1) for i in range(size)]
    a = wide.from_ints(values, 4)
    assert wide.to_ints(product(a, a)) == [wrapped(v * v, 4) for v in values]
    assert wide.to_ints(wide.scale(a, -(10**40))) == [wrapped(v * -(10**40), 4) for v in values]


@pytest.mark.parametrize("value", [1 << 127, -(1 << 127) - 1])
def test_an_integer_that_does_not_fit_is_refused_by_position_not_by_value(value):
    with pytest.raises(OverflowError, match="position 1 does not fit into 128 bits") as caught:
        wide.from_ints([0, value], 2)
    assert str(value) not in str(caught.value)


def test_bytes_of_a_broken_length_are_refused():
    with pytest.raises(ValueError, match="15 bytes are not a whole number of 128-bit integers"):
        wide.from_bytes(bytes(15), 2)


def test_vectors_of_different_sizes_do_not_multiply():
    with pytest.raises(ValueError, match="shapes"):
        product(wide.zeros(2, 3), wide.zeros(2, 1))


def test_a_shift_to_the_right_is_refused():
    with pytest.raises(ValueError, match="must not be negative"):
        wide.shift_left(wide.zeros(2, 3), -1)

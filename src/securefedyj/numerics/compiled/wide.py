"""Products of wide integers for `wide`. No branch depends on a value."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from securefedyj.numerics import wide
from securefedyj.numerics.compiled.residuals import inner, kept

_LIMBS = types.Array(types.uint64, 3, "C", readonly=True)  # or not: either will do


@intrinsic
def _high(_: Any, a: Any, b: Any) -> Any:
    """The upper half of the product of two limbs."""

    def multiply(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        double = ir.IntType(128)
        a, b = (builder.zext(argument, double) for argument in arguments)
        upper = builder.lshr(builder.mul(a, b), ir.Constant(double, 64))
        return builder.trunc(upper, ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), multiply


@inner
def _carry(total, summand):
    return np.uint64(total < summand)


@kept(types.uint64[:, ::1](_LIMBS, _LIMBS))
def sum_of_products(a, b):
    """The sum of a_0 b_0 + a_1 b_1 + ... of arrays of shape (limbs, terms, n); b may have fewer."""
    limbs, terms, size = a.shape
    result = np.zeros((limbs, size), np.uint64)
    total = np.zeros(limbs + 2, np.uint64)
    for k in range(size):
        total[:] = 0
        for term in range(terms):
            for j in range(len(b)):
                factor, carry = b[j, term, k], np.uint64(0)
                for i in range(limbs - j):
                    x = a[i, term, k]
                    low, high = x * factor, _high(x, factor)
                    # (2^64 - 1)^2 + 2 (2^64 - 1) is below 2^128.
                    low += carry
                    high += _carry(low, carry)
                    total[i + j] += low
                    carry = high + _carry(total[i + j], low)
        for i in range(limbs):
            result[i, k] = total[i]
    return result


def check() -> None:
    """Raise an error unless the products are those of Python's integers."""
    bits = np.random.default_rng(0).integers(0, 2**64, (2, 5, 3, 40), np.uint64)
    bits[:, :, :, ::3] = np.uint64(2**64 - 1)
    a, b = (np.array(wide.to_ints(part.reshape(5, -1)), object).reshape(3, 40) for part in bits)
    expected = ((a * b).sum(axis=0) % 2**320).tolist()
    if [value % 2**320 for value in wide.to_ints(sum_of_products(*bits))] != expected:
        raise ArithmeticError("on this machine products of integers are wrong.")

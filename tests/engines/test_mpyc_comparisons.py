"""What a party sees of a comparison by engine `mpyc` confirms no guess at what is compared."""

from __future__ import annotations

import json
import sys
from math import prod
from typing import Any

import pytest

from securefedyj.engines.mpyc import party as mpyc
from securefedyj.engines.mpyc.engine import Mpyc
from securefedyj.numerics import wide
from securefedyj.party import inprocess
from tests.simulation import THREE

pytestmark = pytest.mark.mpyc

SPY = """
import json, sys
from securefedyj.engines.mpyc import child, library

def note(file={file!r}, **seen):
    if sys.argv[1] == "0":
        with open(file, "a") as stream:
            stream.write(json.dumps(seen) + "\\n")

class Library(library.Library):
    def __init__(self, mpc):
        import mpyc.thresha as thresha
        {more}
        super().__init__(mpc)
        recombine, is_zero = thresha.recombine, mpc.np_is_zero_public

        def seen(field, points, *more):
            prime = int(field.modulus)
            note(prime=prime, points=[[x, [int(v) % prime for v in y]] for x, y in points])
            return recombine(field, points, *more)

        def tested(a):
            a.share.add_done_callback(lambda share: note(own=list(map(int, share.result().value))))
            return is_zero(a)

        thresha.recombine, mpc.np_is_zero_public = seen, tested

child.Library = Library
child.main(*map(int, sys.argv[1:]))
"""
AS_MPYC_HAS_IT = "library.replace_zero_test = lambda mpc: None"
COMPARED = [5 + 1000 * k for k in range(40)]


async def comparisons(names: tuple[str, ...], own: int) -> list[int]:
    engine = Mpyc(names)
    sums = [compared + 7 * own for compared in COMPARED]  # of parties -1, 0 and 1
    x = await engine.share(wide.from_ints(sums, 1), size=len(sums), limbs=1)
    below = await engine.open_bits(await engine.negative(x))
    return [int(bit) for bit in below]


def value_at(points: list[tuple[int, int]], x: int, prime: int) -> int:
    """Of the polynomial through these points."""
    total = 0
    for here, y in points:
        others = [other for other, _ in points if other != here]
        up, down = (prod(at - other for other in others) for at in (x, here))
        total += y * up * pow(down, -1, prime)
    return total % prime


def factors_at_zero(points: list[tuple[int, int]], own: int, prime: int) -> list[int]:
    """What e(0) can be, if e has degree 1 and divides the polynomial, and e(1) is our own."""
    zero, one, two = (value_at(points, x, prime) for x in range(3))
    square = (zero - 2 * one + two) * pow(2, -1, prime) % prime
    linear = one - zero - square
    discriminant = (linear**2 - 4 * square * zero) % prime
    root = pow(discriminant, (prime + 1) // 4, prime)
    if not square or root**2 % prime != discriminant:
        return []
    zeros = [(sign * root - linear) * pow(2 * square, -1, prime) for sign in (1, -1)]
    return [-own * at * pow(1 - at, -1, prime) % prime for at in zeros]


def product_of_bits(guess: int, opened: int, sign: int, prime: int) -> int:
    """The e of a comparison that has opened this for this guess; 0 tells nothing."""
    mask, product, differ = (opened - guess) % 2**64, 1, 0
    for k in reversed(range(64)):
        c, r = opened >> k & 1, mask >> k & 1
        product *= sign - c + r + 3 * differ
        differ += c ^ r
    return product * (sign - 1 + 3 * differ) % prime


def confirmed_guesses(lines: list[dict[str, Any]]) -> set[int]:
    """Those values that ana's view of the comparisons of three parties confirms."""
    (own,) = (line["own"] for line in lines if "own" in line)
    seen = [line for line in lines if "points" in line and len(line["points"][0][1]) == len(own)]
    prime = seen[0]["prime"]
    found = set()
    for k, value in enumerate(3 * compared for compared in COMPARED):
        views = [[(x, ys[k]) for x, ys in line["points"]] for line in seen]
        opened = [value_at(points, 0, prime) for points in views if len(points) == 2]
        factors = {
            factor
            for points in views
            if len(points) == 3
            for factor in factors_at_zero(points, own[k], prime)
        }
        for guess in (value - 1, value, value + 1):
            made = {product_of_bits(guess, c, s, prime) for c in opened for s in (1, -1)}
            if factors & (made - {0}):
                found.add(guess)
    return found


def view(monkeypatch: Any, tmp_path: Any, more: str) -> list[dict[str, Any]]:
    script = SPY.format(file=str(tmp_path / "seen"), more=more)
    monkeypatch.setattr(mpyc, "COMMAND", (sys.executable, "-c", script))
    team = [
        mpyc.MpycParty(
            name,
            THREE.parties,
            comparisons(THREE.parties, number - 1),
            session=bytes(16),
            parameters=b"",
        )
        for number, name in enumerate(THREE.parties)
    ]
    assert inprocess.run(team) == [[0] * len(COMPARED)] * 3
    return [json.loads(line) for line in (tmp_path / "seen").read_text().splitlines()]


def test_what_mpyc_opens_by_itself_confirms_guesses(monkeypatch, tmp_path):
    found = confirmed_guesses(view(monkeypatch, tmp_path, AS_MPYC_HAS_IT))
    assert found
    assert found <= {3 * value for value in COMPARED}


def test_what_we_open_confirms_none(monkeypatch, tmp_path):
    lines = view(monkeypatch, tmp_path, "")
    assert sum("points" in line for line in lines) > 5
    assert not confirmed_guesses(lines)

"""The rounds and bytes that are counted on shapes alone are those of a run."""

from __future__ import annotations

import numpy as np
import pytest

from securefedyj.engines.replicated.counting import count_rounds
from securefedyj.numerics import wide
from securefedyj.party.messages import Kind
from securefedyj.party.rounds import in_lockstep
from tests.simulation import FIVE, THREE, TWO, Recorder, simulate


async def everything(engine, own, size, limbs):
    share = engine.share(own, size=size, limbs=limbs)
    _, x = await in_lockstep(engine.agree(bytes(32)), share)
    await engine.open(await engine.multiply(x, x))
    await engine.open_bits(await engine.negative(x))
    await engine.open_bits(await engine.bits(x))


async def everything_verified(engine, own, size, limbs):
    exchange = engine.verified()
    share = exchange.share(own, size=size, limbs=limbs)
    _, x = await in_lockstep(exchange.agree(bytes(32)), share)
    product, _ = await in_lockstep(
        exchange.sum_of_products([(x, x), (x, -x)]), exchange.challenge()
    )
    await exchange.claim_zero(product)
    bits = await exchange.bits(x)
    below, _, sign = await in_lockstep(
        exchange.below_powers(bits, 8, 4),
        exchange.claim_below(bits, [77] * size, signed=True),
        exchange.negative(-x),
    )
    exchange.claim(sign, np.ones(size, dtype=np.uint8))
    verdict = await exchange.verdict()
    await exchange.conjunction(sign, sign)
    await exchange.check()
    await exchange.open_bits(exchange.joined([verdict, below]))
    await exchange.open(product)


PROGRAMS = [everything, everything_verified]


def largest_by_round(program, consortium, size, limbs):
    """Of a run, without those of greetings and keys."""
    recorder = Recorder()

    async def run(engine, name):
        own = wide.from_ints([5] * size, limbs) if name in consortium.silos else None
        await program(engine, own, size, limbs)

    simulate(run, consortium, observe=recorder)
    sizes: dict[int, int] = {}
    for message in recorder.messages:
        if not message.kind & (Kind.HELLO | Kind.KEY):
            own = len(message.payload)
            sizes[message.round] = max(own, sizes.get(message.round, 0))
    return [sizes[number] for number in sorted(sizes)]


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("limbs", [1, 4, 10])
@pytest.mark.parametrize("size", [1, 7, 9, 100])
def test_counted_rounds_and_bytes_are_those_of_a_run(program, size, limbs):
    counted = count_rounds(lambda engine: program(engine, None, size, limbs))
    expected = largest_by_round(program, FIVE, size, limbs)
    *most, last = range(len(counted))
    hashes = {k for k in most if counted[k].kind == Kind.CHECK and counted[k].size < 100}
    if program is everything:
        assert [one.size for one in counted] == expected
    else:  # the word of all members has a byte, and hashes depend on who has data
        said = next(k for k in most if counted[k].kind == Kind.CHECK and counted[k].size == 0)
        assert expected[said] == 1
        same = set(range(len(counted))) - hashes
        assert [counted[k].size for k in same] == [expected[k] for k in same]
        assert all(expected[k] <= max(1, counted[k].size) for k in hashes)
    assert counted[last].kind == Kind.OPENING


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("consortium", [THREE, TWO], ids=["three", "two"])
def test_others_send_no_more(program, consortium):
    counted = [one.size for one in count_rounds(lambda engine: program(engine, None, 9, 2))]
    sent = largest_by_round(program, consortium, 9, 2)
    assert max(sent) <= max(counted) <= 4 * max(sent)


def test_openings_are_answered_as_asked():
    async def program(engine):
        x = await engine.share(None, size=3, limbs=2)
        opened.append(wide.to_ints(await engine.open(x))[0] % 2**64)
        for _ in range(3):
            opened.append((await engine.open_bits(await engine.negative(x))).tolist())

    opened: list[object] = []
    count_rounds(program, 7, [0, 1])
    assert opened == [7, [0] * 3, [1] * 3, [0] * 3]

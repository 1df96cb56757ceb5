"""All engines compute what Python's integers say, for any consortium, width and size."""

import math
import operator
import pickle
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from securefedyj.engines import concatenate
from securefedyj.engines.additive import bit_planes, unpack
from securefedyj.engines.replicated import nibbles
from securefedyj.engines.replicated.engine import connect
from securefedyj.numerics import wide
from securefedyj.party.inprocess import run
from securefedyj.party.messages import Kind
from securefedyj.party.rounds import in_lockstep
from tests.simulation import (
    CONSORTIA,
    ENGINES,
    FIVE,
    THREE,
    Recorder,
    assemble,
    simulate,
    split,
    wrapped,
)

every_engine = pytest.mark.parametrize("engine", ENGINES)
every_consortium = pytest.mark.parametrize("consortium", CONSORTIA.values(), ids=CONSORTIA)


def sample(size: int, limbs: int, seed: int = 0) -> list[int]:
    """Values of all magnitudes, the edges first."""
    source = random.Random(seed)
    bound = 1 << (64 * limbs - 1)
    edges = [0, -1, -bound, bound - 1, 1, 1 - bound]
    drawn = [
        wrapped(source.getrandbits(64 * limbs) >> source.randrange(64 * limbs), limbs)
        * source.choice([1, -1])
        for _ in range(size)
    ]
    return [wrapped(value, limbs) for value in (edges + drawn)[:size]]


@every_engine
@every_consortium
@pytest.mark.parametrize("limbs", [1, 2, 4, 5, 16])
@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 1000])
def test_sums_products_and_signs_are_exact(engine, consortium, limbs, size):
    xs, ys = sample(size, limbs), sample(size, limbs, seed=1)[::-1]
    first, second = split(xs, consortium, limbs), split(ys, consortium, limbs)

    async def program(engine, name):
        x, y = await in_lockstep(
            engine.share(first.get(name), size=size, limbs=limbs),
            engine.share(second.get(name), size=size, limbs=limbs),
        )
        product = await engine.multiply(x, y)
        signs = await engine.negative(concatenate([x, product]))
        return (
            wide.to_ints(await engine.open(x)),
            wide.to_ints(await engine.open(product)),
            (await engine.open_bits(signs)).tolist(),
        )

    products = [wrapped(x * y, limbs) for x, y in zip(xs, ys, strict=True)]
    for opened in simulate(program, consortium, engine):
        assert opened == (xs, products, [int(v < 0) for v in xs + products])


@every_engine
@every_consortium
@pytest.mark.parametrize("limbs", [1, 5])
@pytest.mark.parametrize("size", [0, 1, 65])
def test_a_sum_of_products_is_exact(engine, consortium, limbs, size):
    xs, ys = sample(size, limbs), sample(size, limbs, seed=1)[::-1]
    first, second = split(xs, consortium, limbs), split(ys, consortium, limbs)

    async def program(engine, name):
        x = await engine.share(first.get(name), size=size, limbs=limbs)
        y = await engine.share(second.get(name), size=size, limbs=limbs)
        total = await engine.sum_of_products([(x, y), (y - x, x), (y, y)])
        return wide.to_ints(await engine.open(total))

    expected = [wrapped(x * y + (y - x) * x + y * y, limbs) for x, y in zip(xs, ys, strict=True)]
    assert simulate(program, consortium, engine) == [expected] * len(consortium.parties)


@every_engine
def test_factors_of_different_shapes_are_refused(engine):
    async def program(engine, name):
        x = await engine.share(None, size=3, limbs=2)
        narrow = await engine.share(None, size=3, limbs=1)
        for pairs in ([(x, x[:2])], [(x, narrow)], [(x, x), (x[:1], x[:1])]):
            with pytest.raises(ValueError, match="Cannot multiply"):
                await engine.sum_of_products(pairs)

    simulate(program, THREE, engine)


def test_a_sum_of_products_sends_as_much_as_one_product():
    def payload(count):
        async def program(engine, name):
            x = await engine.share(None, size=7, limbs=4)
            await engine.sum_of_products([(x, x)] * count)

        return rounds_and_payload(program, THREE)

    assert payload(1) == payload(3)


@every_engine
@every_consortium
@pytest.mark.parametrize("limbs", [1, 2, 4, 16])
@pytest.mark.parametrize("size", [1, 65])
def test_bits_are_those_of_the_twos_complement(engine, consortium, limbs, size):
    values = sample(size, limbs)
    inputs = split(values, consortium, limbs)
    chosen = (np.arange(size) % (64 * limbs), np.arange(size))

    async def program(engine, name):
        shared = await engine.share(inputs.get(name), size=size, limbs=limbs)
        bits = await engine.bits(shared)
        assert bits.shape == (64 * limbs, size)
        return await engine.open_bits(bits), await engine.open_bits(bits[chosen])

    expected = np.array([[(v >> j) & 1 for v in values] for j in range(64 * limbs)])
    for everything, diagonal in simulate(program, consortium, engine):
        np.testing.assert_array_equal(everything, expected)
        np.testing.assert_array_equal(diagonal, expected[chosen])


@st.composite
def programs(draw):
    """A random straight-line program over a stack of vectors, and the integers it works on."""
    limbs = draw(st.sampled_from([1, 2, 3, 5]))
    size = draw(st.integers(1, 20))
    bound = 1 << (64 * limbs - 1)
    integer = st.integers(-bound, bound - 1) | st.sampled_from([0, 1, -1, -bound, bound - 1])
    vector = st.lists(integer, min_size=size, max_size=size)
    step = st.one_of(
        st.tuples(st.sampled_from(["add", "sub", "mul", "neg", "reverse"]), st.none()),
        st.tuples(st.sampled_from(["add public", "scale", "from public"]), integer),
        st.tuples(st.sampled_from(["add vector", "scale vector"]), vector),
        st.tuples(st.just("shift"), st.integers(0, 64 * limbs)),
    )
    return limbs, size, draw(vector), draw(vector), draw(st.lists(step, max_size=8))


def in_python(limbs, x, y, steps):
    """The program on Python's integers: each step replaces x, y by y, step(x, y)."""
    for name, argument in steps:
        arguments = argument if isinstance(argument, list) else [argument] * len(x)
        operation = {
            "add": lambda a, b, _: a + b,
            "sub": lambda a, b, _: a - b,
            "mul": lambda a, b, _: a * b,
            "neg": lambda a, b, _: -a,
            "reverse": lambda a, b, _: a,
            "add public": lambda a, b, c: a + c,
            "add vector": lambda a, b, c: a + c,
            "from public": lambda a, b, c: c - a,
            "scale": lambda a, b, c: a * c,
            "scale vector": lambda a, b, c: a * c,
            "shift": lambda a, b, c: a << c,
        }[name]
        new = [wrapped(operation(*row), limbs) for row in zip(x, y, arguments, strict=True)]
        x, y = y, new[::-1] if name == "reverse" else new
    return x, y


async def in_secret(engine, limbs, x, y, steps):
    """The same program on shared vectors."""
    for name, argument in steps:
        public = wide.from_ints(argument, limbs) if isinstance(argument, list) else argument
        if name == "mul":
            new = await engine.multiply(x, y)
        else:
            new = {
                "add": lambda a, b, _: a + b,
                "sub": lambda a, b, _: a - b,
                "neg": lambda a, b, _: -a,
                "reverse": lambda a, b, _: a[np.arange(a.size)[::-1]],
                "add public": lambda a, b, c: c + a,
                "add vector": lambda a, b, c: c + a,
                "from public": lambda a, b, c: c - a,
                "scale": lambda a, b, c: c * a,
                "scale vector": lambda a, b, c: c * a,
                "shift": lambda a, b, c: a << c,
            }[name](x, y, public)
        x, y = y, new
    return x, y


@pytest.mark.parametrize("consortium", [THREE, FIVE], ids=["three", "five"])
@settings(max_examples=30)
@given(case=programs())
def test_random_programs_give_the_same_bits_with_every_engine(consortium, case):
    limbs, size, xs, ys, steps = case
    first, second = split(xs, consortium, limbs), split(ys, consortium, limbs)

    async def program(engine, name):
        x = await engine.share(first.get(name), size=size, limbs=limbs)
        y = await engine.share(second.get(name), size=size, limbs=limbs)
        x, y = await in_secret(engine, limbs, x, y, steps)
        sign, everything = await in_lockstep(engine.negative(y[:1]), engine.bits(y))
        return (
            (wide.to_ints(await engine.open(x)), wide.to_ints(await engine.open(y))),
            (await engine.open_bits(sign)).tolist(),
            (await engine.open_bits(everything)).tolist(),
        )

    x, y = in_python(limbs, xs, ys, steps)
    bits = [[(v >> j) & 1 for v in y] for j in range(64 * limbs)]
    for engine in ENGINES:
        for result in simulate(program, consortium, engine):
            assert result == ((x, y), [int(y[0] < 0)], bits)


def rounds_and_payload(program, consortium):
    """Rounds of the program alone, and the payload bytes of each sender."""
    recorder = Recorder()
    parties = assemble(program, consortium, "replicated")
    run(parties, recorder)
    assert len({party.rounds for party in parties}) == 1
    sent = {party.name: sum(party.bytes_sent.values()) for party in parties}
    seen = dict.fromkeys(sent, 0)
    payload = dict.fromkeys(sent, 0)
    for message in recorder.messages:
        seen[message.sender] += len(message.to_bytes())
        if not message.kind & (Kind.HELLO | Kind.KEY):
            payload[message.sender] += len(message.payload)
    assert sent == seen, "a party counts what is on the wire"
    return parties[0].rounds - 2, payload


@pytest.mark.parametrize("consortium", [THREE, FIVE], ids=["three", "five"])
@pytest.mark.parametrize("operation", ["share", "multiply", "negative", "bits", "open"])
@pytest.mark.parametrize("limbs", [1, 4, 5, 16])
def test_rounds_are_as_promised(consortium, operation, limbs):
    async def program(engine, name):
        x = await engine.share(None, size=3, limbs=limbs)
        if operation == "multiply":
            await engine.multiply(x, x)
        elif operation != "share":
            await getattr(engine, operation)(x)

    rounds, _ = rounds_and_payload(program, consortium)
    expected = {
        "share": 0,
        "multiply": 1,
        "negative": 2 + math.ceil(math.log2(16 * limbs)),
        "bits": 2 + math.ceil(math.log2(64 * limbs - 1)),
        "open": 1,
    }
    assert rounds == 1 + expected[operation]
    assert limbs != 4 or (expected["negative"], expected["bits"]) == (8, 10)


def test_a_comparison_of_256_bits_sends_32_bytes_and_member_0_another_120():
    size = 1000

    async def program(engine, name):
        await engine.negative(await engine.share(None, size=size, limbs=4))

    _, payload = rounds_and_payload(program, THREE)
    plane = math.ceil(size / 8)
    # 15 thresholds of each of 64 nibbles, and the highest bit.
    table = (15 * 64 + 1) * plane
    # Generate and propagate of 64 nibbles; 63 combinations of two products.
    planes = 2 * 64 + 2 * 63
    assert payload == {
        "ana": 32 * size + table + planes * plane,
        "bob": 32 * size + planes * plane,
        "cem": 32 * size + planes * plane,
    }
    assert planes / 8 < 32


def test_independent_operations_take_the_rounds_of_the_longest():
    async def program(engine, name):
        wide_one, narrow = await in_lockstep(
            engine.share(None, size=5, limbs=16), engine.share(None, size=7, limbs=1)
        )
        return await in_lockstep(
            engine.negative(wide_one), engine.bits(narrow), engine.multiply(narrow, narrow)
        )

    rounds, _ = rounds_and_payload(program, FIVE)
    assert rounds == 1 + 2 + 8


def test_no_branches_take_no_round():
    async def program(engine, name):
        return await in_lockstep()

    assert simulate(program) == [(), (), ()]
    assert rounds_and_payload(program, THREE)[0] == 0


def test_an_error_in_one_coroutine_closes_the_others():
    async def failing():
        raise ArithmeticError("no")

    async def program(engine, name):
        await in_lockstep(engine.share(None, size=1, limbs=1), failing())

    with pytest.raises(ArithmeticError, match="no"):
        simulate(program)


@every_engine
@pytest.mark.parametrize("consortium", [THREE, FIVE], ids=["three", "five"])
def test_shared_values_cannot_be_looked_at(engine, consortium):
    async def program(engine, name):
        shared = await engine.share(None, size=3, limbs=2)
        return shared, await engine.negative(shared)

    refusals: list[Callable[[Any], object]] = [
        bool,
        iter,
        list,
        np.asarray,
        pickle.dumps,
        hash,
        lambda x: 1 in x,
        *(lambda x, c=c: c(x, x) for c in (operator.eq, operator.ne, operator.lt, operator.le)),
        *(lambda x, c=c: c(x, 0) for c in (operator.eq, operator.gt, operator.ge)),
    ]
    for shared, bits in simulate(program, consortium, engine):
        for look in refusals:
            for secret in (shared, bits):
                with pytest.raises(TypeError):
                    look(secret)
        assert repr(shared) == str(shared) == "<Additive: 3 integers of 128 bits>"
        assert repr(bits) == "<AdditiveBits: bits of shape (3,)>"


MISUSES = {
    "does not match": lambda x: x + wide.zeros(2, 4),
    "is an int or limbs": lambda x: x * x,
    "not float": lambda x: x * 0.5,
    "do not go together": lambda x: x + x[:1],
    "slice or a vector": lambda x: x[0],
    "does not fit into 128 bits": lambda x: x + (1 << 127),
    "not fit": lambda x: x * (1 << 200),
}


@every_engine
@pytest.mark.parametrize("sentence", MISUSES)
def test_misuse_is_refused_with_a_sentence(engine, sentence):
    async def program(engine, name):
        MISUSES[sentence](await engine.share(None, size=3, limbs=2))

    with pytest.raises((TypeError, ValueError, OverflowError), match=sentence):
        simulate(program, FIVE, engine)


def test_numpy_integers_are_public_integers():
    async def program(engine, name):
        x = await engine.share(None, size=2, limbs=2)
        return wide.to_ints(await engine.open((x + np.int64(-3)) * np.uint8(5)))

    assert simulate(program) == [[-15, -15]] * 3


@every_engine
def test_an_input_of_another_shape_is_refused(engine):
    async def program(engine, name):
        await engine.share(wide.zeros(2, 3), size=4, limbs=2)

    with pytest.raises(ValueError, match=r"shape \(2, 3\); .* agreed on uint64 of shape \(2, 4\)"):
        simulate(program, THREE, engine)


def test_values_of_different_parties_do_not_mix():
    async def program(engine, name):
        return await engine.share(None, size=1, limbs=1)

    first, second, _ = simulate(program)
    with pytest.raises(ValueError, match="different parties"):
        first + second


def test_a_committee_is_three_of_the_parties():
    with pytest.raises(ValueError, match="must be three of"):
        connect("ana", ("ana", "bob"), ("ana", "bob", "cem")).send(None)


def test_every_pair_of_nibbles_carries_as_integers_do():
    """All pairs of the two lowest doubled nibbles, in many chunks of planes."""
    pairs = [(a, b) for a in range(128) for b in range(128)] * 5
    a, b = (wide.from_ints(list(column), 1) for column in zip(*pairs, strict=True))
    table = nibbles.thresholds(a)[:-1]
    noise = np.random.default_rng(0).integers(0, 256, table.shape, dtype=np.uint8)
    read = nibbles.carries(noise, b, always=0xFF) ^ nibbles.carries(table ^ noise, b, always=0x00)
    generate, propagate = unpack(read, len(pairs))
    for j in range(2):
        sums = [(2 * a >> 4 * j) % 16 + (2 * b >> 4 * j) % 16 for a, b in pairs]
        assert generate[j].tolist() == [int(s >= 16) for s in sums]
        assert propagate[j].tolist() == [int(s == 15) for s in sums]
    assert not generate[2:].any()
    assert not propagate[2:].any()


def test_the_table_has_all_thresholds_and_the_sign():
    values = sample(1000, 3)
    planes = unpack(nibbles.thresholds(wide.from_ints(values, 3)), 1000)
    doubled = [2 * v % 2**192 for v in values]
    for u in range(1, 16):
        for j in range(48):
            expected = [int((v >> 4 * j) % 16 >= u) for v in doubled]
            assert planes[48 * (u - 1) + j].tolist() == expected
    assert planes[-1].tolist() == [int(v < 0) for v in values]


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 64, 1000])
def test_bit_planes_are_the_bits(size):
    values = sample(size, 3)
    planes = unpack(bit_planes(wide.from_ints(values, 3)), size)
    assert planes.tolist() == [[(v >> j) & 1 for v in values] for j in range(192)]

"""Engine `mpyc` gives the same bits as the others, and its processes come and go in order."""

import asyncio
import multiprocessing
import os
import random
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from securefedyj import SecureFedYJ
from securefedyj.engines import concatenate
from securefedyj.engines.mpyc import runtime as mpyc
from securefedyj.engines.mpyc.engine import Mpyc, drive
from securefedyj.engines.mpyc.party import work
from securefedyj.errors import ProtocolError
from securefedyj.numerics import wide
from securefedyj.party.messages import Kind
from securefedyj.party.rounds import delegate, in_lockstep, play_round
from tests.datasets import table
from tests.federated_data import shuffled
from tests.patience import PATIENCE
from tests.simulation import FIVE, THREE, simulate

# Not imported here: this module is loaded in the parties' processes, before MPyC is configured.
pytestmark = pytest.mark.mpyc

WIDTHS = [1, 2, 5]
REFUSALS = {
    "does not match": lambda x: x + wide.zeros(2, 4),
    "is an int or limbs": lambda x: x * x,
    "not float": lambda x: x * 0.5,
    "do not go together": lambda x: x + x[:1],
    "slice or a vector": lambda x: x[0],
    "does not fit into 128 bits": lambda x: x + (1 << 127),
    "not fit": lambda x: x * (1 << 200),
    "must not be negative": lambda x: x << -1,
    "is secret": bool,
}


def edges_and_more(limbs, seed):
    """Edges first, then values of all magnitudes."""
    source = random.Random(seed)
    bound = 1 << (64 * limbs - 1)
    drawn = [source.getrandbits(source.randrange(1, 64 * limbs)) for _ in range(3)]
    return [0, -1, -bound, bound - 1, 1, 1 - bound, *drawn, *(-value for value in drawn)]


def small(limbs, size, seed):
    """Values whose products fit."""
    source = random.Random(seed)
    bound = 1 << (32 * limbs - 2)
    return [source.randrange(-bound, bound) for _ in range(size)]


def divided(values, parties, limbs):
    """Parts for all parties but the last, who has no data, that sum to the values exactly."""
    source = random.Random(len(values))
    parts = [[value // 2 + source.randrange(-99, 99) for value in values] for _ in parties[:-2]]
    rest = [value - sum(terms) for value, *terms in zip(values, *parts, strict=True)]
    bound = 1 << (64 * limbs - 1)
    for i, part in enumerate(rest):
        if not -bound <= part < bound:  # an edge: one party has it all
            for terms in parts:
                terms[i] = 0
            rest[i] = values[i]
    vectors = [wide.from_ints(part, limbs) for part in [*parts, rest]]
    return dict(zip(parties, [*vectors, None], strict=True))


async def everything(engine, own):
    """All operations at all widths; what is opened must not depend on the engine."""
    seen = []
    for limbs, (edges, xs, ys) in own.items():
        x, y, edge = await in_lockstep(
            engine.share(xs, size=12, limbs=limbs),
            engine.share(ys, size=12, limbs=limbs),
            engine.share(edges, size=12, limbs=limbs),
        )
        product = await engine.sum_of_products([(x, y), (x - y, y)])
        public = wide.from_ints(range(-6, 6), limbs)
        linear = (3 - ((x + y) * 5 << 3)) - (public * x + public) + np.int64(7)
        picked = concatenate([edge[::-1], product[np.array([5, 0])], linear[np.arange(12) > 8]])
        # Unequal branches: two steps beside one, and one within another.
        signs, (bits, (square, empty)) = await in_lockstep(
            engine.negative(picked),
            in_lockstep(
                engine.bits(edge),
                in_lockstep(squared_sum(engine, x, y), engine.share(None, size=0, limbs=limbs)),
            ),
        )
        chosen = (np.arange(12), np.arange(12))
        seen += [
            (signs.shape, bits.shape, square.size, empty.size),
            wide.to_ints(await engine.open(concatenate([picked, square, empty]))),
            (await engine.open_bits(signs)).tolist(),
            (await engine.open_bits(bits)).tolist(),
            (await engine.open_bits(bits[chosen])).tolist(),
            (await engine.open_bits(await engine.negative(empty))).tolist(),
            (await engine.open_bits(await engine.bits(empty))).shape,
        ]
    return seen


async def squared_sum(engine, x, y):
    total = (await engine.multiply(x, y)) * 0 + (x - y)
    return await engine.multiply(total, total)


@pytest.mark.parametrize("delays", [(0.0, 0.02), (0.02, 0.0)])
def test_work_is_started_in_the_order_of_the_program_whatever_is_done_first(delays):
    started = []

    async def branch(name, steps):
        return [await delegate(partial(start, f"{name}{step}")) for step in range(steps)]

    def start(label):
        started.append(label)
        return asyncio.sleep(delays[len(started) % 2], label.upper())

    program = in_lockstep(
        branch("a", 3), in_lockstep(branch("b", 1), branch("c", 2)), in_lockstep()
    )
    results = asyncio.run(drive(program))
    assert results == (["A0", "A1", "A2"], (["B0"], ["C0", "C1"]), ())
    assert started == ["a0", "b0", "c0", "a1", "c1", "a2"]


def test_operations_of_different_engines_do_not_go_together():
    program = in_lockstep(play_round(Kind.OPENING, {}, {}), delegate(lambda: asyncio.sleep(0)))
    with pytest.raises(TypeError, match="operations of one engine only"):
        asyncio.run(drive(program))


@pytest.mark.parametrize("consortium", [THREE, FIVE], ids=["three", "five"])
def test_all_operations_give_the_same_bits_as_in_the_clear(consortium):
    parties = consortium.parties
    widths = WIDTHS if consortium is THREE else [2]
    inputs = {name: {} for name in parties}
    for limbs in widths:
        vectors = [edges_and_more(limbs, 1), small(limbs, 12, 2), small(limbs, 12, 3)]
        parts = [divided(values, parties, limbs) for values in vectors]
        for name in parties:
            inputs[name][limbs] = [part[name] for part in parts]

    async def in_the_clear(engine, name):
        return await everything(engine, inputs[name])

    expected = simulate(in_the_clear, consortium, "clear")[0]
    finished = mpyc.run(everything, {name: (inputs[name],) for name in parties}, timeout=PATIENCE)
    assert list(finished) == list(parties)
    for name, end in finished.items():
        assert end.result == expected
        assert set(end.bytes_sent) == set(parties) - {name}
        assert min(end.bytes_sent.values()) > 10_000
        assert end.seconds > 0
    first = expected[1][:12]
    assert first[::-1] == edges_and_more(widths[0], 1)


async def many_comparisons(engine, size):
    values = await engine.share(None, size=size, limbs=1)
    signs = await engine.negative(values - 1)
    return int((await engine.open_bits(signs)).sum())


def test_more_values_than_one_block_are_compared_block_by_block():
    finished = mpyc.run(many_comparisons, dict.fromkeys(THREE.parties, (520,)), timeout=PATIENCE)
    assert [end.result for end in finished.values()] == [520] * 3


async def misused(engine, limbs):
    """The sentences of all refusals, in one run."""
    x = await engine.share(None, size=3, limbs=limbs)
    said = {repr(x): "", repr(await engine.negative(x)): ""}
    for sentence, misuse in REFUSALS.items():
        try:
            misuse(x)
        except (TypeError, ValueError, OverflowError) as error:
            said[sentence] = str(error)
    return said


def test_misuse_is_refused_with_a_sentence():
    finished = mpyc.run(misused, dict.fromkeys(THREE.parties, (2,)), timeout=PATIENCE)
    said = finished["ana"].result
    for sentence in REFUSALS:
        assert sentence in said[sentence]
    assert {"<Shamir: 3 integers of 128 bits>", "<ShamirBits: bits of shape (3,)>"} <= set(said)


async def agreeing(engine, digests, own):
    opened = []
    for digest in digests:
        _, x = await in_lockstep(engine.agree(digest), engine.share(own, size=1, limbs=1))
        opened += wide.to_ints(await engine.open(x))
    return opened


def test_digests_are_compared_among_all_parties():
    edges = [bytes(32), bytes([255]) * 32, bytes(31) + b"1", b"1" + bytes(31)]
    own = wide.from_ints([7], 1)
    finished = mpyc.run(agreeing, dict.fromkeys(FIVE.parties, (edges, own)), timeout=PATIENCE)
    for end in finished.values():
        assert end.result == [35] * 4


def test_another_digest_is_named():
    digests = {name: [bytes(31) + bytes([name == "cem"])] for name in THREE.parties}
    # Whoever is odd finds another party odd: which error comes first is left open.
    with pytest.raises(ProtocolError, match=r"Party \w+ has another record .*: expected 0"):
        mpyc.run(agreeing, {name: (own, None) for name, own in digests.items()}, timeout=PATIENCE)


@pytest.mark.parametrize("parties", [("ana",), ("ana", "bob")])
def test_two_parties_are_refused_because_they_have_no_honest_majority(parties):
    with pytest.raises(ValueError, match="needs three parties or more, got"):
        mpyc.run(many_comparisons, dict.fromkeys(parties, (1,)))
    with pytest.raises(ValueError, match="threshold is 0"):
        Mpyc(work, parties)


class Peculiar(Exception):
    """An error that cannot be pickled back."""

    def __init__(self, first, second):
        super().__init__(f"{first} and {second}")


def children():
    """Processes of this one, zombies included, but for multiprocessing's own resource tracker."""
    pids = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    commands = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in pids}
    return [pid for pid, command in commands.items() if b"resource_tracker" not in command]


async def failing(engine, how):
    x = await engine.share(None, size=1, limbs=1)
    if how == "raise":
        raise ArithmeticError("the rows of bob are odd")
    if how == "raise peculiar":
        raise Peculiar("this", "that")
    if how == "die":
        os._exit(7)
    if how == "block":
        time.sleep(600)
    if how == "wait for a clock":
        await asyncio.sleep(0)
    if how == "return a secret":
        return x
    if how == "overflow":
        return await engine.open((x + 1) << 70)
    return await engine.open(await engine.multiply(x, x))


FAILURES = {
    "raise": (ArithmeticError, "^the rows of bob are odd"),
    "raise peculiar": (RuntimeError, "Peculiar: this and that"),
    "die": (RuntimeError, r"party bob ended without a result \(exit code 7\)"),
    "block": (TimeoutError, "Not done after 4 seconds: ana, bob, cem"),
    "wait for a clock": (TypeError, "operations of one engine only"),
    "return a secret": (TypeError, "is secret"),
}


@pytest.mark.parametrize("how", FAILURES)
def test_the_failing_partys_own_error_is_raised_and_nobody_is_left_behind(how):
    kind, sentence = FAILURES[how]
    behaviour = {"ana": ("well",), "bob": (how,), "cem": ("well",)}
    with pytest.raises(kind, match=sentence) as caught:
        mpyc.run(failing, behaviour, timeout=4 if how == "block" else PATIENCE)
    if how not in ("die", "block"):
        assert any("(at party bob)" in note for note in caught.value.__notes__)
    assert multiprocessing.active_children() == []
    if Path("/proc/self/task").exists():
        assert children() == []


def test_nothing_is_printed(capfd):
    mpyc.run(failing, dict.fromkeys(THREE.parties, ("well",)), timeout=PATIENCE)
    assert capfd.readouterr() == ("", "")


def test_a_value_that_overflowed_is_not_opened_as_another():
    with pytest.raises(OverflowError, match="does not fit into 64 bits"):
        mpyc.run(failing, dict.fromkeys(THREE.parties, ("overflow",)), timeout=PATIENCE)


async def failing_in_the_library(mpc, index):
    kind = mpc.SecInt(64)
    x = mpc.input(kind(index), senders=0)
    if mpc.pid == 1:
        x = mpc.np_sgn(x)  # no array: MPyC fails in a task of its own
    return await mpc.output(x)


def test_an_error_inside_mpyc_is_reported():
    with pytest.raises(Exception, match=r".") as caught:
        mpyc.run_bare(failing_in_the_library, {str(i): (i,) for i in range(3)}, timeout=PATIENCE)
    assert not isinstance(caught.value, TimeoutError)
    assert any("(at party 1)" in note for note in caught.value.__notes__)


def test_a_script_that_calls_us_needs_no_guard(tmp_path):
    script = tmp_path / "script.py"
    folders = [str(folder) for folder in Path(__file__).parents[:3]]
    script.write_text(
        f"import sys; sys.path[:0] = {folders}\n"
        "print('once')\n"
        "from test_mpyc import many_comparisons, mpyc\n"
        "print(mpyc.run(many_comparisons, dict.fromkeys('abc', (3,)))['a'].result)\n"
    )
    ended = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, timeout=PATIENCE
    )
    assert (ended.stdout, ended.stderr) == ("once\n3\n", "")


def test_without_the_library_the_package_imports_and_the_error_names_the_command():
    script = (
        "import sys; sys.modules['mpyc'] = None\n"
        "import securefedyj, securefedyj.engines.mpyc.engine\n"
        "from securefedyj.engines.mpyc import runtime as mpyc\n"
        "mpyc.run(print, dict.fromkeys('abc', ()))\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "ImportError" in ended.stderr
    assert "pip install 'securefedyj[mpyc]'" in ended.stderr


def test_the_callers_process_never_loads_mpyc():
    assert "mpyc.runtime" not in sys.modules


@pytest.mark.parametrize(("silos", "features"), [(3, 3), (5, 2)])
def test_a_whole_fit_has_the_bits_of_the_other_engines(silos, features):
    X = table("wine")[:, :features] - 2
    tables = shuffled(X, silos)
    common: dict[str, Any] = {"bounds": (-4, 32), "levels_per_exchange": 1, "max_steps": 12}
    ours = SecureFedYJ(engine="mpyc", **common).fit(tables)
    other = SecureFedYJ(engine="replicated", **common).fit(tables)
    for name in ("lambdas_", "mean_", "var_", "at_bound_", "n_samples_seen_"):
        assert np.array_equal(getattr(ours, name), getattr(other, name))
    assert ours.transcript_.audit().passed
    assert ours.transcript_.signs_opened().tolist() == other.transcript_.signs_opened().tolist()

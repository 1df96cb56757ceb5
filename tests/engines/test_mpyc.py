"""Engine `mpyc` gives the same bits as the others, and its processes come and go in order."""

import asyncio
import contextlib
import os
import pickle
import random
import signal
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from securefedyj import SecureFedYJ
from securefedyj.engines import concatenate
from securefedyj.engines.mpyc import party as mpyc
from securefedyj.engines.mpyc.engine import Mpyc
from securefedyj.engines.mpyc.party import MpycParty
from securefedyj.errors import PartyStopped, ProtocolError
from securefedyj.numerics import wide
from securefedyj.party.messages import Kind
from securefedyj.party.rounds import delegate, in_lockstep, play_round
from tests.datasets import table
from tests.federated_data import shuffled
from tests.patience import PATIENCE
from tests.simulation import FIVE, THREE, simulate

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
    "only the engine's open operations reveal a value": pickle.dumps,
}


def assemble(program, inputs):
    """The parties, each about to run `program(engine, *inputs[name])`."""
    names = tuple(inputs)
    return [
        MpycParty(name, names, program(Mpyc(names), *own), session=bytes(16), parameters=b"")
        for name, own in inputs.items()
    ]


def run(program, inputs):
    """The results, by name. What hangs is ended."""
    team = assemble(program, inputs)
    patience = threading.Timer(PATIENCE, lambda: [party.release() for party in team])
    patience.start()
    try:
        return dict(zip(inputs, mpyc.run(team), strict=True))
    finally:
        patience.cancel()


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


def test_work_is_started_in_the_order_of_the_program():
    started = []

    async def branch(name, steps):
        return [await delegate(partial(start, f"{name}{step}")) for step in range(steps)]

    def start(label):
        started.append(label)
        return label

    program = in_lockstep(
        branch("a", 3), in_lockstep(branch("b", 1), branch("c", 2)), in_lockstep()
    )
    assert drive(program) == (["A0", "A1", "A2"], (["B0"], ["C0", "C1"]), ())
    assert started == ["a0", "b0", "c0", "a1", "c1", "a2"]


def drive(program):
    """Answer a program whose work is a text by the same text in capitals."""
    answers = None
    while True:
        try:
            request = program.send(answers)
        except StopIteration as stop:
            return stop.value
        answers = [start().upper() for start in request.starts]


def test_operations_of_different_engines_do_not_go_together():
    program = in_lockstep(play_round(Kind.OPENING, {}, {}), delegate(lambda: None))
    with pytest.raises(TypeError, match="operations of one engine only"):
        program.send(None)


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
    team = assemble(everything, {name: (inputs[name],) for name in parties})
    assert mpyc.run(team) == [expected] * len(parties)
    for party in team:
        assert set(party.bytes_sent) == set(parties) - {party.name}
        assert min(party.bytes_sent.values()) > 10_000
    first = expected[1][:12]
    assert first[::-1] == edges_and_more(widths[0], 1)


async def many_comparisons(engine, size):
    values = await engine.share(None, size=size, limbs=1)
    signs = await engine.negative(values - 1)
    return int((await engine.open_bits(signs)).sum())


def test_more_values_than_one_block_are_compared_block_by_block():
    results = run(many_comparisons, dict.fromkeys(THREE.parties, (520,)))
    assert list(results.values()) == [520] * 3


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
    said = run(misused, dict.fromkeys(THREE.parties, (2,)))["ana"]
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
    results = run(agreeing, dict.fromkeys(FIVE.parties, (edges, own)))
    assert list(results.values()) == [[35] * 4] * 5


def test_another_digest_is_named():
    digests = {name: [bytes(31) + bytes([name == "cem"])] for name in THREE.parties}
    # Whoever is odd finds another party odd: which error comes first is left open.
    with pytest.raises(ProtocolError, match=r"Party \w+ has another record .*: expected 0"):
        run(agreeing, {name: (own, None) for name, own in digests.items()})


@pytest.mark.parametrize("parties", [("ana",), ("ana", "bob")])
def test_two_parties_are_refused_because_they_have_no_honest_majority(parties):
    with pytest.raises(ValueError, match=r"needs three parties or more, got .*threshold is 0"):
        Mpyc(parties)


def children():
    """Processes of this one, zombies included, and which party each computes for."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            parent = (process / "stat").read_text().rpartition(") ")[2].split()[1]
            command = (process / "cmdline").read_bytes().split(b"\0")
            if int(parent) == os.getpid() and b"resource_tracker" not in b"".join(command):
                found[int(process.name)] = command[-4:-3]
    return found


async def failing(engine, how):
    x = await engine.share(None, size=1, limbs=1)
    if how == "raise":
        raise ArithmeticError("the rows of bob are odd")
    if how == "die":
        end_child_of_bob(signal.SIGKILL)
    if how == "hang":
        end_child_of_bob(signal.SIGSTOP)
    if how == "exit":
        raise SystemExit(3)
    if how == "wait for a clock":
        await asyncio.sleep(0)
    if how == "overflow":
        return await engine.open((x + 1) << 70)
    return await engine.open(await engine.multiply(x, x))


def end_child_of_bob(how):
    (pid,) = (pid for pid, index in children().items() if index == [b"1"])
    os.kill(pid, how)


FAILURES = {
    "raise": (ArithmeticError, "^the rows of bob are odd"),
    "die": (ConnectionError, r"ended too early \(exit code -9\)"),
    "hang": (ConnectionError, "was ended|ended too early"),
    "exit": (SystemExit, "3"),
    "wait for a clock": (TypeError, "nothing with a clock"),
}
needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc")


@needs_proc
@pytest.mark.parametrize("how", FAILURES)
def test_the_failing_partys_own_error_is_raised_and_nobody_is_left_behind(how):
    kind, sentence = FAILURES[how]
    behaviour = {"ana": ("well",), "bob": (how,), "cem": ("well",)}
    team = assemble(failing, behaviour)
    impatience = threading.Timer(4 if how == "hang" else PATIENCE, team[1].release)
    impatience.start()
    with pytest.raises(kind, match=sentence) as caught:
        mpyc.run(team)
    impatience.cancel()
    if how != "exit":
        assert any("(at party bob, in round" in note for note in caught.value.__notes__)
        assert all(isinstance(team[k].error, PartyStopped) for k in (0, 2))
    assert children() == {}


@needs_proc
def test_an_interrupted_run_leaves_nobody_behind(monkeypatch):
    monkeypatch.setattr(mpyc, "wait", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run(many_comparisons, dict.fromkeys(THREE.parties, (5000,)))
    assert children() == {}


def interrupt(*arguments, **options):
    threading.Event().wait(1.0)
    raise KeyboardInterrupt


def test_nothing_is_printed(capfd):
    run(failing, dict.fromkeys(THREE.parties, ("well",)))
    assert capfd.readouterr() == ("", "")


def test_a_value_that_overflowed_is_not_opened_as_another():
    with pytest.raises(OverflowError, match="does not fit into 64 bits"):
        run(failing, dict.fromkeys(THREE.parties, ("overflow",)))


FAILING_IN_THE_LIBRARY = """
import sys
from securefedyj.engines.mpyc import child, library

class Library(library.Library):
    def begin(self, work):
        if work.operation == child.pipe.Operation.NEGATIVE and sys.argv[1] == "1":
            self._mpc.np_sgn(self._mpc.SecInt(64)(1))  # no array: MPyC fails in a task of its own
        return super().begin(work)

child.Library = Library
child.main(*map(int, sys.argv[1:]))
"""


def test_an_error_inside_mpyc_is_reported(monkeypatch):
    monkeypatch.setattr(mpyc, "COMMAND", (sys.executable, "-c", FAILING_IN_THE_LIBRARY))
    with pytest.raises(ProtocolError, match=r"could not continue \(\w+Error\)") as caught:
        run(many_comparisons, dict.fromkeys(THREE.parties, (1,)))
    assert any("(at party bob, " in note for note in caught.value.__notes__)


def test_a_script_that_calls_us_needs_no_guard(tmp_path):
    script = tmp_path / "script.py"
    folders = [str(folder) for folder in Path(__file__).parents[:3]]
    script.write_text(
        f"import sys; sys.path[:0] = {folders}\n"
        "print('once')\n"
        "from test_mpyc import many_comparisons, run\n"
        "print(run(many_comparisons, dict.fromkeys('abc', (3,)))['a'])\n"
    )
    ended = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, timeout=PATIENCE
    )
    assert (ended.stdout, ended.stderr) == ("once\n3\n", "")


def test_without_the_library_the_package_imports_and_the_error_names_the_command():
    script = (
        "import sys; sys.modules['mpyc'] = None\n"
        "import securefedyj, securefedyj.engines.mpyc.engine\n"
        "securefedyj.SecureFedYJ(engine='mpyc').fit([[[1.0], [2.0], [4.0]]] * 3)\n"
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

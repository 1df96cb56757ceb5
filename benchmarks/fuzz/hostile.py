"""Give hostile files and records to everything that reads them.

    python -m benchmarks.fuzz.hostile --examples 2000
    python -m benchmarks.fuzz.hostile --only transcript --examples 50000 --seed 7

Each reader gets this number of examples, in processes of its own. It may refuse with the errors
that it is documented to raise, in a sentence that is short and cannot control a terminal, and do
nothing else; and the process may take 200 MB of memory at most, hypothesis and the libraries
included. The exit code is 1 if one of this fails; the example is printed, as small as it can be.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import hashlib
import io
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st

from benchmarks.fuzz import nasty
from securefedyj import parameters, strict
from securefedyj.cli.main import main as command
from securefedyj.errors import InputError, ProtocolError
from securefedyj.network import local, submission
from securefedyj.network.consortium import Consortium, ConsortiumError, Feature
from securefedyj.network.consortium import toml_text as agreed
from securefedyj.network.keys import sign
from securefedyj.network.session import records
from securefedyj.network.session.journal import FILE as STATE
from securefedyj.network.session.journal import FORMAT, open_journal
from securefedyj.network.session.participant import JoinError
from securefedyj.network.transport import framing, tls
from securefedyj.numerics.encoding import Domain
from securefedyj.party.messages import VERSION, Message
from securefedyj.party.messages import Kind as Step
from securefedyj.protocol.agreement import Agreement
from securefedyj.protocol.reveals import to_line
from securefedyj.protocol.simulation import simulate
from securefedyj.protocol.transcript import Transcript, TranscriptError
from securefedyj.report.results import read_cost

MOST_MEMORY = 200.0  # MB, of a process
LONGEST_SENTENCE = 2000  # characters
AT_ONCE = 500  # examples in one process
HEAVY = 20.0  # MB of one example


class Broken(Exception):
    """A reader did what it must not do."""


@dataclass(frozen=True)
class Target:
    """A reader, what it may raise, and what it is given."""

    contents: Callable[[], st.SearchStrategy[bytes]]
    read: Callable[[bytes], None]
    refusals: tuple[type[Exception], ...]
    large: Callable[[], Iterator[bytes]] = lambda: iter(())
    """Contents that take as much memory as they can."""

    def take(self, content: bytes) -> bool:
        """Whether the content is accepted; Broken, or another error, if something went wrong."""
        try:
            self.read(content)
        except self.refusals as error:
            check_sentence(str(error).replace(str(folder()), ""))
            return False
        return True


def check_sentence(text: str) -> None:
    if len(text) > LONGEST_SENTENCE:
        raise Broken(f"a sentence of {len(text)} characters: {text[:200]!r}")
    if not text.replace("\n", "").isprintable():
        raise Broken(f"a sentence that controls the terminal: {text!r}")


@functools.cache
def folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="hostile-"))


def file_of(name: str, content: bytes) -> Path:
    path = folder() / name
    path.write_bytes(content)
    return path


# What is valid.


@functools.cache
def agreed_file() -> str:
    tables: dict[str, Any] = {"north": np.ones((3, 2)), "south": np.ones((3, 2)), "cem": None}
    features = [Feature("lactate", 0.0, 40.0, "mmol/L", "a note"), Feature("age", 0.0, 120.0)]
    consortium = local.prepare(folder() / "keys", tables, features, port=7443)
    return consortium.to_toml()


@functools.cache
def submitted() -> tuple[Consortium, bytes]:
    """An agreed file, and the submission of a silo to it."""
    tables = dict.fromkeys(("north", "south", "east", "west"), np.ones((3, 1)))
    features = [Feature("age", 0.0, 120.0, resolution="1")]
    place = folder() / "submitted"
    consortium = local.prepare(place, tables, features, port=7443, submitted=True)
    counts = np.zeros(121, dtype=np.int64)
    return consortium, submission.make(consortium, "north", place / "north.key", counts)


@functools.cache
def transcript(verified: bool = False) -> Transcript:
    rng = np.random.default_rng(3)
    agreement = Agreement(
        features=("income", "change", "fixed"),
        domain=Domain.from_bounds((-100.0, 100.0), 3),
        parties=("north", "south", "cem"),
        committee=("north", "south", "cem"),
        engine="replicated" if verified else "clear",
        max_steps=12,
        levels_per_exchange=2,
        result_bits=44,
        minimum_values=0,
        verified=verified,
    )
    tables = [
        np.column_stack([rng.lognormal(size=9), rng.normal(size=9), np.ones(9)]) for _ in range(3)
    ]
    return simulate(agreement, tables)[0]


def message() -> Message:
    return Message(VERSION, bytes(16), "north", "south", 3, Step.INPUT, b"payload")


# What reads it.


def silently(*arguments: str) -> None:
    """Run a command as a user would; it must end well or with a sentence, and print no controls."""
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(out):
        code = command(arguments)
    if code not in (0, 1):
        raise Broken(f"exit code {code}")
    if not out.getvalue().replace("\n", "").isprintable():
        raise Broken(f"it printed {out.getvalue()!r}")


def read_agreed_file(content: bytes) -> None:
    path = file_of("consortium.toml", content)
    silently("check", str(path))
    consortium = Consortium.read(path)
    Consortium.read(file_of("again.toml", consortium.to_toml().encode()))
    consortium.digest()
    consortium.note_on_steps()


def read_parameters(content: bytes) -> None:
    parameters.read(file_of("parameters.json", content))


def read_transcript(content: bytes) -> None:
    path = file_of("transcript.jsonl", content)
    silently("audit", str(path))
    silently("audit", "--json", str(path))
    found = Transcript.read(path)
    check_sentence(found.audit().statement()[:LONGEST_SENTENCE])


def read_state(content: bytes) -> None:
    (folder() / "state").mkdir(exist_ok=True)
    file_of(f"state/{STATE}", content)
    open_journal(folder() / "state", transcript().agreement, "d" * 64, "north").close()


def state_lines() -> list[dict[str, Any]]:
    """A journal with a note of every kind."""
    agreement, reveals = transcript().agreement, [to_line(one) for one in transcript().reveals]
    header = {"state": FORMAT, "file": "d" * 64, "key": "00" * 32, "rows": ""}
    begin: list[dict[str, Any]] = [{"session": 0}, {"exchange": 0}, {"opening": 0}, reveals[0]]
    again: list[dict[str, Any]] = [
        {"interruption": {"by": "south", "exchange": 1}},
        {"session": 1},
        {"exchange": 1},
    ]
    digest = hashlib.sha256(transcript().to_text().encode()).hexdigest()
    part = {"opening": 3, "session": "ab" * 16, "bits": "00ff"}
    end: list[dict[str, Any]] = [{"repeat": 3}, {"accepted": part}, {"confirmed": digest}]
    return [{**header, "agreement": agreement.to_json()}, *begin, *again, *reveals[1:], *end]


def header() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(submitted()[1].partition(b"\n")[0])
    return found


def read_submission(content: bytes) -> None:
    """A header that its silo has signed, so that it is read to the end, or any bytes."""
    consortium, whole = submitted()
    signature = (
        sign(folder() / "submitted" / "north.key", submission.SIGNED, content).hex().encode()
    )
    parts = whole.split(b"\n", 2)[2]
    path = file_of("north.submission", b"\n".join([content, signature, parts]))
    silently("submission", str(path))
    silently("submission", str(path), "--json")
    submission.read(path.read_bytes(), consortium)


def read_cost_file(content: bytes) -> None:
    read_cost(file_of("cost.json", content))


def read_record(content: bytes) -> None:
    """The first byte is the type."""
    records.read("north", tls.RawRecord(content[0] if content else 0, content[1:]))


def read_frames(content: bytes) -> None:
    reader = framing.FrameReader("the hub")
    for start in range(0, len(content), 37):
        list(reader.feed(content[start : start + 37]))
    reader.end()


def read_message(content: bytes) -> None:
    repr(Message.from_bytes(content))


def hostile_records() -> st.SearchStrategy[bytes]:
    lines = [json.dumps(to_line(transcript().reveals[1]))]
    all_kinds: list[records.AnyRecord] = [
        records.Greeting(VERSION, "0" * 64, 1.0, "0.3"),
        records.Ready("0" * 64),
        records.Begin("0" * 32, 3, "0" * 64, False, True, False, 3, "1" * 32),
        records.Handover("0" * 32, 1, lines),
        records.Done("0" * 64),
    ]
    written = dict(map(records.write, all_kinds))
    described = [
        nasty.json_documents(json.loads(body)).map(functools.partial(bytes.__add__, bytes([kind])))
        for kind, body in written.items()
    ]
    others = nasty.edited(message().to_bytes()).map(lambda content: b"\x04" + content)
    return st.one_of(*described, others, st.binary(max_size=80))


def hostile_frames() -> st.SearchStrategy[bytes]:
    numbered = framing.FrameWriter()
    several = b"".join(
        numbered.encode(framing.HubFrame(kind, "north", 3, b"body" * 9))
        for kind in framing.FrameType
    )
    return st.one_of(nasty.edited(several), st.binary(max_size=80), st.just(several))


TARGETS = {
    "consortium": Target(
        lambda: nasty.toml_documents(agreed_file()),
        read_agreed_file,
        (ConsortiumError,),
        lambda: nasty.large_toml(agreed.MOST_BYTES),
    ),
    "parameters": Target(
        lambda: nasty.json_documents(parameters.Parameters.of(transcript()).to_json()),
        read_parameters,
        (parameters.ParametersError,),
        lambda: nasty.large_json(strict.MOST_BYTES),
    ),
    "transcript": Target(
        lambda: st.one_of(
            [nasty.json_lines(list(transcript(how).to_lines())) for how in (False, True)]
        ),
        read_transcript,
        (TranscriptError,),
        lambda: nasty.large_lines(list(transcript().to_lines()), 1 << 24),
    ),
    "state": Target(
        lambda: nasty.json_lines(state_lines()),
        read_state,
        (JoinError,),
        lambda: nasty.large_lines(state_lines(), 1 << 24),
    ),
    "cost": Target(
        lambda: nasty.json_documents(
            {"party": "north", "rounds": 9, "bytes_sent": {"south": 3}, "seconds": 1.5}
        ),
        read_cost_file,
        (ValueError,),
    ),
    "submission": Target(
        lambda: st.one_of(nasty.json_documents(header()), nasty.edited(submitted()[1])),
        read_submission,
        (InputError,),
    ),
    "record": Target(hostile_records, read_record, (ProtocolError,)),
    "frames": Target(hostile_frames, read_frames, (ProtocolError,)),
    "message": Target(
        lambda: nasty.edited(message().to_bytes()) | st.binary(max_size=80),
        read_message,
        (ProtocolError,),
    ),
}


@dataclass
class Tally:
    """What came of the examples of one target."""

    examples: int = 0
    accepted: int = 0
    memory: float = 0.0  # MB, at the peak of the process
    heavy: str = ""  # a file with the last example that made it grow much


def attack(name: str, examples: int, seed: int, large: bool = False) -> Tally:
    """Give a reader hostile examples; raise its error, with the smallest one, if it breaks."""
    target, tally = TARGETS[name], Tally()

    @seeded(seed)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )
    @given(target.contents())
    def each(content: bytes) -> None:
        tally.examples += 1
        before = memory()
        try:
            tally.accepted += target.take(content)
        finally:
            if memory() - before > HEAVY:
                tally.heavy = str(file_of(f"heavy-{name}", content))

    if large:  # first, while hypothesis holds little
        for content in target.large():
            tally.examples += 1
            tally.accepted += target.take(content)
            del content  # or two would be counted
    each()
    tally.memory = memory()
    return tally


def warm_up() -> None:
    """Let hypothesis look for constants in our source; it takes 200 MB once, and keeps them."""

    @settings(max_examples=1, database=None)
    @given(st.text())
    def nothing(text: str) -> None:
        pass

    nothing()


def memory() -> float:
    """MB, at the peak of this process; `getrusage` would count what its parent had taken, too."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def attack_apart(name: str, examples: int, seed: int) -> Tally:
    """The same in processes of its own, whose memory is that of one reader."""
    warm_up()
    # Hypothesis remembers its examples: many at once would take more than any reader.
    parts = [min(AT_ONCE, examples - done) for done in range(0, examples, AT_ONCE)]
    tallies = [_attack_in_child(name, part, seed + j, j == 0) for j, part in enumerate(parts)]
    return Tally(
        sum(tally.examples for tally in tallies),
        sum(tally.accepted for tally in tallies),
        max(tally.memory for tally in tallies),
        next((tally.heavy for tally in tallies if tally.heavy), ""),
    )


def _attack_in_child(name: str, examples: int, seed: int, large: bool) -> Tally:
    call = [sys.executable, "-m", "benchmarks.fuzz.hostile", "--inside", name]
    numbers = ["--examples", str(examples), "--seed", str(seed), *["--large"] * large]
    done = subprocess.run([*call, *numbers], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Broken(f"{name}:\n{done.stderr[-8000:]}")
    return Tally(**json.loads(done.stdout))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--examples", type=int, default=2000, metavar="N", help="of each reader")
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    parser.add_argument("--only", choices=TARGETS, metavar="READER", help=", ".join(TARGETS))
    parser.add_argument("--inside", choices=TARGETS, help=argparse.SUPPRESS)
    parser.add_argument("--large", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.inside:
        print(
            json.dumps(
                dataclasses.asdict(
                    attack(options.inside, options.examples, options.seed, large=options.large)
                )
            )
        )
        return 0
    broken, total = [], 0
    print(f"{'reader':<12} {'examples':>9} {'accepted':>9} {'MB, peak':>9}")
    for name in [options.only] if options.only else TARGETS:
        try:
            tally = attack_apart(name, options.examples, options.seed)
        except Broken as error:
            broken.append(str(error))
            print(f"{name:<12} broken")
            continue
        total += tally.examples
        print(f"{name:<12} {tally.examples:>9} {tally.accepted:>9} {tally.memory:>9.1f}")
        if tally.memory > MOST_MEMORY:
            broken.append(
                f"{name}: {tally.memory:.1f} MB; {MOST_MEMORY:g} are the most: {tally.heavy}"
            )
    print(f"{total} examples, {len(broken)} readers broken")
    print("\n".join(broken), file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())

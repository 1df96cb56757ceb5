"""A SuperLink and three SuperNodes as processes with TLS: a job, a kill, and attacks.

    python -m tests.integrations.flower.deployment [--features 30]

Needs flwr; takes minutes. Fails unless the results are, byte for byte, those of one process, the
run that follows a kill goes on from the last reveal, Flower's server has handled none of the
integers that were shared, and runs with another agreed file or with code of their own are refused.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from securefedyj.integrations.flower import template
from tests.integrations.flare.poc import pace, reveals
from tests.integrations.flower import sites
from tests.integrations.flower.federation import BIN, PATIENCE, Federation, set_environment

WATCH = Path(__file__).parent / "watch"
ATTACK = Path(__file__).parent / "attack"
NAMES = ("north", "south", "west")
REVEALS = 6  # of the site that is killed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--features", type=int, default=30)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="flower-"))
    set_environment(folder)
    (folder / "watched").mkdir()
    os.environ["PYTHONPATH"] = os.pathsep.join([str(WATCH), os.environ["PYTHONPATH"]])
    os.environ["WATCH"] = str(folder / "watched")
    rows = sites.tables(options.features)
    consortium = sites.prepare(folder, rows)
    expected = sites.in_process(consortium, rows)
    template.write(consortium, folder / "fit")
    with Federation(folder) as federation:
        federation.start_hub()
        federation.start_superlink()
        for name in rows:
            federation.register(name)
            federation.start_supernode(name)
        check_kill(federation, expected)
        sites.assert_nothing_shared(folder / "watched", expected)
        print("Flower's server has handled none of the shared integers")
        (folder / "watched" / "enough").touch()
        sites.write_all(folder, rows, "again")
        seconds = check_run(federation, expected)
        print(f"launched by Flower: {pace(folder / 'north-again')}, {seconds:.1f} s in all")
        seconds = check_join(federation, expected)
        print(f"`securefedyj join`: {pace(folder / 'north-join')}, {seconds:.1f} s in all")
        check_altered_file(federation)
        check_altered_code(federation)
    shutil.rmtree(folder, ignore_errors=True)
    return 0


def check_run(federation: Federation, expected: bytes) -> float:
    """A run whose result is right; return the seconds that it took."""
    result, began = federation.folder / "result", time.monotonic()
    printed = federation.run(federation.folder / "fit", "--run-config", f"output='{result}'")
    seconds = time.monotonic() - began
    assert "All parties have returned the same parameters.json." in printed, printed
    assert (result / "parameters.json").read_bytes() == expected
    shutil.rmtree(result)
    return seconds


def check_join(federation: Federation, expected: bytes) -> float:
    """The same by our own command at each site; return the seconds that it took."""
    folder, began = federation.folder, time.monotonic()
    for name in NAMES:
        federation.start_party(name, "--output", str(folder / f"{name}-join"))
    for name in NAMES:
        assert federation.running.pop(name).wait(PATIENCE) == 0, federation.last_line(name)
        assert (folder / f"{name}-join" / "parameters.json").read_bytes() == expected
    return time.monotonic() - began


def check_kill(federation: Federation, expected: bytes) -> None:
    """Kill all processes of a site after some reveals; the next run goes on from there."""
    folder = federation.folder
    state = folder / "south" / "state.jsonl"
    run = federation.submit(folder / "fit")
    deadline = time.monotonic() + PATIENCE
    while len(reveals(state)) < REVEALS:
        if run.poll() is not None or time.monotonic() > deadline:
            run.kill()
            raise RuntimeError(f"The run did not begin: {run.communicate()[0]}")
        time.sleep(0.01)
    federation.kill_site("south")
    before = reveals(state)
    assert not (folder / "south" / "parameters.json").exists(), "The kill came too late."
    federation.stop(run)
    federation.start_supernode("south")
    check_run(federation, expected)
    after = reveals(state)
    assert after[: len(before)] == before
    assert len(set(after)) == len(after), "Something was revealed twice."
    for name in NAMES:
        assert (folder / name / "parameters.json").read_bytes() == expected
    print(f"south was killed after {len(before)} reveals of {len(after)}; the next run went on")


def check_altered_file(federation: Federation) -> None:
    """A submitter has another agreed file."""
    folder = federation.folder
    altered = dataclasses.replace(federation.consortium, result_bits=44)
    template.write(altered, folder / "altered")
    printed = federation.run(folder / "altered")
    sentence = "refuses this job: it is about an agreed file with another digest than"
    assert sentence in printed, printed
    print("a run with another agreed file was refused")


def check_altered_code(federation: Federation) -> None:
    """A submitter sends code that steals. Flower's own SuperNode runs it, and ours does not."""
    folder = federation.folder
    federation.kill_site("west")
    federation.start_supernode("west", str(BIN / "flower-supernode"))
    shutil.copytree(ATTACK, folder / "attack")
    printed = federation.run(folder / "attack")
    assert printed.count("refuses the app: it brings files of its own") == 2, printed
    stolen = (folder / "west.csv").read_text(encoding="utf-8").splitlines()[1]
    assert f"stolen: {stolen}" in printed, printed  # so the attack is one
    assert printed.count("stolen: ") == 1
    print("a run with code of its own was refused, which Flower's own SuperNode had run")


if __name__ == "__main__":
    sys.exit(main())

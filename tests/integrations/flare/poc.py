"""A FLARE server and three sites as processes with mutual TLS, a site killed on the way.

    python -m tests.integrations.flare.poc [--speed]

Needs nvflare, and its ports 8002 and 8003 of this machine; takes some minutes. Types what
docs/flare.md says about POC, then submits jobs to the same server: one whose site is killed, one
that is aborted, one whose time is over, one that brings code, and one that goes on to the end.
Fails unless the results are, byte for byte, those of one process, each job goes on from the last
reveal, the sites refuse the code, and FLARE's server has handled none of the integers that were
shared. The same fit runs over our hub before and after the page's, for comparison; with --speed
there is nothing else.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from securefedyj.integrations.job import NoResult
from securefedyj.network import local
from securefedyj.network.consortium import Consortium
from securefedyj.numerics.arrays import Array
from securefedyj.tables.files import read_table
from tests.integrations.flare import sites, walk

NAMES = ("north", "east", "south")
PATIENCE = 180.0  # seconds
REVEALS = 3  # of a site before its job is ended


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--speed", action="store_true", help="no jobs that end early")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="flare-"))
    os.environ |= sites.watched(
        folder,
        HOME=str(folder),
        TMPDIR=str(folder),  # for what FLARE downloads
        NVFLARE_POC_WORKSPACE=str(folder / "poc"),
    )
    on, first = folder / "watched" / "on", folder / "first"
    on.unlink()
    walk.type_out("Three sites on one machine", folder, os.environ)
    consortium = Consortium.read(first / "consortium.toml")
    features = [feature.name for feature in consortium.features]
    rows = {name: read_table(first / name / "patients.csv", features) for name in NAMES}
    expected = sites.in_process(consortium, rows)
    (first / "north" / "result").mkdir()  # as the simulator has left it; test_simulator.py
    (first / "north" / "result" / "parameters.json").write_bytes(expected)
    try:
        before = over_hub(folder / "before", consortium, rows)
        speed = check_page(folder, expected)
        after = over_hub(folder / "after", consortium, rows)
        print("| | a round | a fit | a job | from start to end |\n|-|-|-|-|-|")
        print(f"| our hub and parties as processes, before | {before} |")
        print(f"| FLARE server and sites as processes, mutual TLS | {speed} |")
        print(f"| our hub and parties as processes, after | {after} |", flush=True)
        if not options.speed:
            nvflare("poc", "start", "--no-wait")
            on.touch()
            check_ends(folder, expected)
            sites.assert_nothing_shared(folder / "watched", expected)
            print("FLARE's server has handled none of the shared integers")
    finally:
        stop(folder)
    shutil.rmtree(folder, ignore_errors=True)
    return 0


def check_page(folder: Path, expected: bytes) -> str:
    """What the page says about POC; return how long it took."""
    began = time.monotonic()
    printed = walk.type_out("POC", folder, os.environ)
    seconds = time.monotonic() - began
    (result,) = re.findall(r"^Result: (.*)$", printed, re.MULTILINE)
    assert Path(result).read_bytes() == expected
    for name in NAMES:
        assert (folder / "first" / name / "result-poc/parameters.json").read_bytes() == expected
    print("PocEnv: all sites and the server have the result of one process")
    hours, minutes, rest = re.findall(r"'duration': '(\d+):(\d+):([\d.]+)'", printed)[-1]
    job = 3600 * int(hours) + 60 * int(minutes) + float(rest)
    return f"{pace(folder / 'first/north/result-poc')} | {job:.0f} s | {seconds:.0f} s"


def check_ends(folder: Path, expected: bytes) -> None:
    """Jobs that end early in several ways; the last one goes on to the result."""
    from securefedyj.integrations.flare.recipe import result_of

    for name in NAMES:
        path = folder / "first" / name / "securefedyj.toml"
        path.write_text(path.read_text().replace("/result-poc", "/result-long"))
    results = {name: folder / "first" / name / "result-long" for name in NAMES}
    state = results["south"] / "state.jsonl"

    run = submit(folder)
    wait_for_reveals(state, REVEALS)
    os.kill(process_of("south", folder), signal.SIGKILL)
    before = reveals(state)
    end_of(run)
    with pytest.raises(NoResult, match="FINISHED:"):  # FLARE's folder looks like success
        result_of(run)
    print(f"south was killed after {len(before)} reveals, and the job has failed")

    run = submit(folder)
    wait_for_reveals(state, len(before) + REVEALS)
    run.abort()
    end_of(run)
    before = going_on(state, before)
    wait_for_words(results["north"] / "securefedyj.log", "FLARE has ended the job.", 1)
    print(f"The next job was aborted after {len(before)} reveals, and its sites have stopped")

    end_of(submit(folder, timeout=1))
    wait_for_words(results["north"] / "securefedyj.log", "FLARE has ended the job.", 2)
    before = going_on(state, before)
    print(f"The time of the next was over after {len(before)} reveals")

    refused = submit(folder, code=True)
    end_of(refused)
    assert "BYOC not permitted" in details(refused), details(refused)
    assert reveals(state) == before
    print("The sites have refused a job that brings code")

    assert not (results["south"] / "parameters.json").exists(), "The ends came too late."
    result = Path(end_of(submit(folder)))
    (kept,) = result.rglob("parameters.json")
    for path in (kept, *(result / "parameters.json" for result in results.values())):
        assert path.read_bytes() == expected
    print(f"The last one went on to all {len(going_on(state, before))} reveals")


def submit(folder: Path, timeout: int = 0, *, code: bool = False) -> Any:
    """Submit a job as an administrator does; with `code`, our modules travel with it."""
    from nvflare.recipe import ProdEnv

    from securefedyj.integrations.flare.recipe import SecureFedYJRecipe

    file = folder / "first" / "consortium.toml"
    recipe = SecureFedYJRecipe(name="trial", consortium=file, timeout=timeout)
    if code:
        recipe._job.set_app_packages([])
    kit = kits(folder) / "admin@nvidia.com"
    with contextlib.redirect_stdout(io.StringIO()):  # FLARE prints much
        return recipe.execute(ProdEnv(startup_kit_location=str(kit), login_timeout=60.0))


def end_of(run: Any) -> str:
    """Wait for the end of a job; return the folder with what the server has of it."""
    with contextlib.redirect_stdout(io.StringIO()):
        result = run.exec_env.get_job_result(run.job_id, timeout=PATIENCE)
    assert result, "The job did not end."
    return str(result)


def details(run: Any) -> str:
    """What FLARE tells an administrator about a job."""
    session = run.exec_env._get_session_manager()._get_session()
    try:
        return json.dumps(session.get_job_meta(run.job_id))
    finally:
        session.close()


def kits(folder: Path) -> Path:
    return max((folder / "poc").glob("*/prod_*"))


def nvflare(*arguments: str) -> None:
    """The command of FLARE; what it prints is shown only if it fails."""
    command = [sys.executable, "-m", "nvflare.cli", *arguments]
    with tempfile.TemporaryFile("w+") as printed:  # not a pipe, which those that it starts inherit
        done = subprocess.run(command, stdout=printed, stderr=printed, timeout=PATIENCE)
        printed.seek(0)
        if done.returncode:
            raise RuntimeError(f"nvflare {' '.join(arguments)}: {printed.read()}")


def stop(folder: Path) -> None:
    """End all processes of FLARE: as it does it, or else one by one."""
    with contextlib.suppress(RuntimeError):  # nothing was started
        nvflare("poc", "stop", "--no-wait")
    deadline = time.monotonic() + 60.0
    while left := processes(str(folder / "poc")):
        if time.monotonic() > deadline:
            for process in left:
                os.kill(process, signal.SIGKILL)
        time.sleep(0.2)


def wait_for_reveals(state: Path, count: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while len(reveals(state)) < count:
        if time.monotonic() > deadline:
            raise RuntimeError("The job did not begin.")
        time.sleep(0.01)


def wait_for_words(path: Path, words: str, times: int) -> None:
    deadline = time.monotonic() + 20.0
    while not path.exists() or path.read_text(encoding="utf-8").count(words) < times:
        if time.monotonic() > deadline:
            raise RuntimeError(f"Not {times} times in {path}: {words}")
        time.sleep(0.1)


def going_on(state: Path, before: list[str]) -> list[str]:
    """What was revealed after all, which begins with what was revealed before."""
    after = reveals(state)
    assert after[: len(before)] == before
    assert len(set(after)) == len(after), "Something was revealed twice."
    return after


def reveals(state: Path) -> list[str]:
    """What a site has noted as revealed, in whole lines."""
    lines = state.read_text(encoding="utf-8").split("\n")[:-1] if state.exists() else []
    return [line for line in lines if line.startswith('{"reveal"')]


def process_of(site: str, folder: Path) -> int:
    """The process of a job at a site."""
    (process,) = processes("client.worker_process", str(kits(folder) / site))
    return process


def processes(*words: str) -> list[int]:
    """The processes whose commands have all these words, such as a folder of our own."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):  # it has ended meanwhile
            if entry.name.isdecimal():
                command = (entry / "cmdline").read_bytes().decode(errors="replace")
                if all(word in command for word in words):
                    found.append(int(entry.name))
    return found


def pace(result: Path) -> str:
    cost = json.loads((result / "cost.json").read_text(encoding="utf-8"))
    fit = sum(cost[key] for key in ("seconds_local", "seconds_secure", "seconds_waiting"))
    return f"{1e3 * fit / cost['rounds']:.1f} ms | {fit:.1f} s"


def over_hub(folder: Path, consortium: Consortium, rows: Mapping[str, Array]) -> str:
    """How long the same takes over our hub."""
    folder.mkdir()
    local.prepare(folder, rows, consortium.features)
    began = time.monotonic()
    with local.Processes(folder) as running:
        running.start_hub()
        for name in rows:
            running.start_party(name)
        assert set(running.wait(PATIENCE).values()) == {0}, running.log(NAMES[0])
    return f"{pace(folder / NAMES[0])} | | {time.monotonic() - began:.0f} s"


if __name__ == "__main__":
    sys.exit(main())

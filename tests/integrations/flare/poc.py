"""A FLARE server and three sites as processes with mutual TLS, a site killed on the way.

    python -m tests.integrations.flare.poc [--features 30]

Needs nvflare, and its ports 8002 and 8003 of this machine; takes about two minutes. Fails unless
the results are, byte for byte, those of one process, the job that follows a kill goes on from the
last reveal, and FLARE's server has handled none of the integers that were shared.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.integrations.flare import sites

ROOT = Path(__file__).parents[3]
WATCH = Path(__file__).parent / "watch"
ADMIN = "admin@nvidia.com"
PATIENCE = 180.0  # seconds
REVEALS = 6  # of the site that is killed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--features", type=int, default=30)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="flare-"))
    own = [str(WATCH), str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    (folder / "watched").mkdir()
    os.environ |= {
        "HOME": str(folder),
        "TMPDIR": str(folder),  # for what FLARE downloads
        "NVFLARE_POC_WORKSPACE": str(folder / "poc"),
        "PYTHONPATH": os.pathsep.join(filter(None, own)),
        "WATCH": str(folder / "watched"),
        "OPENBLAS_NUM_THREADS": "1",
    }
    rows = sites.tables(options.features)
    consortium = sites.prepare(folder, rows)
    expected = sites.in_process(consortium, rows)
    nvflare("poc", "prepare", "-c", *rows, "--force")
    (kits,) = (folder / "poc").glob("*/prod_00")
    for name in ("server", *rows):
        sites.allow(kits / name / "local")
        if name in rows:
            sites.write_site(folder, name, kits / name / "local")
    try:
        nvflare("poc", "start", "--no-wait")
        check_kill(folder, kits, expected)
        sites.assert_nothing_shared(folder / "watched", expected)
        print("FLARE's server has handled none of the shared integers")
        (folder / "watched" / "enough").touch()
        for name in rows:
            sites.write_site(folder, name, kits / name / "local", output=f"{name}-again")
        seconds = check_job(submit(folder, kits), expected)
        print_speed(folder / "north-again" / "cost.json", seconds)
    finally:
        stop(folder)
    shutil.rmtree(folder, ignore_errors=True)
    return 0


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
    nvflare("poc", "stop", "--no-wait")
    deadline = time.monotonic() + 60.0
    while left := processes(str(folder / "poc")):
        if time.monotonic() > deadline:
            for process in left:
                os.kill(process, signal.SIGKILL)
        time.sleep(0.2)


def submit(folder: Path, kits: Path) -> tuple[subprocess.Popen[str], float]:
    program = ["-m", "tests.integrations.flare.submit", str(kits / ADMIN)]
    command = [sys.executable, *program, str(folder / "consortium.toml")]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True), time.monotonic()


def check_job(submitted: tuple[subprocess.Popen[str], float], expected: bytes) -> float:
    """Wait for a job whose result is right; return the seconds it took."""
    job, began = submitted
    printed, _ = job.communicate(timeout=PATIENCE)
    found = [path for line in printed.splitlines() if line.startswith("result: ")
             for path in Path(line.removeprefix("result: ")).rglob("parameters.json")]  # fmt: skip
    assert found, printed
    assert all(path.read_bytes() == expected for path in found)
    return time.monotonic() - began


def check_kill(folder: Path, kits: Path, expected: bytes) -> None:
    """Kill the process of a job at a site after some reveals; the next job goes on from there."""
    state = folder / "south" / "state.jsonl"
    job, _ = submit(folder, kits)
    deadline = time.monotonic() + PATIENCE
    while len(reveals(state)) < REVEALS:
        if job.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError("The job did not begin.")
        time.sleep(0.01)
    os.kill(process_of("south", kits), signal.SIGKILL)
    before = reveals(state)
    job.communicate(timeout=PATIENCE)
    assert not (folder / "south" / "parameters.json").exists(), "The kill came too late."
    check_job(submit(folder, kits), expected)
    after = reveals(state)
    assert after[: len(before)] == before
    assert len(set(after)) == len(after), "Something was revealed twice."
    print(f"south was killed after {len(before)} reveals of {len(after)}; the next job went on")


def reveals(state: Path) -> list[str]:
    """What a site has noted as revealed, in whole lines."""
    lines = state.read_text(encoding="utf-8").split("\n")[:-1] if state.exists() else []
    return [line for line in lines if line.startswith('{"reveal"')]


def process_of(site: str, kits: Path) -> int:
    """The process of a job at a site."""
    (process,) = processes("client.worker_process", str(kits / site))
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


def print_speed(path: Path, seconds: float) -> None:
    cost = json.loads(path.read_text(encoding="utf-8"))
    fit = sum(cost[key] for key in ("seconds_local", "seconds_secure", "seconds_waiting"))
    pace = f"{cost['rounds']} rounds, {1e3 * fit / cost['rounds']:.1f} ms a round"
    print(f"{pace}, {fit:.1f} s a fit, {seconds:.1f} s a job")


if __name__ == "__main__":
    sys.exit(main())

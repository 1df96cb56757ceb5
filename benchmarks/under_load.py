"""Run the tests again and again next to processes that keep the processors busy; none may fail.

    python -m benchmarks.under_load --times 5 --busy 2
    python -m benchmarks.under_load --times 20 -- tests/network -n 4

Without arguments after `--`, pytest runs what `make test` runs. Prints for each run how many tests
passed and failed, the seconds, and the names of the tests that failed; exit code 1 if any did.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
AS_MAKE_TEST = ("-n", "auto", "--dist", "loadfile")


@dataclass(frozen=True)
class Run:
    """What came of one run of pytest."""

    passed: int
    failed: tuple[str, ...]
    code: int
    seconds: float

    def __str__(self) -> str:
        line = f"{self.passed} passed, {len(self.failed)} failed, {self.seconds:.0f} s"
        if self.code and not self.failed:
            line += f", and pytest ended with {self.code}"
        return "\n".join([line, *(f"  {name}" for name in self.failed)])


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """Let so many processes compute, without end."""
    running = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)
    ]
    try:
        yield
    finally:
        for one in running:
            one.kill()
            one.wait()


def run(arguments: Sequence[str]) -> Run:
    """Run pytest once."""
    environment = dict(os.environ, OPENBLAS_NUM_THREADS="1")
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", *arguments]
        start = time.monotonic()
        ended = subprocess.run(
            command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        seconds = time.monotonic() - start
        if ended.returncode:
            sys.stderr.buffer.write(ended.stdout)
            sys.stderr.flush()
        passed, failed = _read(report) if report.exists() else (0, ())
    return Run(passed, failed, ended.returncode, seconds)


def _read(report: Path) -> tuple[int, tuple[str, ...]]:
    """How many tests have passed, and the names of those that have failed."""
    passed, failed = 0, []
    for case in ElementTree.parse(report).iter("testcase"):
        found = {child.tag for child in case}
        if found & {"failure", "error"}:
            failed.append(f"{case.get('classname')}::{case.get('name')}")
        elif "skipped" not in found:
            passed += 1
    return passed, tuple(dict.fromkeys(failed))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--busy", type=int, default=2, help="processes next to the tests")
    parser.add_argument("pytest", nargs="*", help="arguments of pytest, after --")
    options = parser.parse_args(arguments)
    failed = 0
    with busy(options.busy):
        for number in range(options.times):
            one = run(options.pytest or AS_MAKE_TEST)
            print(f"run {number + 1} of {options.times}: {one}", flush=True)
            failed += one.code != 0
    print(f"{options.times - failed} of {options.times} runs without a failure")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

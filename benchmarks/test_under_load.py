"""`make test-under-load` with a few tests of its own: it counts them, and notices failures."""

from __future__ import annotations

import subprocess

import pytest

from benchmarks import under_load

pytestmark = pytest.mark.processes

GOOD = "def test_good(): pass\n"
BAD = "def test_bad(): assert False\n"
BROKEN = "import nothing_of_this_name\n"
SOMETIMES = """
import pathlib
def test_once_only():
    pathlib.Path(__file__ + ".seen").touch(exist_ok=False)
"""


def outcome(tmp_path, capfd, code: str, *options: str) -> tuple[int, str]:
    (tmp_path / "test_own.py").write_text(code, encoding="ascii")
    own = ["--", str(tmp_path / "test_own.py"), "-p", "no:cacheprovider"]
    return under_load.main(["--busy", "1", *options, *own]), capfd.readouterr().out


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (GOOD + BAD, "run 1 of 1: 1 passed, 1 failed, "),
        (BROKEN, "run 1 of 1: 0 passed, 1 failed, "),
        ("", "and pytest ended with 5"),
    ],
    ids=["failure", "no module", "no test"],
)
def test_a_failure_is_named(tmp_path, capfd, code, said):
    status, shown = outcome(tmp_path, capfd, code, "--times", "1")
    assert status == 1
    assert said in shown
    assert ("test_bad" in shown) == (code == GOOD + BAD)


def test_one_failure_in_several_runs_counts(tmp_path, capfd):
    code, shown = outcome(tmp_path, capfd, SOMETIMES, "--times", "2")
    assert code == 1
    assert "run 1 of 2: 1 passed, 0 failed, " in shown
    assert "1 of 2 runs without a failure" in shown


def test_without_a_failure_the_code_is_0(tmp_path, capfd):
    code, shown = outcome(tmp_path, capfd, GOOD, "--times", "1")
    assert code == 0
    assert "1 of 1 runs without a failure" in shown


def test_no_process_is_left(monkeypatch):
    started: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen

    def noted(command: list[str]) -> subprocess.Popen[bytes]:
        started.append(popen(command))
        return started[-1]

    def interrupted() -> None:
        with under_load.busy(2):
            assert [one.poll() for one in started] == [None, None]
            raise KeyboardInterrupt

    monkeypatch.setattr(subprocess, "Popen", noted)
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert None not in [one.poll() for one in started]

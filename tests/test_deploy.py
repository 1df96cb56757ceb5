"""The units of systemd and the containers of deploy/: commands that exist, and checks that work."""

from __future__ import annotations

import re
import shlex
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from securefedyj.cli.main import parsers
from securefedyj.network import local
from securefedyj.network.consortium import Feature
from tests.patience import wait_until

DEPLOY = Path(__file__).parents[1] / "deploy"
UNITS = sorted(DEPLOY.glob("*.service"))
MOST_EXPOSED = 30  # tenths


def settings(unit: Path, name: str) -> list[str]:
    text = unit.read_text(encoding="utf-8").replace("\\\n", " ")
    return re.findall(rf"^{name}=(.*)$", text, flags=re.M)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_starts_a_command_after_the_network(unit):
    (command,) = settings(unit, "ExecStart")
    program, *arguments = shlex.split(command)
    assert program.endswith("/bin/securefedyj")
    parsers()[0].parse_args(arguments)
    assert settings(unit, "Wants") == settings(unit, "After") == ["network-online.target"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_is_hardened(unit, tmp_path):
    there = tmp_path / unit.name
    there.write_text(unit.read_text().replace("/opt/securefedyj/bin/securefedyj", sys.executable))
    for check in (["verify"], ["security", "--offline=yes", f"--threshold={MOST_EXPOSED}"]):
        done = subprocess.run(
            ["systemd-analyze", *check, str(there)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert not done.stderr


def services() -> dict[str, Any]:
    yaml = pytest.importorskip("yaml")
    made: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    return made["services"]


def test_containers_can_neither_gain_rights_nor_write_elsewhere():
    for service in services().values():
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        parsers()[0].parse_args(service["command"])


@pytest.mark.processes
def test_health_checks_of_containers_see_the_hub_and_who_is_connected(tmp_path):
    """The commands of compose.yaml, in folders such as those that it mounts."""
    tables = dict.fromkeys(("north", "east", "south"), np.array([[1.0], [2.0], [4.0]]))
    consortium = local.prepare(tmp_path, tables, [Feature("lactate", 0.0, 40.0)])
    names = {"hub:7480": f"127.0.0.1:{local.free_port()}"}

    def here(words: list[str]) -> list[str]:
        text = "\0".join(words)
        for name, address in names.items():
            text = text.replace(name, address)
        return text.replace("$$", "$").split("\0")

    def healthy(name: str, party: str) -> bool:
        words = services()[name]["healthcheck"]["test"]
        assert words[:3] == ["CMD", "python", "-c"]
        run = [sys.executable, *here(words[2:])]
        done = subprocess.run(run, env={"PARTY": party}, stderr=subprocess.DEVNULL, check=False)
        return done.returncode == 0

    processes = []
    try:
        for name in ("hub", "north"):
            words = [sys.executable, "-m", "securefedyj", *here(services()[name]["command"])]
            if name == "hub":
                words.append(f"--listen={consortium.agreed_hub().address}")
            else:
                entries = {"consortium": "consortium.toml", "key": "north.key",
                           "certificate": "north.pem", "data": "north.csv",
                           "output": "result", "ledger": "ledger.jsonl"}  # fmt: skip
                lines = [f'{key} = "{value}"\n' for key, value in entries.items()]
                (tmp_path / "securefedyj.toml").write_text("".join(lines), encoding="utf-8")
            processes.append(subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.DEVNULL))
            wait_until(partial(healthy, name, name))
        assert healthy("hub", "hub")
        assert not healthy("east", "east")
        assert not healthy("north", ".*")
        processes[1].send_signal(signal.SIGTERM)
        wait_until(lambda: not healthy("north", "north"))
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert not healthy("hub", "hub")

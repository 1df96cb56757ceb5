"""Before a run: `check --connect` and `rehearse`, neither of which is a run."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from securefedyj.cli import rehearse
from securefedyj.cli.main import main
from securefedyj.network import local
from securefedyj.network.consortium import Consortium
from securefedyj.network.hub import consortia
from securefedyj.network.identity import Identity
from securefedyj.network.transport.framing import FrameType, HubFrame
from securefedyj.network.transport.link import Link, connect
from tests.joining.stage import Stage
from tests.network import harness
from tests.network.proxies import ConnectProxy
from tests.patience import PATIENCE
from tests.refusals import refused

ROWS = {"ana": harness.ROWS[:9], "bob": harness.ROWS[9:], "cem": None}


@pytest.fixture
def stage(tmp_path) -> Stage:
    return Stage(tmp_path, ROWS)


def typed(stage: Stage, *options: str, name: str = "ana") -> list[str]:
    own = str(stage.folder / name)
    return [str(stage.folder / "consortium.toml"), "--key", f"{own}.key", "--certificate",
            f"{own}.pem", *options]  # fmt: skip


def flat(text: str) -> str:
    return " ".join(text.split())


async def connected(stage: Stage, name: str) -> Link:
    own = Identity(stage.folder / f"{name}.key", stage.folder / f"{name}.pem")
    link = await connect(stage.consortium, name, own, PATIENCE)
    welcome = await link.receive_frame(PATIENCE)
    assert welcome is not None
    assert welcome.type == FrameType.WELCOME
    return link


async def next_frame(link: Link) -> HubFrame:
    link.post(HubFrame(FrameType.PING))
    frame = await link.receive_frame(PATIENCE)
    assert frame is not None
    return frame


@pytest.mark.processes
def test_who_looks_sees_who_is_there_and_is_not_seen(stage, capsys):
    async def look() -> None:
        links = [await connected(stage, "bob"), await connected(stage, "ana")]
        assert (await next_frame(links[0])).name == "ana"
        assert (await next_frame(links[0])).type == FrameType.PONG
        assert (await next_frame(links[1])).name == "bob"
        assert await asyncio.to_thread(main, ["check", *typed(stage, "--connect")]) == 0
        # Nobody was told, and our own connection stays.
        assert (await next_frame(links[0])).type == FrameType.PONG
        assert (await next_frame(links[1])).type == FrameType.PONG
        for link in links:
            await link.close(1.0)

    with stage.hub():
        asyncio.run(look())
    shown = flat(capsys.readouterr().out)
    assert "accepts ours as that of ana." in shown
    assert "There now: bob. Not there: cem." in shown


@pytest.mark.processes
def test_the_way_leads_through_a_proxy(stage, capsys):
    async def look(answer: bytes) -> int:
        async with ConnectProxy(answer) as proxy:
            typed_here = typed(stage, "--connect", "--proxy", proxy.url)
            return await asyncio.to_thread(main, ["check", *typed_here])

    with stage.hub():
        assert asyncio.run(look(b"")) == 0
    shown = flat(capsys.readouterr().out)
    assert f"The hub at {stage.consortium.hub.address} is reached through the proxy at" in shown
    assert asyncio.run(look(b"HTTP/1.1 403 Forbidden\r\n\r\n")) == 1
    assert "[SFY-NET-022]" in capsys.readouterr().err


@pytest.mark.processes
def test_a_clock_that_is_off_is_an_error(stage, capsys, monkeypatch):
    hub_time = type("clock", (), {"time": staticmethod(lambda: time.time() - 3600)})
    monkeypatch.setattr(consortia, "time", hub_time)
    with stage.hub():
        assert main(["check", *typed(stage, "--connect")]) == 1
    assert "3600 seconds behind ours: set both" in flat(capsys.readouterr().out)


def test_a_hub_that_cannot_be_reached_is_a_sentence_with_a_remedy(stage, capsys):
    assert main(["check", *typed(stage, "--connect")]) == 1
    error = capsys.readouterr().err
    assert "connection refused. Ask the operator" in error
    assert error.endswith(" [SFY-NET-014]\n")


def test_a_rehearsal_has_the_digest_of_no_file(stage):
    rehearsal = stage.consortium.rehearsal()
    assert rehearsal.digest() != stage.consortium.digest()
    named = stage.folder / "named.toml"
    text = (stage.folder / "consortium.toml").read_text()
    named.write_text(text.replace(f'"{stage.consortium.name}"', f'"{rehearsal.name}"', 1))
    assert Consortium.read(named).name == rehearsal.name
    assert Consortium.read(named).digest() != rehearsal.digest()
    named.write_text("rehearses = true\n" + text)
    with refused("SFY-CON-027", naming="rehearses"):
        Consortium.read(named)


def test_made_up_rows_are_within_the_bounds_and_enough(stage):
    consortium = stage.consortium
    rows = rehearse._made_up(consortium, 1)
    domain = consortium.agreement().domain
    assert len(rows) == max(consortium.minimum_values, 1)
    known = ~np.isnan(rows)
    assert np.all((rows >= domain.lower)[known])
    assert np.all((rows <= domain.upper)[known])


def test_a_rehearsal_needs_rows(stage, capsys):
    assert main(["rehearse", *typed(stage, "--rows", "0")]) == 1
    assert "[SFY-CLI-031]" in capsys.readouterr().err


@pytest.mark.processes
def test_three_parties_rehearse_and_nothing_is_left(stage, monkeypatch):
    folder, home = stage.folder, stage.folder / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    before = files(folder)
    with local.Processes(folder) as processes:
        processes.start_hub()
        for name in ROWS:
            options = typed(stage, "--rows", "40", "--wait", str(PATIENCE), name=name)
            processes.start(name, "-c", local._COMMAND, "rehearse", *options)
        assert processes.wait(PATIENCE) == dict.fromkeys(ROWS, 0)
        for name in ROWS:
            shown = flat(processes.log(name))
            assert f"run '{stage.consortium.name} (rehearsal)' with made-up rows" in shown
            assert "Rehearsed: all 3 parties have the same result of made-up rows" in shown
    logs = {folder / f"{name}.log" for name in (*ROWS, "hub")}
    assert files(folder) - before == logs


def files(folder: Path) -> set[Any]:
    return {path for path in folder.rglob("*") if path.is_file()}


@pytest.mark.processes
def test_the_hub_opens_a_rehearsal_of_what_it_serves_and_of_nothing_else(stage):
    served = consortia.Served(
        [stage.consortium], Identity(stage.folder / "hub.key", stage.folder / "hub.pem")
    )
    name = stage.consortium.name
    room = served._room(f"{name} (rehearsal)")
    assert room.consortium.digest() == stage.consortium.rehearsal().digest()
    assert served._room(f"{name} (rehearsal)") is room
    assert served._room(f"{name} (rehearsal) (rehearsal)") is None
    assert served._room("other (rehearsal)") is None
    served.update([stage.consortium])
    assert served.rooms.keys() == {name, f"{name} (rehearsal)"}
    served.update([])
    assert served.rooms == {}

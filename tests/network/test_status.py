"""The hub's page and metrics: who is there, and nothing that could do harm."""

from __future__ import annotations

import asyncio
import html
import re
import shutil
import socket
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from securefedyj.network.hub import status as status_module
from securefedyj.network.hub.consortia import PartyStatus
from securefedyj.network.hub.status import StatusServer, metrics, page
from securefedyj.network.transport.framing import FrameType, HubFrame
from tests.network import clock
from tests.network.harness import Loopback
from tests.network.test_hub import joined, with_hub
from tests.patience import PATIENCE

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)
NASTY = 'a"b\\c<script>alert(1)</script>&\n'


def room(name: str, mail: Any = None, **status: PartyStatus) -> Any:
    return SimpleNamespace(consortium=SimpleNamespace(name=name), status=status, mail=mail)


ROOMS = [
    room(
        "sepsis",
        north=PartyStatus(1, 12, 2, 3_456_789, 1_700_000_000.25, 1_700_000_060.0),
        south=PartyStatus(),
    ),
    room(NASTY, **{"x" * 64: PartyStatus(0, 1, 0, 2, 1_700_000_100.0)}),
]
NOW = 1_700_000_120.0

# https://prometheus.io/docs/instrumenting/exposition_formats/
LABEL = r'[a-zA-Z_]\w*="(?:[^"\\\n]|\\[\\"n])*"'
SAMPLE = re.compile(rf"([a-zA-Z_:][\w:]*)\{{({LABEL}(?:,{LABEL})*)\}} (-?\d+(?:\.\d+)?)")


def samples(text: str) -> dict[str, float]:
    """What Prometheus would read; each line must be of its format, each metric in one piece."""
    assert text.endswith("\n")
    found: dict[str, float] = {}
    types: dict[str, str] = {}
    current = ""
    for line in text.removesuffix("\n").split("\n"):
        if line.startswith("# HELP "):
            current = line.split(" ")[2]
            assert current not in types
            continue
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name == current
            assert kind == ("counter" if name.endswith("_total") else "gauge")
            types[name] = kind
            continue
        sample = SAMPLE.fullmatch(line)
        assert sample is not None, line
        assert sample[1] == current
        key = f"{sample[1]}{{{sample[2]}}}"
        assert key not in found
        found[key] = float(sample[3])
    return found


def test_metrics_have_the_form_of_prometheus():
    found = samples(metrics(ROOMS))
    north = '{consortium="sepsis",party="north"}'
    assert found[f"securefedyj_hub_party_connected{north}"] == 1
    assert found[f"securefedyj_hub_party_connected_since_seconds{north}"] == 1_700_000_000.25
    assert found[f"securefedyj_hub_party_received_bytes_total{north}"] == 12
    assert found[f"securefedyj_hub_party_sent_bytes_total{north}"] == 3_456_789
    assert found[f"securefedyj_hub_party_last_activity_seconds{north}"] == 1_700_000_060
    south = [key for key in found if "south" in key]
    assert len(south) == 3  # who is not there has no time
    assert any(r'consortium="a\"b\\c<script>alert(1)</script>&\n"' in key for key in found)
    assert samples(metrics([])) == {}


def test_the_page_shows_names_as_names():
    text = page(ROOMS, NOW)
    assert "<script" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;&amp;" in text
    assert "1 of 2 parties connected" in text
    assert "2023-11-14 22:13:20 (2\xa0min\xa0ago)" in text
    assert "3,456,789" in text
    assert "The hub serves no consortium." in page([], NOW)


def test_the_page_and_the_metrics_show_who_has_submitted():
    status = {"north": PartyStatus(submitted=1_700_000_000.0), "south": PartyStatus()}
    mail = SimpleNamespace(finished=False, missing=("south",))
    text = page([room("sepsis", mail, **status)], NOW)
    assert "Submitted: north 2023-11-14 22:13:20 (2\xa0min\xa0ago)." in text
    assert "Missing: south." in text
    mail.missing = ()
    assert "None is missing." in page([room("sepsis", mail, **status)], NOW)
    mail.finished = True
    assert "All members have sent their results." in page([room("sepsis", mail, **status)], NOW)
    assert "Submitted" not in page(ROOMS, NOW)
    found = samples(metrics([room("sepsis", mail, **status)]))
    times = {key: value for key, value in found.items() if "submitted" in key}
    assert times == {
        'securefedyj_hub_party_submitted_seconds{consortium="sepsis",party="north"}': 1.7e9
    }


def ask(port: int, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as line:
        line.sendall(request)
        answer = b""
        while data := line.recv(1 << 16):
            answer += data
    return answer


def answers(*requests: bytes) -> list[bytes]:
    async def run() -> list[bytes]:
        served = StatusServer(lambda: [])
        port = await served.start("127.0.0.1", 0)
        found = [await asyncio.to_thread(ask, port, request) for request in requests]
        await served.stop()
        return found

    return clock.run(run())


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (b"GET / HTTP/1.1\r\nHost: 127.0.0.1:7480\r\n\r\n", 200),
        (b"GET /?x=1 HTTP/1.0\r\n\r\n", 200),
        (b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n", 200),
        (b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n", 200),
        (b"GET / HTTP/1.1\r\nHost: [::1]:7480\r\n\r\n", 200),
        (b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421),
        (b"GET /etc/passwd HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 404),
        (b"GET /../key HTTP/1.1\r\n\r\n", 404),
        (b"POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", 405),
        (b"DELETE / HTTP/1.1\r\n\r\n", 405),
        (b"nonsense\r\n\r\n", 400),
        (b"GET http://a/ HTTP/1.1\r\n\r\n", 400),
        (b"\x16\x03\x01\r\n\r\n", 400),
    ],
)
def test_three_pages_are_read_and_nothing_else(request_, code):
    (answer,) = answers(request_)
    assert answer.startswith(f"HTTP/1.1 {code} ".encode())
    head, _, body = answer.partition(b"\r\n\r\n")
    assert f"Content-Length: {len(body)}".encode() in head
    assert b"Content-Security-Policy: default-src 'none'; style-src 'sha256-" in head
    assert b"frame-ancestors 'none'" in head
    assert b"nosniff" in head
    assert (b"Allow: GET, HEAD" in head) == (code == 405)


def test_a_head_is_that_of_the_page():
    get, head = answers(b"GET /metrics HTTP/1.1\r\n\r\n", b"HEAD /metrics HTTP/1.1\r\n\r\n")
    assert get.startswith(head)
    assert head.endswith(b"\r\n\r\n")
    assert b"Content-Type: text/plain; version=0.0.4; charset=utf-8" in head


def test_health_is_told_in_one_word():
    (answer,) = answers(b"GET /healthz HTTP/1.1\r\n\r\n")
    assert answer.endswith(b"\r\n\r\nok\n")


def test_a_request_without_end_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(status_module, "REQUEST_SECONDS", 0.05)
    slow, long = answers(b"GET / HT", b"GET / HTTP/1.1\r\nX: " + b"x" * 100_000)
    assert slow == b""
    assert long.startswith(b"HTTP/1.1 400 ")


def test_who_asks_never_waits_for_idle_connections(monkeypatch):
    """A few that say nothing would keep everybody from the page, for as long as they come back."""
    monkeypatch.setattr(status_module, "MOST_AT_ONCE", 2)

    async def run() -> list[bytes]:
        served = StatusServer(lambda: [])
        port = await served.start("127.0.0.1", 0)
        lines = [await asyncio.open_connection("127.0.0.1", port) for _ in range(5)]
        lines[4][1].write(b"GET / HTTP/1.1\r\n\r\n")
        answered = await lines[4][0].read()
        ends = await asyncio.gather(
            *(reader.read() for reader, _ in lines[:3]), return_exceptions=True
        )
        lines[3][1].write(b"GET / HTTP/1.1\r\n\r\n")  # there is room for one more
        answered_too = await lines[3][0].read()
        for _, writer in lines:
            writer.close()
        await served.stop()
        assert all(end == b"" or isinstance(end, ConnectionError) for end in ends)
        return [answered, answered_too]

    for answer in clock.run(run()):
        assert answer.startswith(b"HTTP/1.1 200 OK")


@pytest.mark.processes
def test_the_page_follows_who_comes_and_goes(tmp_path):
    async def scenario(net: Loopback) -> None:
        assert net.hub is not None
        hub = net.hub

        (room,) = hub.served.rooms.values()

        def now() -> dict[str, PartyStatus]:
            return room.status

        assert all(party.since is None for party in now().values())
        ana, bob = await joined(net, "ana"), await joined(net, "bob")
        assert (await ana.receive()).type == FrameType.WELCOME
        present = await ana.receive()
        assert now()["ana"].since is not None
        assert now()["ana"].active is None
        ana.send(HubFrame(FrameType.DATA, "bob", present.connection, b"sealed" * 100))
        while (frame := await bob.receive()).type != FrameType.DATA:
            pass
        assert now()["ana"].bytes_received == 600
        assert now()["ana"].active is not None
        assert now()["bob"].bytes_sent == 600
        ana.writer.close()
        while (frame := await bob.receive()).type != FrameType.LEFT:
            pass
        assert frame.name == "ana"
        assert now()["ana"].since is None
        assert now()["ana"].bytes_received == 600  # a counter does not go back

    with_hub(tmp_path, scenario)


browser = pytest.mark.skipif(not CHROMIUM, reason="there is no Chromium")
MEASURE = """<!DOCTYPE html><body>{frames}<script>
onload = () => document.querySelectorAll("iframe").forEach((frame) => {{
  const page = frame.contentDocument.documentElement;
  frame.replaceWith(`${{frame.width}}:${{page.scrollWidth}}:${{page.clientWidth}};`);
}});
</script></body>"""


async def chromium(folder: Path, *arguments: str) -> tuple[str, str]:
    process = await asyncio.create_subprocess_exec(
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
        f"--user-data-dir={folder / 'profile'}", *arguments,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    output, errors = await process.communicate()
    return output.decode(), errors.decode(errors="replace")


@browser
@pytest.mark.processes
def test_a_browser_shows_the_page_without_a_word_on_its_console(tmp_path):
    """By the real server, since what the page may do is in its headers."""

    async def run() -> tuple[str, str]:
        served = StatusServer(lambda: ROOMS)
        port = await served.start("127.0.0.1", 0)
        found = await chromium(tmp_path, "--dump-dom", f"http://127.0.0.1:{port}/")
        await served.stop()
        return found

    shown, log = clock.run(run())
    assert "1 of 2 parties connected" in shown
    assert "CONSOLE" not in log


@browser
@pytest.mark.processes
def test_the_page_fits_a_desk_and_a_telephone(tmp_path):
    widths = (1280, 390)
    frames = "".join(
        f'<iframe width="{width}" height="800" srcdoc="{html.escape(page(ROOMS, NOW))}"></iframe>'
        for width in widths
    )
    file = tmp_path / "measure.html"
    file.write_text(MEASURE.format(frames=frames), encoding="utf-8")
    shown, _ = clock.run(chromium(tmp_path, "--dump-dom", file.as_uri()))
    found = re.findall(r"(\d+):(\d+):(\d+);", shown)
    assert [int(width) for width, _, _ in found] == [*widths]
    for _, content, room in found:
        assert int(content) <= int(room)

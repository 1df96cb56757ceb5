"""The pages of `securefedyj desk`: who can use them, and what they show before a run."""

from __future__ import annotations

import contextlib
import http.client
import re
import signal
import socket
import threading
import webbrowser
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode

import numpy as np
import pytest

from securefedyj.cli import desk_pages
from securefedyj.cli.desk_pages import Desk
from securefedyj.cli.local_site import MOST_POSTED, LocalSite
from securefedyj.cli.main import main
from securefedyj.network import local
from securefedyj.network.consortium import Feature
from tests.patience import PATIENCE, wait_until

ROWS = np.random.default_rng(3).lognormal(size=(90, 2))
FEATURES = [Feature("lactate", 0.0, 1000.0), Feature("age", 0.0, 1000.0)]
EVIL = "<script>alert(1)</script>"


class Reply(NamedTuple):
    status: int
    text: str
    headers: http.client.HTTPMessage


class Person:
    """Somebody with a browser, who knows the address; or with it a page of another site."""

    def __init__(self, site: LocalSite) -> None:
        self.site = site
        self.origin = f"http://{site.names[0]}"

    def get(self, page: str = "", **headers: str) -> Reply:
        return self.send("GET", page, b"", headers)

    def post(self, page: str, headers: dict[str, str] | None = None, /, **fields: str) -> Reply:
        sent = {"Origin": self.origin} if headers is None else headers
        return self.send("POST", page, urlencode(fields).encode(), sent)

    def send(self, method: str, page: str, body: bytes, headers: dict[str, str]) -> Reply:
        path = page if page.startswith("/") else f"/{self.site.token}/{page}"
        port = self.site.server_address[1]
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        with contextlib.closing(connection):
            connection.request(method, path, body, {"Host": self.site.names[0], **headers})
            reply = connection.getresponse()
            return Reply(reply.status, reply.read().decode(), reply.headers)

    def watch(self) -> str:
        """The page about the work, once that has ended."""
        wait_until(lambda: 'http-equiv="refresh"' not in self.get("work").text)
        return self.get("work").text


@pytest.fixture
def desk(tmp_path, monkeypatch) -> Desk:
    monkeypatch.chdir(tmp_path)
    return Desk()


@pytest.fixture
def person(desk) -> Iterator[Person]:
    with LocalSite(desk.answer) as site:
        thread = threading.Thread(target=site.serve_forever, args=(0.01,))
        thread.start()
        yield Person(site)
        site.shutdown()
        thread.join(PATIENCE)


@pytest.fixture
def chosen(tmp_path) -> dict[str, str]:
    """The files of a silo."""
    tables = {"north": ROWS[:30], "east": ROWS[30:], "helper": None}
    local.prepare(tmp_path, tables, FEATURES, name="sepsis")
    files = {"consortium": "consortium.toml", "data": "north.csv", "certificate": "north.pem",
             "key": "north.key", "output": "result", "ledger": "ledger.jsonl"}  # fmt: skip
    return {name: str(tmp_path / file) for name, file in files.items()}


# Who can use them


@pytest.mark.parametrize(
    "host", ["evil.example.org", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example.org", ""]
)
def test_a_name_of_another_site_that_leads_here_shows_nothing(person, host):
    """DNS rebinding: the browser believes that this server belongs to the other site."""
    assert person.get().status == 200
    for reply in (person.get(Host=host), person.post("check", {"Host": host})):
        assert reply.status == 421
        assert "<" not in reply.text


@pytest.mark.parametrize("path", ["/", "//", "/style", "/x/", "/{}x/", "/{short}/", "/x/{}/", "*"])
def test_without_the_secret_path_there_is_nothing(person, path):
    token = person.site.token
    assert len(token) >= 43  # 256 bits
    reply = person.get(path.format(token, short=token[:-1]) if path != "*" else "/*")
    assert (reply.status, "<" in reply.text) == (404, False)


@pytest.mark.parametrize(
    "origin", [None, "null", "http://evil.example.org", "http://127.0.0.1:1", "https://{}", "{}"]
)
def test_a_form_of_another_page_does_nothing(person, chosen, origin):
    """Even if the other page has learned the address."""
    headers = {} if origin is None else {"Origin": origin.format(person.site.names[0])}
    assert person.post("check", headers, **chosen).status == 403
    assert person.get("work").status == 303  # there is no work, and so nothing to see
    assert "sepsis" not in person.get().text


@pytest.mark.parametrize("page", ["check", "start", "stop", "pick"])
def test_a_link_does_nothing(person, page, chosen):
    assert person.get(f"{page}?{urlencode(chosen)}").status == 404
    assert person.get("work").status == 303


@pytest.mark.parametrize(
    "page", ["__init__", "../work", "answer", "style/x", "%2e%2e/work", "Work"]
)
def test_there_are_no_other_pages(person, page):
    assert person.get(page).status == 404


def test_every_answer_keeps_other_sites_and_scripts_out(person):
    for page in ("", "work", "nothing", "style", "folder?field=data"):
        headers = person.get(page).headers
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "script-src" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["Cache-Control"] == "no-store"
        assert headers["Referrer-Policy"] == "same-origin"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert "Access-Control-Allow-Origin" not in headers


def test_it_listens_on_this_machine_alone(person):
    assert person.site.server_address[0] == "127.0.0.1"


def test_too_large_a_form_is_refused_before_it_is_read(person):
    large = {"Origin": person.origin, "Content-Length": str(MOST_POSTED + 1)}
    assert person.send("POST", "check", b"", large).status == 413
    for size in ("-1", "x", "9" * 30, ""):
        assert person.send("POST", "check", b"", large | {"Content-Length": size}).status == 413
    many = "&".join(f"f{j}=1" for j in range(2000)).encode()
    assert person.send("POST", "check", many, {"Origin": person.origin}).status == 200


def test_neither_a_silent_nor_a_wild_client_is_in_the_way_of_others(person):
    with socket.create_connection(person.site.server_address) as silent:
        assert person.get().status == 200
        silent.sendall(b"\x00\xff" * 10_000)
        assert person.get().status == 200


def test_the_browser_is_started_without_the_secret_in_its_arguments(tmp_path, monkeypatch, capsys):
    """Every user of a machine sees the arguments of all programs."""
    opened: list[tuple[str, str, int]] = []

    def browse(address: str) -> None:
        path = Path(address.removeprefix("file://"))
        mode = path.parent.stat().st_mode
        opened.append((address, path.read_text(encoding="utf-8"), mode & 0o077))

    def no_more(site: LocalSite) -> None:
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(webbrowser, "open", browse)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(LocalSite, "serve_forever", no_more)
    assert main(["desk"]) == 130
    ((address, text, others),) = opened
    url = re.findall(r"http://127\.0\.0\.1:\d+/\S+/", capsys.readouterr().out)[0]
    token = url.split("/")[3]
    assert token in text
    assert token not in address
    assert others == 0
    assert main(["desk", "--no-browser"]) == 130
    assert len(opened) == 1
    assert token not in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


# What they show


def test_a_table_is_checked_before_anything_can_start(person, chosen, capsys):
    assert person.post("start", what="join").status == 303
    assert person.get("work").status == 303
    assert person.post("check", **chosen).headers["Location"].endswith("/work")
    page = unescape(person.watch())
    assert "You are" in page
    assert "north (silo)" in page
    assert "30 rows" in page
    assert "Any two of north, east and helper" in page
    assert re.search(r"About \d+ s and at most \d+\.\d MB", page)
    assert 'value="join"' in page
    # The same sentences as the command's.
    main(["check", chosen["consortium"], "--data", chosen["data"], "--ledger", chosen["ledger"]])
    printed = " ".join(capsys.readouterr().out.split())
    sentences = re.findall(r"<li class=\"[^\"]*\">(.*?)</li>", page)
    assert sentences
    assert all(sentence in printed for sentence in sentences)


def test_a_table_that_does_not_fit_cannot_start(person, chosen, tmp_path):
    (tmp_path / "north.csv").write_text(f"lactate,{EVIL}\n1,2\n{EVIL},3\n")
    person.post("check", **chosen)
    page = person.watch()
    assert "stops a run" in page
    assert 'value="join"' not in page
    assert EVIL not in page
    assert EVIL in unescape(page)
    assert person.post("start", what="join").status == 303
    assert 'http-equiv="refresh"' not in person.get("work").text


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("consortium", "nothing.toml", "SFY-OS-ENOENT"),
        ("certificate", "hub.pem", "SFY-CON"),
        ("data", "", "SFY-JOIN-004"),
        ("key", "", "SFY-CLI-041"),
        ("own_minimum", "many", "SFY-CLI-042"),
        ("own_minimum", "-1", "SFY-CLI-042"),
        ("columns", "age", "SFY-CLI-002"),
        ("decimal", "point", "SFY"),
        ("data", EVIL, "SFY-OS-ENOENT"),
    ],
)
def test_what_is_wrong_is_said_with_its_code_and_stays_in_the_form(
    person, chosen, field, value, code
):
    reply = person.post("check", **chosen | {field: value})
    page = reply.text if reply.status == 200 else person.watch()
    assert re.search(rf'role="alert"><p>[^<]*\[{code}', page)
    assert EVIL not in page
    form = unescape(person.get().text)
    assert f'name="{field}" value="{value}"' in form or f">{value}</textarea>" in form


def test_files_are_chosen_and_fill_in_what_stands_beside_them(person, chosen, tmp_path):
    (tmp_path / f"{EVIL[:-9]}.csv").touch()
    (tmp_path / ".hidden.csv").touch()
    (tmp_path / "more").mkdir()
    person.post("folder", field="data")
    page = person.get("folder?field=data").text
    assert 'value="{}"'.format(tmp_path / "north.csv") in page
    assert "north.key" not in page
    assert ".hidden" not in page
    assert EVIL[:8] not in page
    assert "more/" in page
    (tmp_path / "securefedyj.toml").write_text('own_minimum = 7\nmissing = ["?", "-9"]\n')
    for field in ("consortium", "data", "key"):
        back = person.post("pick", field=field, path=chosen[field]).headers["Location"]
        assert back == f"/{person.site.token}/"
    form = unescape(person.get().text)
    assert f'value="{chosen["certificate"]}"' in form
    assert f'value="{tmp_path / "consortium-result"}"' in form
    assert 'name="own_minimum" value="7"' in form
    assert ">?\n-9</textarea>" in form
    (tmp_path / ".keys").mkdir()
    assert ".keys/" in person.get("folder?field=key").text
    assert ".keys/" not in person.get("folder?field=data").text
    person.post("check", ledger=chosen["ledger"])
    assert "north (silo)" in person.watch()


def test_a_typed_path_may_begin_at_home(person, chosen, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    person.post("check", **chosen | {"data": "~/north.csv"})
    assert "30 rows" in person.watch()


def test_the_report_belongs_to_no_site(person, chosen, tmp_path):
    """It has a script; if somebody has changed it, that must not reach these pages."""
    person.post("check", **chosen)
    person.watch()
    (tmp_path / "result").mkdir()
    (tmp_path / "result" / "report.html").write_text(EVIL)
    report = person.get("report")
    assert report.text == EVIL
    policy = report.headers["Content-Security-Policy"].split("; ")
    assert {"sandbox allow-scripts", "default-src 'none'"} < set(policy)


def test_a_folder_that_cannot_be_read_is_said(person, tmp_path):
    assert "[SFY-OS-ENOENT]" in person.get(f"folder?field=data&folder={tmp_path}/none").text
    assert person.get("folder?field=timeout").status == 303
    assert person.get("report").status == 404


def test_two_works_are_never_under_way(person, chosen, monkeypatch):
    gate, begun = threading.Event(), []

    def examined(options):
        begun.append(options)
        gate.wait(PATIENCE)
        raise ValueError("No.")

    monkeypatch.setattr(desk_pages, "examined_before", examined)
    for _ in range(3):
        person.post("check", **chosen)
    gate.set()
    assert "No." in person.watch()
    assert len(begun) == 1


def test_a_run_is_left_before_the_desk_ends(person, desk, chosen, monkeypatch):
    left = []

    def take_part(ready, what, job):
        wait_until(lambda: job.stopping)
        left.append(what)

    monkeypatch.setattr(desk_pages, "take_part", take_part)
    person.post("check", **chosen)
    person.watch()
    person.post("start", what="join")
    desk.end()
    assert left == ["join"]

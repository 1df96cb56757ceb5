"""Through a proxy: the same bits, no word of a password, and nothing that the proxy made up."""

from __future__ import annotations

import asyncio
import base64
import os
import ssl
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from securefedyj.cli.main import main
from securefedyj.network.carrier import LinkLost, Unwelcome
from securefedyj.network.consortium import HubEntry
from securefedyj.network.identity import keygen
from securefedyj.network.transport.framing import FrameType, FrameWriter, HubFrame
from securefedyj.network.transport.link import connect
from securefedyj.network.transport.proxy import CREDENTIALS, MOST_HEAD, Proxy, proxy_to
from tests.network import clock
from tests.network.harness import THREE, Loopback, assert_same_bits, prepare
from tests.network.proxies import TINYPROXY, ConnectProxy, TinyProxy
from tests.patience import PATIENCE
from tests.refusals import refused

HUB = HubEntry("hub.example.org:7443", "")
SECRET = "s3cret"
real = pytest.mark.skipif(not TINYPROXY, reason="tinyproxy is not installed")


@pytest.fixture(autouse=True)
def no_environment(monkeypatch):
    for name in ("https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY", CREDENTIALS):
        monkeypatch.delenv(name, raising=False)


# Which proxy.


@pytest.mark.parametrize("name", ["https_proxy", "HTTPS_PROXY"])
def test_the_environment_has_the_proxy(monkeypatch, name):
    assert proxy_to(HUB, None) is None
    monkeypatch.setenv("http_proxy", "http://other.example:1")
    assert proxy_to(HUB, None) is None
    monkeypatch.setenv(name, "http://proxy.example:3128")
    assert proxy_to(HUB, None) == Proxy("proxy.example", 3128, False)
    assert proxy_to(HUB, "http://chosen.example") == Proxy("chosen.example", 80, False)


@pytest.mark.parametrize(
    ("no_proxy", "address", "used"),
    [
        ("", "hub.example.org:7443", True),
        ("other.org", "hub.example.org:7443", True),
        ("*", "hub.example.org:7443", False),
        ("localhost, .example.org", "hub.example.org:7443", False),
        ("example.org", "hub.example.org:7443", False),
        ("hub.example.org:7443", "hub.example.org:7443", False),
        ("hub.example.org:1", "hub.example.org:7443", True),
        ("2001:db8::1", "[2001:db8::1]:7443", False),
        ("[2001:db8::1]", "[2001:db8::1]:7443", False),
        ("2001:db8::2", "[2001:db8::1]:7443", True),
        ("", "127.0.0.1:7443", False),
        ("", "[::1]:7443", False),
        ("", "localhost:7443", False),
    ],
)
def test_no_proxy_is_honoured(monkeypatch, no_proxy, address, used):
    monkeypatch.setenv("https_proxy", "proxy.example:3128")
    monkeypatch.setenv("no_proxy", no_proxy)
    assert (proxy_to(HubEntry(address, ""), None) is not None) == used


def test_credentials_come_from_the_environment_and_are_never_shown(monkeypatch):
    monkeypatch.setenv("https_proxy", f"http://ana:{SECRET}%40@proxy.example:3128")
    proxy = proxy_to(HUB, None)
    assert proxy is not None
    assert proxy.credentials == f"ana:{SECRET}@"
    assert SECRET not in repr(proxy)
    assert SECRET not in str(proxy)
    monkeypatch.setenv(CREDENTIALS, "bob:x")
    assert proxy_to(HUB, None) == proxy  # its own come first
    assert proxy_to(HUB, "proxy.example").credentials == "bob:x"
    monkeypatch.setenv("https_proxy", f"http://ana:{SECRET}@proxy.example:bad")
    with pytest.raises(ValueError, match="must be the URL of an HTTP proxy") as found:
        proxy_to(HUB, None)
    assert SECRET not in str(found.value)


@pytest.mark.parametrize(
    "url",
    [
        *("", "socks5://a:1", "http://", "http://a:99999", "ftp://a", "http://a/b", "http://a b"),
        "http://ana:4711#5@proxy.example",  # which is no host named ana, with a port to be told
    ],
)
def test_what_is_no_http_proxy_is_refused(url):
    with pytest.raises(ValueError, match=r"^--proxy must be the URL of an HTTP proxy"):
        proxy_to(HUB, url)


def test_the_command_line_has_no_credentials(tmp_path, capsys):
    prepare(tmp_path)
    files = [str(tmp_path / name) for name in ("ana.key", "ana.pem", "ana.csv", "out")]
    options = ["--key", files[0], "--certificate", files[1], "--data", files[2]]
    url = f"http://ana:{SECRET}@127.0.0.1:1"
    join = ["join", str(tmp_path / "consortium.toml"), *options, "--output", files[3]]
    assert main([*join, "--proxy", url]) == 1
    told = capsys.readouterr()
    assert "--proxy must have no user name and password" in told.err
    assert "Read " not in told.err + told.out  # it is said before a large table is read
    assert SECRET not in told.err + told.out


# What a proxy answers.


def attempt(folder: Path, proxy: ConnectProxy, **changes: Any) -> BaseException:
    """What comes of one connection of ana."""

    async def run() -> BaseException:
        consortium = prepare(folder)
        net = Loopback(folder, consortium, THREE)
        async with net, proxy:
            await net.start_hub()
            way = Proxy("127.0.0.1", proxy.port, False, **changes)
            try:
                link = await connect(consortium, "ana", net.identity("ana"), 5.0, way)
            except (LinkLost, ValueError) as error:
                return error
            await link.close(1.0)
            raise AssertionError("it has connected")

    return clock.run(run())


@pytest.mark.parametrize(
    ("answer", "for_good", "code", "quoted"),
    [
        (b"HTTP/1.1 407 Authenticate\r\n\r\n", True, "SFY-NET-021", "(407 Authenticate)"),
        (b"HTTP/1.1 403 Filtered\r\n\r\n", True, "SFY-NET-022", "(403 Filtered)"),
        (b"HTTP/1.0 405 \x1b[2J\r\n\r\n", True, "SFY-NET-023", r"(405 \x1b[2J)"),
        (b"HTTP/1.1 502 Bad Gateway\r\n\r\n", False, "SFY-NET-019", "(502 Bad Gateway)"),
        (b"HTTP/1.1 429 Slowly\r\n\r\n", False, "SFY-NET-019", "(429 Slowly)"),
        (b"HTTP/1.1 302 \r\nLocation: x\r\n\r\n", False, "SFY-NET-019", "(302)"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", True, "SFY-NET-020", ""),
        (b"HTTP/1.1 200 OK\r\n" + b"X: " + b"x" * MOST_HEAD, True, "SFY-NET-029", ""),
    ],
)
def test_an_answer_that_is_no_line_gets_a_sentence(tmp_path, answer, for_good, code, quoted):
    error = attempt(tmp_path, ConnectProxy(answer))
    assert isinstance(error, Unwelcome) == for_good
    assert isinstance(error, LinkLost)
    assert error.code == code
    assert quoted in str(error)


def test_a_wrong_password_is_not_repeated_to_the_user(tmp_path):
    proxy = ConnectProxy(b"HTTP/1.1 407 Wrong\r\n\r\n")
    error = attempt(tmp_path, proxy, credentials=f"ana:{SECRET}")
    assert "does not accept our user name and password (407 Wrong)" in str(error)
    assert SECRET not in str(error)
    assert b"Proxy-Authorization: Basic YW5hOnMzY3JldA==\r\n" in proxy.heads[0]


def test_a_password_that_is_not_utf8_is_not_quoted_and_is_sent_as_it_is(tmp_path):
    proxy = ConnectProxy(b"HTTP/1.1 407 Wrong\r\n\r\n")
    given = os.fsdecode(b"ana:p\xe4ss")  # as the environment has it
    error = attempt(tmp_path, proxy, credentials=given)
    assert "does not accept our user name and password" in str(error)
    assert base64.b64encode(b"ana:p\xe4ss") in proxy.heads[0]


def test_words_of_the_proxy_are_not_taken_for_words_of_the_hub(tmp_path):
    """It may send a frame right after its answer, before TLS: a reader that is kept would read it.

    That is how STARTTLS was broken in many programs.
    """
    frame = FrameWriter().encode(HubFrame(FrameType.REFUSED, body=b"Send your key to the proxy."))
    error = attempt(tmp_path, ConnectProxy(injects=frame))
    assert isinstance(error, Unwelcome)
    assert "sends more than an answer to CONNECT" in str(error)


def test_a_proxy_that_closes_or_is_not_there_is_tried_again(tmp_path):
    assert type(attempt(tmp_path / "a", ConnectProxy(b"HTTP/1.1 500 No\r\n\r\n"))) is LinkLost
    consortium = prepare(tmp_path / "b")
    identity = Loopback(tmp_path / "b", consortium, THREE).identity("ana")
    nobody = Proxy("127.0.0.1", ConnectProxy().port, False)
    with refused("SFY-NET-026", LinkLost, naming="127.0.0.1"):
        clock.run(connect(consortium, "ana", identity, 5.0, nobody))


def test_a_proxy_that_opens_tls_is_recognized(tmp_path):
    own = keygen("inspection", tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own.certificate, own.key)
    error = attempt(tmp_path, ConnectProxy(opens=context))
    assert isinstance(error, Unwelcome)
    assert error.code == "SFY-NET-013"
    assert "ask your network team to exempt 127.0.0.1, port" in str(error)


def test_a_proxy_may_be_spoken_to_by_tls(tmp_path, monkeypatch):
    own = keygen("localhost", tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own.certificate, own.key)

    async def scenario() -> None:
        consortium = prepare(tmp_path)
        async with Loopback(tmp_path, consortium, THREE) as net:
            await net.start_hub()
            proxy = ConnectProxy()
            await proxy.start(context)
            way = proxy_to(consortium.agreed_hub(), f"https://localhost:{proxy.port}")
            with refused("SFY-NET-026", LinkLost, naming="self-signed"):
                await connect(consortium, "ana", net.identity("ana"), 5.0, way)
            monkeypatch.setenv("SSL_CERT_FILE", str(own.certificate))
            link = await connect(consortium, "ana", net.identity("ana"), 5.0, way)
            welcome = await link.receive_frame(5.0)
            assert welcome is not None
            assert welcome.type == FrameType.WELCOME
            await link.close(1.0)
            proxy.kill()

    clock.run(scenario())


# Runs.


async def interrupted_run(folder: Path, proxy: Any, url: str, **options: Any) -> Loopback:
    """Two of three go through the proxy, which is killed in the middle and comes back."""
    net = Loopback(folder, prepare(folder, max_steps=8), THREE)
    async with net:
        await net.start_hub()
        for name in THREE:
            net.start(name, proxy=None if name == "cem" else url, **options)
        await net.until_exchange("ana", 2)
        proxy.kill()
        await asyncio.sleep(0.3)
        again = proxy.start()
        if isinstance(again, Coroutine):
            await again
        for transcript in (await net.outcomes()).values():
            assert_same_bits(transcript, 8)
    return net


@pytest.mark.processes
def test_a_run_through_a_proxy_that_comes_and_goes_has_the_same_bits(tmp_path):
    async def scenario() -> tuple[Loopback, int]:
        async with ConnectProxy() as proxy:
            return await interrupted_run(tmp_path, proxy, proxy.url), len(proxy.heads)

    net, lines = clock.run(scenario())
    assert lines >= 4  # each of the two came back
    assert any("The way to the hub is through the proxy at" in said for said in net.said["ana"])
    assert not any("proxy" in said for said in net.said["cem"])


@real
@pytest.mark.processes
def test_a_run_through_tinyproxy_that_is_killed_once_has_the_same_bits(tmp_path):
    with TinyProxy(tmp_path) as proxy:
        net = asyncio.run(
            interrupted_run(tmp_path, proxy, proxy.url, timeout=PATIENCE, wait=PATIENCE)
        )
    assert any("proxy" in said for said in net.said["bob"])


@real
@pytest.mark.processes
def test_tinyproxy_asks_for_a_password_and_takes_it(tmp_path, monkeypatch):
    async def scenario(url: str) -> None:
        consortium = prepare(tmp_path)
        async with Loopback(tmp_path, consortium, THREE) as net:
            await net.start_hub()
            hub, ana = consortium.agreed_hub(), net.identity("ana")
            with refused("SFY-NET-021", Unwelcome, naming="407"):
                await connect(consortium, "ana", ana, PATIENCE, proxy_to(hub, url))
            monkeypatch.setenv(CREDENTIALS, f"ana:{SECRET}")
            link = await connect(consortium, "ana", ana, PATIENCE, proxy_to(hub, url))
            assert (await link.receive_frame(PATIENCE)) is not None
            await link.close(1.0)

    with TinyProxy(tmp_path, f"BasicAuth ana {SECRET}") as proxy:
        asyncio.run(scenario(proxy.url))


@real
@pytest.mark.processes
def test_tinyproxy_that_allows_another_port_only_says_403(tmp_path):
    async def scenario(url: str) -> None:
        consortium = prepare(tmp_path)
        identity = Loopback(tmp_path, consortium, THREE).identity("ana")
        way = proxy_to(consortium.agreed_hub(), url)
        with refused("SFY-NET-022", Unwelcome, naming=("403", "CONNECT")):
            await connect(consortium, "ana", identity, PATIENCE, way)

    with TinyProxy(tmp_path, "ConnectPort 443") as proxy:
        asyncio.run(scenario(proxy.url))

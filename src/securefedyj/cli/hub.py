"""`securefedyj hub`: relay between the parties."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from pathlib import Path

from securefedyj.cli.options import Commands, command, option
from securefedyj.errors import InputError
from securefedyj.network.consortium import Consortium
from securefedyj.network.identity import read_identity
from securefedyj.network.lines import require_locks
from securefedyj.network.log import LOG_FORMATS
from securefedyj.network.transport.addresses import ANYWHERE, parse_address


def add(commands: Commands) -> None:
    summary = "relay between the parties; the hub can read nothing"
    example = "securefedyj hub consortium.toml --certificate hub.pem --key hub.key"
    more = (
        "The hub rereads the files of a folder when they change, and all files at SIGHUP. A new "
        "consortium needs no restart."
    )
    parser = command(commands, "hub", run, summary, example, more)
    words = "agreed file, or folder: all files in it that end in .toml"
    option(parser, "files", "FILE", words, Path, nargs="+")
    words = "certificate of the hub, as in FILE"
    option(parser, "--certificate", "CERT.pem", words, Path, required=True)
    words = "private key of the certificate; its mode must be 600"
    option(parser, "--key", "KEY", words, Path, required=True)
    words = (
        "where to listen, such as 10.0.0.5:443, [::1]:7443 or *:7443 (default: all interfaces, "
        "IPv4 and IPv6, at the port of the hub in FILE)"
    )
    option(parser, "--listen", "HOST:PORT", words)
    words = (
        "serve a web page at this address, and /metrics for Prometheus, which show everybody who "
        "is connected; such as 127.0.0.1:7480 (default: none)"
    )
    option(parser, "--status", "HOST:PORT", words)
    words = (
        "keep submissions, which it cannot read, and signed results in this folder, for runs whose "
        "agreed file says submitted (default: none)"
    )
    option(parser, "--mailbox", "FOLDER", words, Path)
    words = "at SIGTERM, let runs that are under way end first, for at most so long"
    option(parser, "--drain", "SECONDS", words, float, 0.0)
    words = "how to write the log: text, or one object in JSON per line"
    option(parser, "--log-format", "FORMAT", words, default="text", choices=LOG_FORMATS)


def run(options: argparse.Namespace) -> None:
    from securefedyj.network.hub.agreed_files import AgreedFiles
    from securefedyj.network.hub.server import serve

    require_locks()
    identity = read_identity(options.key, options.certificate)
    files = AgreedFiles(options.files, identity)
    consortia, troubles = files.read()
    for trouble in troubles:
        if trouble.path in options.files:
            raise trouble.error
    listen = _listen(options.listen, consortia)
    status = None if options.status is None else parse_address(options.status, "--status")
    log = LOG_FORMATS[options.log_format]
    for trouble in troubles:
        log("trouble", reason=trouble.sentence)
    asyncio.run(
        serve(consortia, files, identity, listen, status, options.mailbox, log, options.drain)
    )


def _listen(address: str | None, consortia: Sequence[Consortium]) -> tuple[str, int]:
    """Where to listen; the port may be in the files."""
    if address is not None:
        return parse_address(address, "--listen")
    ports = sorted({consortium.agreed_hub().port for consortium in consortia})
    if not ports:
        raise InputError(
            "SFY-CLI-012",
            "There is no agreed file yet, and so no port of the hub: choose one with --listen, "
            "such as --listen *:7443.",
        )
    if len(ports) > 1:
        raise InputError(
            "SFY-CLI-013",
            f"The files name several ports of the hub ({', '.join(map(str, ports))}); choose one "
            f"with --listen, such as --listen *:{ports[0]}.",
        )
    return ANYWHERE, ports[0]

"""`securefedyj hub`: relay between the parties."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from pathlib import Path

from securefedyj.cli.common import OK, Commands, command
from securefedyj.errors import InputError
from securefedyj.network.consortium import Consortium
from securefedyj.network.identity import read_identity
from securefedyj.network.locks import require_locks
from securefedyj.network.transport.addresses import ANYWHERE, parse_address


def add(commands: Commands) -> None:
    parser = command(
        commands,
        "hub",
        "relay between the parties; the hub can read nothing",
        "securefedyj hub consortium.toml --certificate hub.pem --key hub.key",
        "Files of a folder are read again when they change, and all files at SIGHUP: no restart "
        "is needed for a new consortium.",
    )
    parser.add_argument(
        "files",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="agreed files, or folders: of these all files that end in .toml",
    )
    parser.add_argument(
        "--certificate", type=Path, required=True, metavar="CERT.pem", help="the hub's, as in FILE"
    )
    parser.add_argument(
        "--key", type=Path, required=True, metavar="KEY", help="of the certificate; mode 600"
    )
    parser.add_argument(
        "--listen",
        metavar="HOST:PORT",
        help="where to listen, such as 10.0.0.5:443, [::1]:7443 or *:7443 (default: on all "
        "interfaces, by IPv4 and IPv6, at the port of the hub in FILE)",
    )
    parser.add_argument(
        "--status",
        metavar="HOST:PORT",
        help="a web page at this address, and /metrics for Prometheus, that tell everybody who is "
        "there; such as 127.0.0.1:7480 (default: none)",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from securefedyj.network.hub.service import AgreedFiles, log_troubles, serve
    from securefedyj.network.log import log_line

    require_locks()
    identity = read_identity(options.key, options.certificate)
    files = AgreedFiles(options.files, identity)
    consortia, troubles = files.read()
    for trouble in troubles:
        if trouble.path in options.files:
            raise trouble.error
    listen = _listen(options.listen, consortia)
    status = None if options.status is None else parse_address(options.status, "--status")
    log_troubles(troubles, log_line)
    asyncio.run(serve(consortia, files, identity, listen, status))
    return OK


def _listen(option: str | None, consortia: Sequence[Consortium]) -> tuple[str, int]:
    """Where to listen; the port may be in the files."""
    if option is not None:
        return parse_address(option, "--listen")
    ports = sorted({consortium.agreed_hub().port for consortium in consortia})
    if not ports:
        raise InputError(
            "SFY-CLI-012",
            "There is no agreed file yet, which would have the hub's port: choose one with "
            "--listen, such as --listen *:7443.",
        )
    if len(ports) > 1:
        raise InputError(
            "SFY-CLI-013",
            f"The files name several ports of the hub ({', '.join(map(str, ports))}); choose one "
            f"with --listen, such as --listen *:{ports[0]}.",
        )
    return ANYWHERE, ports[0]

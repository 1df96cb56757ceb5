"""`securefedyj hub`: relay between the parties."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from securefedyj.cli.common import OK, Commands, command
from securefedyj.network.consortium import Consortium
from securefedyj.network.identity import read_identity


def add(commands: Commands) -> None:
    parser = command(
        commands,
        "hub",
        "relay between the parties; the hub can read nothing",
        "securefedyj hub consortium.toml --certificate hub.pem --key hub.key",
    )
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE", help="agreed files")
    parser.add_argument(
        "--certificate", type=Path, required=True, metavar="CERT.pem", help="the hub's, as in FILE"
    )
    parser.add_argument(
        "--key", type=Path, required=True, metavar="KEY", help="of the certificate; mode 600"
    )
    parser.add_argument(
        "--listen",
        metavar="HOST:PORT",
        help="where to listen (default: on all interfaces, at the port of the hub in FILE)",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from securefedyj.network.hub import serve

    consortia = [Consortium.read(path) for path in options.files]
    ports = sorted({consortium.agreed_hub().port for consortium in consortia})
    if options.listen is None and len(ports) > 1:
        raise ValueError(
            f"The files name several ports of the hub ({', '.join(map(str, ports))}); choose one "
            f"with --listen, such as --listen 0.0.0.0:{ports[0]}."
        )
    listen = options.listen or f"0.0.0.0:{ports[0]}"
    host, _, port = listen.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"--listen must be HOST:PORT, not {listen!r}.")
    identity = read_identity(options.key, options.certificate)
    asyncio.run(serve(consortia, identity, host.strip("[]"), int(port)))
    return OK

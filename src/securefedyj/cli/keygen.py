"""`securefedyj keygen`: a key and a certificate."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from securefedyj.cli.common import OK, Commands, command
from securefedyj.network.identity import fingerprint, keygen


def add(commands: Commands) -> None:
    parser = command(
        commands,
        "keygen",
        "make a key and a certificate for a party, or for the hub",
        "securefedyj keygen north --folder ~/.securefedyj",
    )
    parser.add_argument("name", metavar="NAME", help="the party's name in the agreed file")
    parser.add_argument(
        "--folder", type=Path, default=Path(), help="where NAME.key and NAME.pem go (default: here)"
    )
    parser.add_argument("--json", action="store_true", help="paths and fingerprint as JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    identity = keygen(options.name, options.folder)
    digest = fingerprint(identity.certificate.read_text(encoding="ascii"))
    if options.json:
        paths = {"key": str(identity.key), "certificate": str(identity.certificate)}
        print(json.dumps(paths | {"fingerprint": digest}))
        return OK
    print(f"Key (keep it here, show it to nobody): {identity.key}")
    print(f"Certificate (send it to whoever writes the agreed file): {identity.certificate}")
    print(f"Fingerprint (compare it by telephone):\n  {digest}")
    return OK

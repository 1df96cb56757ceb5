"""`securefedyj keygen`: a key and a certificate."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from securefedyj.cli.options import Commands, command, flag, option
from securefedyj.network.identity import fingerprint, keygen


def add(commands: Commands) -> None:
    summary = "make a key and a certificate for a party, or for the hub"
    example = "securefedyj keygen north --folder ~/.securefedyj"
    parser = command(commands, "keygen", run, summary, example)
    option(parser, "name", "NAME", "name of the party in the agreed file")
    option(parser, "--folder", "FOLDER", "folder for NAME.key and NAME.pem", Path, Path())
    flag(parser, "--json", "print the paths and the fingerprint as JSON")


def run(options: argparse.Namespace) -> None:
    identity = keygen(options.name, options.folder)
    digest = fingerprint(identity.certificate.read_text(encoding="ascii"))
    if options.json:
        paths = {"key": str(identity.key), "certificate": str(identity.certificate)}
        print(json.dumps(paths | {"fingerprint": digest}))
        return
    print(f"Private key (never share it): {identity.key}")
    print(f"Certificate (send it to the author of the agreed file): {identity.certificate}")
    print(f"Fingerprint (compare it by telephone):\n  {digest}")

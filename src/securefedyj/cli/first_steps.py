"""What a user does first: `securefedyj demo`, `example`, and `keygen`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from securefedyj.cli.options import Commands, command, flag, option
from securefedyj.network.identity import fingerprint, keygen, read_certificate, renew_keys


def add(commands: Commands) -> None:
    summary = "fit example data pooled, next to scikit-learn, and then by three parties and a hub"
    parser = command(commands, "demo", run_demo, summary, "securefedyj demo")
    words = "folder for the picture and the transcript"
    option(parser, "--output", "FOLDER", words, Path, Path("out"))
    summary = "write tables of example silos, to try a consortium with"
    example = "securefedyj example --output first"
    parser = command(commands, "example", run_example, summary, example)
    option(parser, "--silos", "N", "number of silos, 2 to 4", int, 3)
    words = "folder for features.csv, and NAME/patients.csv of each silo"
    option(parser, "--output", "FOLDER", words, Path, Path())
    summary = "make a key and a certificate for a party, or for the hub"
    example = "securefedyj keygen north --folder ~/.securefedyj"
    parser = command(commands, "keygen", run_keygen, summary, example)
    option(parser, "name", "NAME", "name of the party in the agreed file")
    option(parser, "--folder", "FOLDER", "folder for NAME.key and NAME.pem", Path, Path())
    words = (
        "replace the keys for submissions in NAME.key and NAME.pem, or add them; the certificate "
        "stays (docs/life.md)"
    )
    flag(parser, "--renew", words)
    flag(parser, "--json", "print the paths and the fingerprint as JSON")


def run_demo(options: argparse.Namespace) -> None:
    from securefedyj.demo import run as demo  # scikit-learn's datasets take a while to import

    demo.run(options.output)


def run_example(options: argparse.Namespace) -> None:
    from securefedyj.demo import example

    for path, rows in example.write(options.output, options.silos):
        print(f"{path}: {rows} rows")
    print(f"{options.output / 'features.csv'}: names and bounds of the columns")


def run_keygen(options: argparse.Namespace) -> None:
    identity = (renew_keys if options.renew else keygen)(options.name, options.folder)
    digest = fingerprint(read_certificate(identity.certificate))
    if options.json:
        paths = {"key": str(identity.key), "certificate": str(identity.certificate)}
        print(json.dumps(paths | {"fingerprint": digest}))
        return
    if options.renew:
        print(f"New keys for submissions are in {identity.key} and {identity.certificate}.")
        print("What was sealed for the old ones cannot be opened any more.")
    print(f"Private key (never share it): {identity.key}")
    print(f"Certificate (send it to the author of the agreed file): {identity.certificate}")
    print(f"Fingerprint (compare it by telephone):\n  {digest}")

"""`securefedyj demo`: what a user sees first."""

from __future__ import annotations

import argparse
from pathlib import Path

from securefedyj.cli.common import Help, option

HELP = Help(
    "fit example data pooled, next to scikit-learn, and then by three parties and a hub",
    "securefedyj demo",
)


def add(parser: argparse.ArgumentParser) -> None:
    words = "folder for the picture and the transcript"
    option(parser, "--output", "FOLDER", words, Path, Path("out"))


def run(options: argparse.Namespace) -> None:
    from securefedyj.demo import run as demo  # scikit-learn's datasets take a while to import

    demo.run(options.output)

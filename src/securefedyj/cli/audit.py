"""`securefedyj audit`: does all that a run revealed follow from its result?"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from securefedyj.cli.common import FAILED, OK, Help, flag, option, read_transcript, tell

HELP = Help(
    "check that a run revealed nothing that does not follow from its result",
    "securefedyj audit result/transcript.jsonl",
    "Prints what was revealed to whom. The exit code is 0 if the transcript passes and 1 if "
    "it does not.",
)


def add(parser: argparse.ArgumentParser) -> None:
    option(parser, "transcript", "FILE", "transcript.jsonl of a run", Path)
    flag(parser, "--json", "print the findings as JSON")


def run(options: argparse.Namespace) -> int:
    audit = read_transcript(options.transcript).audit()
    if options.json:
        tell(json.dumps({"passed": audit.passed, "findings": audit.findings,
                         "verdict": audit.verdict}))  # fmt: skip
    else:
        tell(audit.statement())
    return OK if audit.passed else FAILED

"""What a site answers to a run of Flower, and what the server makes of the answers.

The site does what `securefedyj join` does. The server learns the result and nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from securefedyj.errors import CodedError
from securefedyj.integrations.job import (
    LONGEST_REASON,
    JobRefused,
    Notes,
    agreed_by,
    check_digest,
    difference,
    public_reason,
    take_part_in,
)
from securefedyj.joining.site import read_site
from securefedyj.printable import printable, shown
from securefedyj.report.results import PARAMETERS as FILE

RECORD = "securefedyj"
DIGEST, PARTY, PARAMETERS, REASON = "digest", "party", "parameters", "reason"


def answer(asked: Mapping[str, object], file: Path) -> dict[str, str | bytes]:
    """Take part as the site's own file says; return what goes back to Flower's server.

    That is the name of the party with the result, or with a reason that says nothing about data.
    """
    name, folder = "A site", file.parent
    try:
        site = read_site(file)
        folder = site.output
        consortium, name = agreed_by(site)
        check_digest(consortium, name, asked.get(DIGEST))
        if asked.get(PARTY, name) != name:
            raise JobRefused(
                "SFY-FLOWER-012",
                f"{name} refuses this run: the server takes this site for {shown(asked[PARTY])}. "
                "A site is who its own certificate says; nothing was computed.",
            )
        options: dict[str, Any] = {"say": Notes(folder).say}
        if (folder / FILE).exists():  # others may have it, too, and not connect again
            options["wait"] = min(site.wait, site.timeout)
        return {PARTY: name, PARAMETERS: asyncio.run(take_part_in(consortium, site, **options))}
    except Exception as error:
        with contextlib.suppress(OSError):  # nowhere to write it to
            Notes(folder).say(str(error))
        return {PARTY: name, REASON: public_reason(error, name)}


class NoResult(CodedError):
    """The run has no result; the message says why."""


class Answers:
    """One answer of each party: all with the same parameters, or there is no result."""

    def __init__(self, parties: Sequence[str]) -> None:
        self._parties = parties
        self._results: dict[str, bytes] = {}

    def take(self, answer: Mapping[str, object]) -> None:
        """Keep a party's result; NoResult if it has none, or is not one of the parties."""
        party, parameters = answer.get(PARTY), answer.get(PARAMETERS)
        if REASON in answer or not isinstance(parameters, bytes):
            said = answer.get(REASON, f"{shown(party)} has no result.")
            raise NoResult("SFY-FLOWER-001", printable(str(said), LONGEST_REASON))
        if party not in self._parties:
            raise NoResult(
                "SFY-FLOWER-002",
                f"A site says that it is {shown(party)}, which is no party of this run.",
            )
        if party in self._results:
            raise NoResult(
                "SFY-FLOWER-003",
                f"Two sites say that they are {party}: each party takes part once, with its own "
                "key and securefedyj.toml.",
            )
        self._results[str(party)] = parameters

    def result(self) -> bytes:
        """The bytes of parameters.json that all parties have returned."""
        if reason := difference(self._parties, self._results):
            raise NoResult("SFY-FLOWER-004", reason)
        return self._results[self._parties[0]]

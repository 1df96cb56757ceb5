"""Before a run: `check --connect` looks who is there, and `rehearse` runs with made-up rows."""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from pathlib import Path

import numpy as np

from securefedyj.cli import options as shared
from securefedyj.cli.display import FAILED, OK, Display, tell, wrapped
from securefedyj.cli.join import carry_out
from securefedyj.cli.options import Commands, command, option
from securefedyj.errors import InputError, code_of
from securefedyj.joining.options import JoinOptions
from securefedyj.network.carrier import LinkLost, Unwelcome
from securefedyj.network.consortium import Consortium
from securefedyj.network.errors import JoinError
from securefedyj.network.identity import read_certificate, read_identity
from securefedyj.network.session.peers import CLOCKS_APART
from securefedyj.network.transport.link import Sight, look
from securefedyj.numerics.arrays import Array
from securefedyj.printable import in_words

_SECONDS = 20.0  # for each step on the way to the hub
_DECLARED = ("consortium", "key", "certificate", "cache_mb", "timeout", "wait", "proxy")
_EXAMPLE = """\
securefedyj rehearse consortium.toml --key north.key --certificate north.pem"""
_REMEDY = (
    "Ask the operator whether the hub runs, and your network team whether this machine may connect "
    "to it, or needs a proxy (--proxy)."
)
_MISSING = 0.02  # of the made-up values


def add(commands: Commands) -> None:
    summary = "run the whole consortium with made-up rows, to try machines and lines"
    more = (
        "All parties type it at the same time. The run has a name and a digest of its own, it is "
        "in no ledger, no table is read, and nothing of it is kept."
    )
    parser = command(commands, "rehearse", rehearse, summary, _EXAMPLE, more)
    shared.add_declared(parser, *_DECLARED)
    option(parser, "--rows", "N", "made-up rows of a silo", int, 1000)
    shared.add_site(parser)


def connect(consortium: Consortium, options: argparse.Namespace) -> int:
    """Print whether the hub can be reached, and who is there."""
    shared.refuse_unless_given(options, "key", "certificate")
    ahead, sentences = seen(consortium, options.key, options.certificate, options.proxy)
    for sentence in sentences:
        tell(wrapped(sentence))
    return OK if abs(ahead) <= CLOCKS_APART else FAILED


def seen(
    consortium: Consortium, key: Path, certificate: Path, proxy: str | None
) -> tuple[float, list[str]]:
    """By how many seconds the hub's clock is ahead, and who is there; no party notices."""
    own = consortium.party_with(read_certificate(certificate)).name
    consortium.check_clock(time.time())
    identity = read_identity(key, certificate)
    try:
        sight = asyncio.run(look(consortium, own, identity, _SECONDS, proxy))
    except LinkLost as error:
        remedy = "" if isinstance(error, Unwelcome) else f" {_REMEDY}"
        raise JoinError(code_of(error, "SFY-JOIN-060"), f"{error}{remedy}") from None
    return sight.ahead, _sentences(consortium, own, sight)


def _sentences(consortium: Consortium, own: str, sight: Sight) -> list[str]:
    way = "" if sight.proxy is None else f" through the proxy at {sight.proxy.address}"
    ahead, others = sight.ahead, [name for name in consortium.party_names if name != own]
    clocks = f"The hub's clock is {abs(ahead):.0f} seconds {'ahead of' if ahead > 0 else 'behind'} "
    there = [name for name in others if name in sight.present]
    absent = [name for name in others if name not in sight.present]
    return [
        f"The hub at {consortium.agreed_hub().address} is reached{way}. It has the agreed "
        f"certificate and the same agreed file, and accepts ours as that of {own}.",
        clocks + ("ours." if abs(ahead) <= CLOCKS_APART else "ours: set both, by NTP if possible."),
        f"There now: {in_words(there)}." + f" Not there: {in_words(absent)}." * bool(absent),
        *(f"The hub says: {words}" for words in sight.words),
        "The other parties were told nothing, and no run has begun.",
    ]


def rehearse(options: argparse.Namespace) -> None:
    from securefedyj.joining.run import JoinRun

    path = shared.fill_from_site(options, None, *_DECLARED)
    shared.refuse_unless_given(options, "consortium", "key", "certificate")
    if options.rows < 1:
        raise InputError("SFY-CLI-031", f"--rows must be positive, not {options.rows}.")
    display = Display()
    if path:
        display.say(f"Options that are not given here are read from {path}.")
    consortium = Consortium.read(options.consortium).rehearsal()
    own = consortium.party_with(read_certificate(options.certificate))
    display.say(f"Rehearsal: run {consortium.name!r} with made-up rows, and no table is read.")
    with tempfile.TemporaryDirectory(prefix="securefedyj-") as folder:
        given = {name: getattr(options, name) for name in _DECLARED} | {
            "consortium": consortium,
            "data": _made_up(consortium, options.rows) if own.role == "silo" else None,
            "output": Path(folder) / "result",
            "ledger": Path(folder) / "ledger.jsonl",
            "report": False,
        }
        run = JoinRun(
            JoinOptions.of(given),
            say=display.say,
            warn=display.say,
            progress=display.progress,
            rows=display.rows,
        )
        carry_out(run, display)
        cost = json.loads(run.written["cost"].read_bytes())
    computed = cost["seconds_local"] + cost["seconds_secure"]
    tell(wrapped(
        f"Rehearsed: all {len(consortium.parties)} parties have the same result of made-up rows, "
        f"after {cost['rounds']} rounds. Here {cost['bytes_sent'] / 1e6:.1f} MB were sent; "
        f"{computed:.1f} seconds were for computing and {cost['seconds_waiting']:.1f} for waiting. "
        "Nothing of it is kept."
    ))  # fmt: skip


def _made_up(consortium: Consortium, rows: int) -> Array:
    """Rows that mean nothing: skewed, within the bounds, and a few values missing."""
    domain, random = consortium.agreement().domain, np.random.default_rng()
    shape = (max(rows, consortium.minimum_values), len(consortium.features))
    values = domain.lower + random.beta(2, 5, shape) * (domain.upper - domain.lower)
    values = np.clip(values, domain.lower, domain.upper)
    values[random.random(shape) < _MISSING] = np.nan
    return values

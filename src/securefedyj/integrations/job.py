"""What a site does in a job of FLARE or Flower, and what comes back; needs neither of them.

A site gets a digest, does what `securefedyj join` does, and returns a result, or a reason that says
nothing about its data. The server learns the result and nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from securefedyj.errors import CodedError, InputError
from securefedyj.integrations.flare.carrier import Bus, PacketDialer
from securefedyj.joining import site as site_file
from securefedyj.joining.call import join_async
from securefedyj.joining.options import JoinOptions
from securefedyj.network.consortium import Consortium
from securefedyj.network.errors import JoinError, OwnTrouble
from securefedyj.network.identity import read_certificate
from securefedyj.network.log import JoinLog
from securefedyj.printable import printable, shown
from securefedyj.protocol.schedule import TooFewValues
from securefedyj.report import results

LOG = "securefedyj.log"
RECORD = "securefedyj"
"""What Flower calls our part of a message."""
RESULT = results.PARAMETERS
DIGEST, PARTY, PARAMETERS, REASON = "digest", "party", "parameters", "reason"
OLDEST_FLARE = (2, 9)
LONGEST_REASON = 1000
"""Characters of a reason that a site returns."""


class JobRefused(InputError):
    """A site does not do what a job asks for; the message is public."""


def notes(folder: Path) -> Callable[[str], object]:
    """Takes messages for the site alone, into its own file: others may read a framework's logs."""
    folder.mkdir(parents=True, exist_ok=True)
    return lambda sentence: JoinLog(folder / LOG).note(sentence)


def named(consortium: Consortium) -> str:
    """What a job calls an agreed file. FLARE would take the bare digits for a secret."""
    return f"sha256:{consortium.digest()}"


def agreed_by(site: JoinOptions) -> tuple[Consortium, str]:
    """What a site has agreed on, and which party it is."""
    consortium = site.agreed()
    return consortium, consortium.party_with(read_certificate(site.certificate)).name


def check_digest(consortium: Consortium, party: str, digest: object) -> None:
    """Refuse a job about another agreed file than the site's own."""
    if digest != named(consortium):
        raise JobRefused(
            "SFY-JOB-001",
            f"{party} refuses this job: it is about an agreed file with another digest than "
            f"{named(consortium)}. Nothing was computed; submit a job with the file that the "
            "parties have agreed on.",
        )


async def take_part_in(consortium: Consortium, site: JoinOptions, **options: Any) -> bytes:
    """Do what `securefedyj join` does; return the bytes of parameters.json.

    The agreed file is the one that was checked: it is not read again.
    """
    await join_async(**(site.arguments() | {"consortium": consortium} | options))
    return (site.output / RESULT).read_bytes()


def public_reason(error: Exception, name: str) -> str:
    """Why a site has no result, without anything about its data; its own log has the rest."""
    public = isinstance(error, JobRefused | JoinError | TooFewValues)
    if public and not isinstance(error, OwnTrouble):
        return str(error)
    return f"{name} cannot take part; why is in {LOG} there, and nowhere else."


def difference(parties: Sequence[str], results: Mapping[str, bytes]) -> str:
    """Why the parties have no common result; empty if they have one."""
    missing = [name for name in parties if name not in results]
    if missing:
        return f"{', '.join(missing)} did not return a result in time."
    if len(set(results.values())) > 1:
        return (
            "The parties did not return the same parameters, which an honest site cannot do: "
            f"each has its own {RESULT}; compare them by another way."
        )
    return ""


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


# FLARE.


def check_flare(name: str) -> None:
    """Refuse to work with a FLARE that builds whatever component a job names."""
    found = version("nvflare")
    if tuple(map(int, found.split(".")[:2])) < OLDEST_FLARE:
        oldest = ".".join(map(str, OLDEST_FLARE))
        raise JobRefused(
            "SFY-FLARE-005",
            f"{name} has FLARE {found}, which has no list of the components that a job may use. "
            f"Install nvflare {oldest} there: pip install 'securefedyj[flare]'.",
        )


def site_in(local: Path, name: str) -> JoinOptions:
    """A site's own file, `securefedyj.toml` in FLARE's folder `local`.

    The sites of FLARE's simulator share `local`, and have their files in `local/NAME`. Paths are
    relative to the folder of the file, or of the file that it links to.
    """
    path = local / name / site_file.FILE
    return site_file.read_site((path if path.exists() else local / site_file.FILE).resolve())


def check_job(site: JoinOptions, client: str, digest: object) -> Consortium:
    """What the site has agreed on, if the job is about that; else JobRefused."""
    consortium, party = agreed_by(site)
    check_digest(consortium, party, digest)
    if client != party:
        raise JobRefused(
            "SFY-FLARE-003",
            f"{party} refuses this job: FLARE calls this site {client!r}. Parties and sites must "
            "have the same names; agree on a file with those of FLARE.",
        )
    return consortium


async def take_part(
    site: JoinOptions,
    client: str,
    digest: object,
    bus: Bus,
    say: Callable[[str], object],
    cancelled: Callable[[], bool],
) -> bytes:
    """Take part until the result is there and written; return the bytes of parameters.json."""
    consortium = check_job(site, client, digest)
    dialer = PacketDialer(bus, set(consortium.party_names) - {client})
    return await take_part_in(consortium, site, say=say, cancelled=cancelled, dialer=dialer)


# Flower.


def answer(asked: Mapping[str, object], file: Path) -> dict[str, str | bytes]:
    """Take part as the site's own file says; return what goes back to Flower's server.

    That is the name of the party with the result, or with a reason that says nothing about data.
    """
    name, folder = "A site", file.parent
    try:
        site = site_file.read_site(file)
        folder = site.output
        consortium, name = agreed_by(site)
        check_digest(consortium, name, asked.get(DIGEST))
        if asked.get(PARTY, name) != name:
            raise JobRefused(
                "SFY-FLOWER-012",
                f"{name} refuses this run: the server takes this site for {shown(asked[PARTY])}. "
                "A site is who its own certificate says; nothing was computed.",
            )
        options: dict[str, Any] = {"say": notes(folder)}
        if (folder / RESULT).exists():  # others may have it, too, and not connect again
            options["wait"] = min(site.wait, site.timeout)
        return {PARTY: name, PARAMETERS: asyncio.run(take_part_in(consortium, site, **options))}
    except Exception as error:
        with contextlib.suppress(OSError):  # nowhere to write it to
            notes(folder)(str(error))
        return {PARTY: name, REASON: public_reason(error, name)}

"""What jobs of all frameworks share: sites get a digest, and return a result or a reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from securefedyj.errors import InputError
from securefedyj.joining.call import join_async
from securefedyj.joining.log import JoinLog
from securefedyj.joining.options import JoinOptions
from securefedyj.network.consortium import Consortium
from securefedyj.network.errors import JoinError, OwnTrouble
from securefedyj.network.identity import read_certificate
from securefedyj.protocol.schedule import TooFewValues
from securefedyj.report.results import PARAMETERS

LOG = "securefedyj.log"
LONGEST_REASON = 1000
"""Characters of a reason that a site returns."""


class JobRefused(InputError):
    """A site does not do what a job asks for; the message is public."""


class Notes:
    """Messages for the site alone, in its own file: others may read a framework's logs."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / LOG

    def say(self, sentence: str) -> None:
        JoinLog(self._path).note(sentence)


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
    return (site.output / PARAMETERS).read_bytes()


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
            f"each has its own {PARAMETERS}; compare them by another way."
        )
    return ""

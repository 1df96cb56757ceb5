"""What jobs of all frameworks have in common: a digest goes out, results or sentences come back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from securefedyj.errors import InputError
from securefedyj.joining.log import JoinLog
from securefedyj.network.consortium import Consortium
from securefedyj.network.errors import JoinError, OwnTrouble
from securefedyj.protocol.program import TooFewValues
from securefedyj.report.results import PARAMETERS

LOG = "securefedyj.log"
LONGEST_REASON = 1000
"""Characters of a site's sentence."""


class Refused(InputError):
    """A site does not do what a job asks for; the sentence is for all to read."""


class Notes:
    """What is said to the site: in its own file, as a framework's logs are not for it alone."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / LOG

    def say(self, sentence: str) -> None:
        JoinLog(self._path).note(sentence)


def named(consortium: Consortium) -> str:
    """What a job calls an agreed file. FLARE would take the bare digits for a secret."""
    return f"sha256:{consortium.digest()}"


def check_digest(consortium: Consortium, party: str, digest: object) -> None:
    """Refuse a job about another file than the one that the site has agreed on."""
    if digest != named(consortium):
        raise Refused(
            "SFY-JOB-001",
            f"{party} refuses this job: it is about an agreed file with another digest than "
            f"{named(consortium)}. Nothing was computed; submit a job with the file that the "
            "parties have agreed on.",
        )


def told_to_all(error: Exception, name: str) -> str:
    """Why a site has no result, with nothing of its data: the cause of other errors stays there."""
    public = isinstance(error, Refused | JoinError | TooFewValues)
    if public and not isinstance(error, OwnTrouble):
        return str(error)
    return f"{name} cannot take part; why is in {LOG} there, and nowhere else."


def compared(parties: Sequence[str], results: Mapping[str, bytes]) -> str:
    """Why the parties have no common result; nothing if they have one."""
    missing = [name for name in parties if name not in results]
    if missing:
        return f"{', '.join(missing)} did not return a result in time."
    if len(set(results.values())) > 1:
        return (
            "The parties did not return the same parameters, which an honest site cannot do: "
            f"each has its own {PARAMETERS}; compare them by another way."
        )
    return ""

"""How a party's run can end without a result."""

from securefedyj import __version__
from securefedyj.errors import InputError
from securefedyj.party.messages import VERSION
from securefedyj.printable import printable


class JoinError(InputError):
    """The run ended without a result, for a reason that the user can act on."""


class OutOfPatience(JoinError):
    """The others did not connect, or sent nothing, for too long; the same command resumes."""


class OwnTrouble(JoinError):
    """The reason is on our machine, and stays there: it may name files and count rows."""


class EndOfRun(JoinError):
    """The run has ended for good: a restart does not resume it, only a new run helps."""


class NotVerified(EndOfRun):
    """A verified exchange has failed, here or at a peer: all parties stop with this error."""

    def __init__(self) -> None:
        super().__init__(
            "SFY-JOIN-100",
            "The result could not be verified: some party does not follow the protocol, or a "
            "machine computes wrongly. No result is written, and this run has ended for good. What "
            "was opened until now is known to all parties: tell your data-protection officer, and "
            "find out why before you agree on a new run, with a new name in the agreed file and a "
            "new output folder.",
        )


def upgrade(who: str, version: int, release: str, us: str) -> str:
    """What to do about a program with another version of the protocol."""
    theirs = f"release {printable(release)}" if release else "a release"
    return (
        f"{who} has {theirs} with protocol version {version}, and {us} has release {__version__} "
        f"with protocol version {VERSION}. Upgrade {who if version < VERSION else us} "
        "(docs/upgrading.md)."
    )


class IllegalTransition(Exception):
    """An event that cannot happen in the current state: a bug of this program."""

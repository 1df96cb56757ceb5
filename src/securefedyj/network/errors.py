"""How taking part in a run can end without a result."""

from securefedyj.errors import InputError


class JoinError(InputError):
    """The run ended without a result, for a reason that the user can act on."""


class OutOfPatience(JoinError):
    """Others did not come, or said nothing, for as long as we wait; the same command goes on."""


class OwnTrouble(JoinError):
    """The reason is at our machine, and so is the sentence: it may name files and count rows."""


class EndOfRun(JoinError):
    """The run has ended for good: a restart does not go on from here, only a new run does."""


class NotVerified(EndOfRun):
    """A verified exchange has failed, here or at a peer: all parties end with this sentence."""

    def __init__(self) -> None:
        super().__init__(
            "SFY-JOIN-100",
            "The result could not be verified: some party does not follow the protocol, or a "
            "machine computes wrongly. No result is written, and this run has ended for good. What "
            "was opened until now is known to all parties: tell your data-protection officer, and "
            "find out why before you agree on a new run, with a new name in the agreed file and a "
            "new --output.",
        )


class IllegalTransition(Exception):
    """Something happened that cannot happen in the present state: a mistake of this program."""

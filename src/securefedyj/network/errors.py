"""How taking part in a run can end without a result."""


class JoinError(ValueError):
    """The run ended without a result, for a reason that the user can act on."""


class EndOfRun(JoinError):
    """The run has ended for good: a restart does not go on from here, only a new run does."""


class IllegalTransition(Exception):
    """Something happened that cannot happen in the present state: a mistake of this program."""

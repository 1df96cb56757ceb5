"""How taking part in a run can end without a result."""


class JoinError(ValueError):
    """The run ended without a result, for a reason that the user can act on."""


class IllegalTransition(Exception):
    """Something happened that cannot happen in the present state: a mistake of this program."""

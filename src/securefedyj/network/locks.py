"""Locks on files. Only this module decides what needs them, and what happens without them."""

from __future__ import annotations

from securefedyj.network.errors import OwnTrouble

try:
    import fcntl
except ImportError:  # on Windows, for example
    fcntl = None  # type: ignore[assignment]


def require_locks() -> None:
    """Refuse to take part in a run, or to serve as a hub, on a system without locks."""
    if fcntl is None:
        raise OwnTrouble(
            "SFY-JOIN-029",
            "This system cannot lock files (Python has no fcntl here), and without locks two "
            "processes could make the same opening twice. So `join` and `hub` need Linux or "
            "another Unix. What works here: fits of your own rows (`ExpYJ`), `transform`, "
            "`check`, `keygen`, `new`, `report` and `audit`.",
        )


def lock(handle: int, *, shared: bool = False, wait: bool = True) -> None:
    """Lock an open file until it is closed. Without locks it can only be read.

    Raises
    ------
    BlockingIOError
        If another process has it, and we do not wait.
    """
    if not shared:
        require_locks()
    if fcntl is not None:
        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        fcntl.flock(handle, kind | (0 if wait else fcntl.LOCK_NB))

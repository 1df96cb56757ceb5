"""How long tests wait for what must happen: only a hang takes longer, however slow the machine."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 300.0  # seconds
_BETWEEN_LOOKS = 0.01


def wait_until(condition: Callable[[], object], hint: Callable[[], object] = str) -> None:
    """Look again and again until the condition holds; if it never does, fail with the hint."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, hint()
        time.sleep(_BETWEEN_LOOKS)

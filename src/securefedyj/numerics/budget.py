"""How much memory may be used to keep what would be made again otherwise."""

from __future__ import annotations

import os
from pathlib import Path

_SHARE = 4
_UNKNOWN = 1 << 30  # where the system does not say what it has
# What a container may use, in the two versions of control groups.
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def default_cache_bytes() -> int:
    """A quarter of the memory of this machine, or of what this process may use of it."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return _UNKNOWN
    for path in _LIMITS:
        try:
            text = Path(path).read_text(encoding="ascii").strip()
        except OSError:
            continue
        if text.isdigit():
            memory = min(memory, int(text))
    return memory // _SHARE

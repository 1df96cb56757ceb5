"""Whether a file is still as it was when a run began."""

from __future__ import annotations

from pathlib import Path

from securefedyj.numerics.passes import ChangedData


class Unchanged:
    """A file, by its size and the time of its last change."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._state = self._now()

    def check(self) -> None:
        """Refuse to go on with another content."""
        if self._now() != self._state:
            raise ChangedData(
                "SFY-TAB-043",
                f"{self.path} was changed while it was in use. Sums over parts of two tables "
                "would be wrong; begin again when nobody writes to it any more.",
            )

    def _now(self) -> tuple[int, int]:
        status = self.path.stat()
        return status.st_size, status.st_mtime_ns

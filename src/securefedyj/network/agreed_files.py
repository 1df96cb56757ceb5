"""The agreed files that a hub serves, read again when they change."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from securefedyj.network.consortium import Consortium
from securefedyj.network.identity import Identity, fingerprint
from securefedyj.network.served import check_own

PATTERN = "*.toml"


class Trouble(NamedTuple):
    """A file that cannot be served as it is, and why."""

    path: Path
    error: Exception

    @property
    def sentence(self) -> str:
        if isinstance(self.error, OSError):
            return f"{self.path}: {self.error.strerror}"
        return str(self.error)


class AgreedFiles:
    """Files, and folders with files; of a file that is broken the last good state is kept.

    Parameters
    ----------
    paths
        Of a folder all files are meant that end in .toml, but for hidden ones.
    identity
        Of the hub, which must be the one in each file.
    """

    def __init__(self, paths: Sequence[Path], identity: Identity) -> None:
        self._paths, self._identity = paths, identity
        self._own = fingerprint(identity.certificate.read_text(encoding="ascii"))
        self._folders = [path for path in paths if path.is_dir()]
        self._good: dict[Path, Consortium] = {}

    def read(self) -> tuple[list[Consortium], list[Trouble]]:
        """What is to be served now, and what is wrong with files."""
        if gone := [path for path in self._folders if not path.is_dir()]:
            lost = OSError(errno.ENOENT, "the folder is gone; what was in it is served on")
            return list(self._good.values()), [Trouble(path, lost) for path in gone]
        found: dict[Path, Consortium] = {}
        troubles = []
        for path in self._files():
            try:
                found[path] = Consortium.read(path)
                check_own(found[path], self._own, self._identity.certificate)
            except (OSError, ValueError) as error:
                found.pop(path, None)
                troubles.append(Trouble(path, error))
                if path in self._good and not isinstance(error, FileNotFoundError):
                    found[path] = self._good[path]
        served: dict[str, Path] = {}
        # Who was there first stays.
        for path in sorted(found, key=lambda path: path not in self._good):
            if served.setdefault(found[path].name, path) != path:
                name = found[path].name
                sentence = f"{path}: {served[name]} has the same consortium name, {name!r}."
                troubles.append(Trouble(path, ValueError(f"{sentence} Rename one.")))
        self._good = {path: found[path] for path in served.values()}
        return list(self._good.values()), troubles

    def state(self) -> tuple[object, ...]:
        """What changes when a file of a folder does."""
        return tuple(map(_state, self._files(watched=True)))

    def _files(self, *, watched: bool = False) -> list[Path]:
        files: list[Path] = []
        for path in self._paths:
            if path.is_dir():
                files += sorted(one for one in path.glob(PATTERN) if not one.name.startswith("."))
            elif not watched:
                files.append(path)
        return files


def _state(path: Path) -> object:
    try:
        found = path.stat()
    except OSError:
        return path
    return path, found.st_ino, found.st_size, found.st_mtime_ns

"""The agreed files of a hub: read again and again, and never half."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from securefedyj.errors import InputError, reason_of
from securefedyj.network.consortium import Consortium
from securefedyj.network.identity import Identity, fingerprint, read_certificate

PATTERN = "*.toml"  # the files of a folder


def check_own(consortium: Consortium, own: str, where: Path) -> None:
    """Refuse a file that names another hub than the one whose certificate is there."""
    if fingerprint(consortium.agreed_hub().certificate) != own:
        raise InputError(
            "SFY-HUB-005",
            f"{where} is not the hub's certificate in the file of {consortium.name!r}: no party "
            "would accept this hub. Give the certificate that the file names, or agree on this "
            "one.",
        )


class Trouble(NamedTuple):
    """A file that cannot be served as it is, and why."""

    path: Path
    error: Exception

    @property
    def sentence(self) -> str:
        if isinstance(self.error, OSError):
            return f"{self.path}: {reason_of(self.error)}"
        return str(self.error)


class AgreedFiles:
    """Files of the hub with this identity; while one is broken, its last good version counts.

    A folder stands for all its files that end in .toml, except hidden ones.
    """

    def __init__(self, paths: Sequence[Path], identity: Identity) -> None:
        self._paths, self._identity = paths, identity
        self._own = fingerprint(read_certificate(identity.certificate))
        self._folders = [path for path in paths if path.is_dir()]
        self._good: dict[Path, Consortium] = {}

    def read(self) -> tuple[list[Consortium], list[Trouble]]:
        """Return the consortia to serve now, and the files that cannot be served."""
        if gone := [path for path in self._folders if not path.is_dir()]:
            lost = [
                InputError("SFY-HUB-025", f"{path} is gone; the hub still serves its files.")
                for path in gone
            ]
            return list(self._good.values()), list(map(Trouble, gone, lost))
        found: dict[Path, Consortium] = {}
        troubles = []
        for path in self._files():
            try:
                consortium = Consortium.read(path)
                check_own(consortium, self._own, self._identity.certificate)
                found[path] = consortium
            except (OSError, ValueError) as error:
                troubles.append(Trouble(path, error))
                if path in self._good and not isinstance(error, FileNotFoundError):
                    found[path] = self._good[path]
        served: dict[str, Path] = {}
        # Of two files with the same name, the one that was there first stays.
        for path in sorted(found, key=lambda path: path not in self._good):
            name = found[path].name
            if served.setdefault(name, path) != path:
                sentence = f"{path}: {served[name]} has the same consortium name, {name!r}."
                troubles.append(Trouble(path, ValueError(f"{sentence} Rename one.")))
        self._good = {path: found[path] for path in served.values()}
        return list(self._good.values()), troubles

    def state(self) -> tuple[object, ...]:
        """A value that changes when a file of a folder does."""
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

"""Where FLARE keeps a site's own file: `securefedyj.toml` in its folder `local`."""

from __future__ import annotations

from pathlib import Path

from securefedyj.joining import site
from securefedyj.joining.options import JoinOptions
from securefedyj.joining.site import FILE, SiteError

__all__ = ["FILE", "SiteError", "read_site"]


def read_site(folder: Path, name: str) -> JoinOptions:
    """The file of a site. Those of FLARE's simulator share `local`; theirs are in `local/NAME`.

    Paths are relative to the folder of the file, or of the one that it is a link to.
    """
    path = folder / name / FILE
    return site.read_site((path if path.exists() else folder / FILE).resolve())

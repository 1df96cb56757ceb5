"""`flwr-clientapp` for a site that runs only its own code: see `supernode`.

Flower's own unpacks the app of a run, puts its folder first on Python's path, and runs what it
finds. Here nothing of the app is unpacked, and an app with code is refused.
"""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from io import BytesIO
from typing import TYPE_CHECKING, Any

from securefedyj.integrations.job import JobRefused
from securefedyj.printable import shown

if TYPE_CHECKING:
    from flwr.clientapp import ClientApp

TESTED = ("1.41",)
"""Minor versions of Flower. What refuses foreign code replaces parts that others may lack."""
REFUSAL = "This site refuses the app: it brings files of its own"
_HARMLESS = {"pyproject.toml", "README.md", "LICENSE", ".info/CONTENT"}


def check_version() -> None:
    """Exit with a message where another Flower is installed than was tested."""
    tested = " or ".join(TESTED)
    try:
        found = version("flwr")
    except PackageNotFoundError:
        raise SystemExit(f"This needs flwr {tested}: pip install 'securefedyj[flower]'") from None
    if ".".join(found.split(".")[:2]) not in TESTED:
        raise SystemExit(
            f"flwr {found} is installed, and our SuperNode is tested with flwr {tested} only: with "
            "another one, foreign code might run here. Install it by: "
            "pip install 'securefedyj[flower]'"
        )


def refuse_code(fab: bytes, **_: Any) -> None:
    """In place of unpacking: refuse an app that brings more than its description."""
    with zipfile.ZipFile(BytesIO(fab)) as bundle:
        more = [name for name in bundle.namelist() if name not in _HARMLESS]
    if more:
        raise JobRefused(
            "SFY-FLOWER-006",
            f"{REFUSAL} ({shown(more[0])}), and the site runs only what it has installed itself. "
            "Submit the folder as the template is.",
        )


def own_app(**_: Any) -> Callable[..., ClientApp]:
    """In place of loading the ClientApp that the run names."""
    from securefedyj.integrations.flower.client import app

    return lambda *_: app


def no_dependencies(*_: Any, **__: Any) -> None:
    """In place of installing what the run wants, which is code as well."""
    raise JobRefused("SFY-FLOWER-005", "This site installs nothing for a run.")


REPLACED = {
    "install_from_fab": refuse_code,
    "get_load_client_app_fn": own_app,
    "install_app_dependencies": no_dependencies,
}


def main() -> None:
    """Take the options of `flwr-clientapp`."""
    check_version()  # before anything of Flower is imported that another version may not have
    from flwr.supernode.cli import flwr_clientapp
    from flwr.supernode.runtime import run_clientapp

    for name, ours in REPLACED.items():
        if not hasattr(run_clientapp, name):
            sys.exit(f"This flwr runs apps in another way: it has no {name}.")
        setattr(run_clientapp, name, ours)
    flwr_clientapp()


if __name__ == "__main__":
    main()

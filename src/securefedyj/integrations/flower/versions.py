"""Which Flower our SuperNode runs with."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

TESTED = ("1.41",)
"""Minor versions. What refuses foreign code replaces parts of Flower that others may not have."""


def check_version() -> None:
    """Refuse a Flower that this was not tested with; SystemExit with a sentence."""
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

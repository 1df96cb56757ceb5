"""Secure federated feature Gaussianization with the Yeo-Johnson transformation."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from securefedyj.estimators import ExpYJ, SecureFedYJ
    from securefedyj.joining import Cancelled, join, join_async
    from securefedyj.parameters import load

__all__ = ["Cancelled", "ExpYJ", "SecureFedYJ", "join", "join_async", "load"]
__version__ = "0.1.0"

_HOMES = {
    "ExpYJ": "estimators",
    "SecureFedYJ": "estimators",
    "load": "parameters",
    "Cancelled": "joining",
    "join": "joining",
    "join_async": "joining",
}


def __getattr__(name: str) -> Any:
    """Import the estimators, and scikit-learn with them, only when they are asked for."""
    if name in _HOMES:
        return getattr(import_module(f"securefedyj.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

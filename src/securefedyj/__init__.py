"""Secure federated feature Gaussianization with the Yeo-Johnson transformation."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from securefedyj.estimators import ExpYJ, FrozenYJ, PowerTransformDisplay, SecureFedYJ
    from securefedyj.parameters import load

__all__ = ["ExpYJ", "FrozenYJ", "PowerTransformDisplay", "SecureFedYJ", "load"]
__version__ = "0.1.0"

_HOMES = {
    "ExpYJ": "estimators",
    "FrozenYJ": "estimators",
    "PowerTransformDisplay": "estimators",
    "SecureFedYJ": "estimators",
    "load": "parameters",
}


def __getattr__(name: str) -> Any:
    """Import the estimators, and scikit-learn with them, only when they are asked for."""
    if name in _HOMES:
        return getattr(import_module(f"securefedyj.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

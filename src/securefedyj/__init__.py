"""Secure federated feature Gaussianization with the Yeo-Johnson transformation."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from securefedyj.estimators import ExpYJ, SecureFedYJ

__all__ = ["ExpYJ", "SecureFedYJ"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Import the estimators, and scikit-learn with them, only when they are asked for."""
    if name in __all__:
        from securefedyj import estimators

        return getattr(estimators, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""Secure federated feature Gaussianization with the Yeo-Johnson transformation."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from securefedyj.estimators import ExpYJ as ExpYJ
    from securefedyj.estimators import FrozenColumns as FrozenColumns
    from securefedyj.estimators import FrozenYJ as FrozenYJ
    from securefedyj.estimators import PowerTransformDisplay as PowerTransformDisplay
    from securefedyj.estimators import SecureColumnTransformer as SecureColumnTransformer
    from securefedyj.estimators import SecureFedYJ as SecureFedYJ
    from securefedyj.estimators import SecureQuantiles as SecureQuantiles
    from securefedyj.estimators import SecureRobustScaler as SecureRobustScaler
    from securefedyj.estimators import SecureStandardScaler as SecureStandardScaler
    from securefedyj.joining.call import join as join
    from securefedyj.joining.call import join_async as join_async
    from securefedyj.joining.call import result as result
    from securefedyj.joining.call import result_async as result_async
    from securefedyj.joining.call import submit as submit
    from securefedyj.joining.call import submit_async as submit_async
    from securefedyj.joining.run import Cancelled as Cancelled
    from securefedyj.parameters import load as load
    from securefedyj.parameters import save as save

_HOMES = {
    "Cancelled": "joining.run",
    "ExpYJ": "estimators",
    "FrozenColumns": "estimators",
    "FrozenYJ": "estimators",
    "PowerTransformDisplay": "estimators",
    "SecureColumnTransformer": "estimators",
    "SecureFedYJ": "estimators",
    "SecureQuantiles": "estimators",
    "SecureRobustScaler": "estimators",
    "SecureStandardScaler": "estimators",
    "join": "joining.call",
    "join_async": "joining.call",
    "load": "parameters",
    "result": "joining.call",
    "result_async": "joining.call",
    "save": "parameters",
    "submit": "joining.call",
    "submit_async": "joining.call",
}
__all__ = [*_HOMES]
__version__ = "0.3.0.dev0"


def __getattr__(name: str) -> Any:
    """Import the estimators, and scikit-learn with them, only when they are asked for."""
    if name in _HOMES:
        return getattr(import_module(f"securefedyj.{_HOMES[name]}"), name)
    if name == "parameters":  # for `securefedyj.parameters.save` without another import
        return import_module("securefedyj.parameters")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """What there is, also before it is imported."""
    return sorted({*globals(), *__all__, "parameters"})

"""The estimators, with the contract of scikit-learn."""

from securefedyj.estimators.display import PowerTransformDisplay
from securefedyj.estimators.federated import SecureFedYJ
from securefedyj.estimators.frozen import FrozenYJ
from securefedyj.estimators.pooled import ExpYJ

__all__ = ["ExpYJ", "FrozenYJ", "PowerTransformDisplay", "SecureFedYJ"]

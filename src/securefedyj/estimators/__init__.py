"""The estimators, with the contract of scikit-learn."""

from securefedyj.estimators.federated import SecureFedYJ
from securefedyj.estimators.pooled import ExpYJ

__all__ = ["ExpYJ", "SecureFedYJ"]

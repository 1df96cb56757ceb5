"""The estimators, with the contract of scikit-learn."""

from securefedyj.estimators.composed import SecureColumnTransformer
from securefedyj.estimators.display import PowerTransformDisplay
from securefedyj.estimators.federated import SecureFedYJ
from securefedyj.estimators.frozen import FrozenColumns, FrozenYJ
from securefedyj.estimators.pooled import ExpYJ
from securefedyj.estimators.quantiles import SecureQuantiles
from securefedyj.estimators.scaling import SecureRobustScaler, SecureStandardScaler

__all__ = [
    "ExpYJ",
    "FrozenColumns",
    "FrozenYJ",
    "PowerTransformDisplay",
    "SecureColumnTransformer",
    "SecureFedYJ",
    "SecureQuantiles",
    "SecureRobustScaler",
    "SecureStandardScaler",
]

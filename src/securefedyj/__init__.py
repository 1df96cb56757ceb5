"""Secure federated feature Gaussianization with the Yeo-Johnson transformation."""

from securefedyj.estimators import ExpYJ, SecureFedYJ

__all__ = ["ExpYJ", "SecureFedYJ"]
__version__ = "0.1.0"

"""Secure federated feature Gaussianization with the Yeo-Johnson transformation."""

from securefedyj.estimators import ExpYJ

__all__ = ["ExpYJ"]
__version__ = "0.1.0"

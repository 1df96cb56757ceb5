"""Engines: ways for several parties to compute on values that none of them may see."""

from securefedyj.engines.interface import Engine, Shared, SharedBits, concatenate

__all__ = ["Engine", "Shared", "SharedBits", "concatenate"]

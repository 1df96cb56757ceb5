"""Three-party replicated secret sharing: the default engine."""

from securefedyj.engines.replicated.engine import Replicated, connect

__all__ = ["Replicated", "connect"]

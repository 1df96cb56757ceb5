"""Three-party replicated secret sharing, the default engine (docs/protocol.md, section 8)."""

from securefedyj.engines.replicated.engine import Replicated, connect

__all__ = ["Replicated", "connect"]

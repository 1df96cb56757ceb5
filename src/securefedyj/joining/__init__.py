"""What `securefedyj join` does, without a terminal: docs/python.md."""

from securefedyj.joining.call import join, join_async
from securefedyj.joining.run import Cancelled

__all__ = ["Cancelled", "join", "join_async"]

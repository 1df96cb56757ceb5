"""The hub: the only machine with an open port, which relays what the parties encrypt."""

from securefedyj.network.hub.server import Hub

__all__ = ["Hub"]

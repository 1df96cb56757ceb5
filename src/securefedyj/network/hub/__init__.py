"""The hub: the only machine with an open port. It relays what the parties encrypt."""

from securefedyj.network.hub.server import HubServer

Hub = HubServer  # its name in version 0.2

__all__ = ["Hub", "HubServer"]

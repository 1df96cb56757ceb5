"""What can go wrong between parties. No message ever contains a payload."""


class ProtocolError(Exception):
    """A message broke the rules of the protocol; nothing was computed from it."""


class Unverified(ProtocolError):
    """A check of a verified exchange has failed: somebody cheats, and the run ends for good."""


class PartyStopped(Exception):
    """Another party stopped. Its reason may touch its data, so it stays there."""


class Stalled(Exception):
    """Nothing is in flight any more, and some parties still wait for messages."""

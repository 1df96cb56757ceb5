"""Comparing by hash what two members must have alike (docs/protocol.md, section 8)."""

import hashlib
import hmac

from securefedyj.errors import Unverified

BYTES = 32

Hash = hashlib.sha256


def of(data: bytes) -> bytes:
    """The hash of some bytes."""
    return Hash(data).digest()


def same(ours: bytes, theirs: bytes, what: str) -> None:
    """Raise unless both are the same; ``what`` does not depend on anything secret."""
    if not hmac.compare_digest(ours, theirs):
        raise Unverified(
            "SFY-ENG-025",
            f"A check has failed: {what} is not what the protocol asks for. One of the parties "
            "does not follow it. Nothing of the result was revealed, and there is none.",
        )

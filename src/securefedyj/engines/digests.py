"""Comparing digests among all parties, before what follows counts (docs/protocol.md, section 3)."""

from collections.abc import Mapping, Sequence

from securefedyj.errors import InputError, ProtocolError
from securefedyj.party.messages import Kind
from securefedyj.party.rounds import play_round

DIGEST_BYTES = 32


async def exchange(peers: Sequence[str], digest: bytes) -> None:
    """Send a digest to all peers, and compare theirs. One round."""
    of_right_size(digest)
    expected = dict.fromkeys(peers, DIGEST_BYTES)
    compare(digest, await play_round(Kind.DIGEST, dict.fromkeys(peers, digest), expected))


def of_right_size(digest: bytes) -> None:
    """Refuse a digest of another size."""
    if len(digest) != DIGEST_BYTES:
        raise InputError("SFY-ENG-004", f"A digest has {DIGEST_BYTES} bytes, not {len(digest)}.")


def compare(digest: bytes, others: Mapping[str, bytes]) -> None:
    """Raise unless all parties have the same digest."""
    for peer, other in others.items():
        if other != digest:
            raise ProtocolError(
                "SFY-ENG-005",
                f"Party {peer} has another record of what was revealed (digest "
                f"{other.hex()[:16]}): expected {digest.hex()[:16]}. Nothing more is revealed; "
                "compare the transcripts of all parties before you try again.",
            )

"""Openings: every component from both of its holders (docs/protocol.md, section 8).

A party goes on when it has all three components, from whoever was first. So no single member can
withhold an opening from one party while the others go on. What the other holder sends is compared,
whenever it comes: no single member can tell one party another value unnoticed.

The components are sent as they are, also to parties outside the committee. They tell nothing but
the value. Every shared vector comes out of `share` or of a product, which add a fresh sharing of
zero to it: given the value, its components are any that sum to it, each as likely as another.
What is done between that and an opening is linear and acts on each component alone, so the
same holds for what is opened. (A member knows two components before, and the third follows from
these and the value.) A sign, and every bit but the lowest, is such a product xor bits of summands.
The lowest bit takes no product. Its components are r, a xor r and b, with r fresh from a key, b the
lowest bit of component 2, a uniform number, and a xor b the value: again any three that sum to it.
"""

from collections.abc import Mapping

from securefedyj.engines.additive import Held
from securefedyj.errors import ProtocolError
from securefedyj.party.messages import Kind
from securefedyj.party.rounds import play_round


async def collect(
    outgoing: Mapping[str, bytes], senders: Mapping[str, Held], *, size: int, enough: int
) -> Mapping[int, bytes]:
    """Play the round of an opening; return the components that came, by their index.

    Parameters
    ----------
    outgoing
        What each peer lacks.
    senders
        Which components each sender sends, one after the other.
    size
        Bytes of one component.
    enough
        How many senders suffice for all of them.
    """
    taken: dict[int, tuple[str, bytes]] = {}

    def take(peer: str, payload: bytes) -> None:
        for k, index in enumerate(senders[peer]):
            part = payload[k * size : (k + 1) * size]
            first, known = taken.setdefault(index, (peer, part))
            if part != known:
                raise ProtocolError(
                    "SFY-ENG-026",
                    f"Parties {first} and {peer} sent different parts of one opening: one of the "
                    "two does not follow the protocol, and what was opened cannot be relied on. "
                    "Find out which before you try again.",
                )

    expected = {peer: size * len(held) for peer, held in senders.items()}
    incoming = await play_round(Kind.OPENING, outgoing, expected, enough=enough, late=take)
    for peer, payload in incoming.items():
        take(peer, payload)
    return {index: part for index, (_, part) in taken.items()}

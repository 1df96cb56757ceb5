"""Handing on the end of a transcript to a party that lacks it."""

from __future__ import annotations

import json

from securefedyj.network.errors import JoinError
from securefedyj.network.session.claims import Claim
from securefedyj.network.session.memory import Memory
from securefedyj.network.session.records import Handover
from securefedyj.protocol.transcript import Reveal, Transcript, read_reveal, to_line
from securefedyj.strict import parse


def hand_on(memory: Memory, session: str, start: Claim, has: int) -> Handover | None:
    """What somebody lacks who has so many reveals, if we have it."""
    known = memory.transcript.reveals[: start.reveals]
    if not has < start.reveals == len(known):
        return None
    return Handover(session, has, [json.dumps(to_line(reveal)) for reveal in known[has:]])


def handed(memory: Memory, handover: Handover, start: Claim, peer: str) -> list[Reveal]:
    """What we lack, if it leads to what two parties said that they have."""
    known, n_features = memory.transcript, len(memory.agreement.features)
    try:
        reveals = [read_reveal(parse(line), n_features) for line in handover.lines]
    except (ValueError, OverflowError):
        raise JoinError(
            "SFY-JOIN-016", f"Party {peer} handed on what is not a transcript."
        ) from None
    whole = Transcript(known.agreement, [*known.reveals, *reveals])
    if (
        handover.first != len(known.reveals)
        or len(whole.reveals) != start.reveals
        or whole.digest().hex() != start.digest
    ):
        raise JoinError(
            "SFY-JOIN-015",
            f"Party {peer} handed on another transcript than the one that two parties said they "
            "have.",
        )
    return reveals

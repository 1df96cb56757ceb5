"""Where a session resumes: at the longest transcript that two parties have (verified: two members).

docs/protocol.md, section 12.2.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from operator import attrgetter

from securefedyj.network.errors import EndOfRun, JoinError
from securefedyj.network.session.memory import (
    MOST_REPEATS,
    NEW_RUN,
    Memory,
    part_is_lost,
    repeated_before,
)
from securefedyj.network.session.records import NO_SESSION, Begin, Handover
from securefedyj.protocol.reveals import Reveal, read_reveal, to_line
from securefedyj.protocol.transcript import Transcript
from securefedyj.strict import parse

_NEW_RUN = NEW_RUN[0].lower() + NEW_RUN[1:]  # not yet: the same command may still resume the run


def begin_of(memory: Memory, session: str) -> Begin:
    """What we have when a session begins."""
    known, part = memory.transcript, memory.part
    reveals = len(known.reveals)
    return Begin(
        session,
        reveals,
        known.digest().hex(),
        memory.finished,
        sending=memory.sent > reveals,
        repeated=len(memory.repeats) >= MOST_REPEATS,
        accepted=0 if part is None else part.opening,
        computed=NO_SESSION if part is None else part.session,
    )


def first_opening(memory: Memory, start: Begin, begun: Mapping[str, Begin]) -> tuple[bool, bool]:
    """Whether the first opening of a session is repeated, and whether noted parts open it.

    Raises EndOfRun where neither is allowed. All parties find the same.
    """
    everybody = begun.values()
    if memory.ends_batch(start.reveals):
        members = [begun[name] for name in memory.agreement.committee]
        return False, reopens(start, everybody, members)
    # Each party has made all repeats that any has made, and a party that has sent two openings
    # that too few have would need two more.
    again = max(one.ahead_of(start) for one in everybody)
    most = 0 if any(one.repeated for one in everybody) else MOST_REPEATS
    if again > most:
        raise repeated_before(start.reveals)
    return again > 0, False


def reopens(start: Begin, everybody: Collection[Begin], members: Collection[Begin]) -> bool:
    """Whether a session begins with a final opening that was computed before; all find the same.

    Each member notes its part before it says that its checks have passed, and nobody sends a part
    before all members have said so. So either all hold parts of one computation, and send them as
    they are; or no honest member has sent one, and it may be computed again. Raises EndOfRun where
    neither holds.
    """
    parts = {(one.accepted, one.computed) for one in members}
    if len(parts) == 1 and NO_SESSION not in (part := parts.pop()) and part[0] == start.reveals:
        return True
    if any(one.ahead_of(start) for one in everybody):
        raise part_is_lost(start.reveals)
    return False


def starting_point(memory: Memory, own: Begin, peers: Mapping[str, Begin]) -> Begin:
    """The most that two parties have (verified: two members), if ours does not contradict it.

    Raises EndOfRun where two parties have different things, and JoinError for impossible claims.
    """
    for peer in peers:
        _check_claim(peer, own, peers, memory)
    everybody = voices = [own, *peers.values()]
    if memory.agreement.verified:
        # Of two members one is honest, and takes no result that it has not verified. Two others
        # might hand over a result that nobody has verified.
        voices = [peers[name] for name in memory.agreement.committee if name in peers]
        voices += [own] * memory.member
    start = sorted(voices, key=attrgetter("reveals"), reverse=True)[1]
    if not _are_the_same([begin for begin in everybody if begin.reveals == start.reveals]):
        raise EndOfRun(
            "SFY-JOIN-014",
            "Two parties have different records of what was revealed. This run ends here. "
            + NEW_RUN,
        )
    if (most := max(begin.reveals for begin in everybody)) == start.reveals:
        return start
    # Too few have the end of it, which is not taken on their word.
    if most > start.reveals + 1:
        raise JoinError(
            "SFY-JOIN-009",
            f"One party has {most} openings of this run, and all others have "
            f"{start.reveals} or fewer: they have lost their record of it. If their output "
            f"folders cannot be found, {_NEW_RUN}",
        )
    if memory.confirmed:
        raise JoinError(
            "SFY-JOIN-010",
            "The result that all parties have confirmed is here, and no other party reports having "
            "it: it stays as it is, and nothing is opened again.",
        )
    return start


def _is_result(begun: Collection[Begin]) -> bool:
    """Whether all of these have the same result, which may be handed to a late party."""
    return all(begin.finished for begin in begun) and _are_the_same(begun)


def _are_the_same(begun: Collection[Begin]) -> bool:
    return len({(begin.reveals, begin.digest, begin.finished) for begin in begun}) == 1


def _check_claim(peer: str, own: Begin, peers: Mapping[str, Begin], memory: Memory) -> None:
    """Refuse what contradicts ours, and more or fewer openings than a peer can have.

    A peer may have fewer, and we may have fewer, if all others have the same result.
    """
    begin = peers[peer]
    if begin.reveals > own.reveals:
        if begin.reveals > memory.most and (own.finished or not _is_result(peers.values())):
            raise JoinError(
                "SFY-JOIN-013",
                f"Party {peer} claims {begin.reveals} openings of this run; without us "
                f"there can be {memory.most} at most. If we have lost our record, come back with "
                f"the earlier output folder; if that is lost, {_NEW_RUN}",
            )
        return
    if begin.digest != memory.transcript.digest(begin.reveals).hex() or (
        begin.finished != own.finished and begin.reveals == own.reveals
    ):
        raise EndOfRun(
            "SFY-JOIN-008",
            f"Party {peer} has a different record of what was revealed. This run ends here. "
            + NEW_RUN,
        )
    others = [own, *(other for name, other in peers.items() if name != peer)]
    if begin.reveals < memory.least and not _is_result(others):
        raise JoinError(
            "SFY-JOIN-012",
            f"Party {peer} has {begin.reveals} openings of this run, and has taken part in at "
            f"least {memory.least}: it has lost its record. It must come back with its earlier "
            f"output folder; if that is lost, {_NEW_RUN}",
        )


def hand_over(memory: Memory, session: str, start: Begin, has: int) -> Handover | None:
    """What a peer with this number of reveals lacks, if we have it."""
    known = memory.transcript.reveals[: start.reveals]
    if not has < start.reveals == len(known):
        return None
    return Handover(session, has, [json.dumps(to_line(reveal)) for reveal in known[has:]])


def take_over(memory: Memory, handover: Handover, start: Begin, peer: str) -> list[Reveal]:
    """What we lack, if it leads to what two parties have."""
    known, n_features = memory.transcript, len(memory.agreement.asked)
    try:
        reveals = [read_reveal(parse(line), n_features) for line in handover.lines]
    except (ValueError, OverflowError):
        raise JoinError(
            "SFY-JOIN-016", f"Party {peer} handed over what is not a transcript."
        ) from None
    whole = Transcript(known.agreement, [*known.reveals, *reveals])
    if (
        handover.first != len(known.reveals)
        or len(whole.reveals) != start.reveals
        or whole.digest().hex() != start.digest
    ):
        raise JoinError(
            "SFY-JOIN-015",
            f"Party {peer} handed over a different transcript than two parties have.",
        )
    return reveals

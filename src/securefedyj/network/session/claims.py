"""Where a session goes on from: the longest transcript that two parties have (verified: members).

docs/security.md, section 6, "Going on after an interruption". Every party says what it has
(`records.Begin`), and every party comes to the same conclusion from what all have said, or to none.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple, NoReturn

from securefedyj.network.errors import EndOfRun, JoinError
from securefedyj.network.session.memory import (
    MOST_REPEATS,
    NEW_RUN,
    NO_SESSION,
    Memory,
    made_again_before,
    part_is_lost,
)

_NEW_RUN = NEW_RUN[0].lower() + NEW_RUN[1:]  # not yet: the same command may still go on


class Claim(NamedTuple):
    """What a party says that it has."""

    reveals: int
    digest: str
    """Of all its reveals."""
    finished: bool
    """Whether nothing is left to open."""
    sending: bool
    """Whether it has sent its part of the next opening."""
    repeated: bool
    """Whether it has made openings again, as many as may be."""
    accepted: int = 0
    """The number of the final opening of which it holds its part."""
    computed: str = NO_SESSION
    """The session in which that was computed."""

    def ahead_of(self, start: Claim) -> int:
        """How many openings after a starting point this party has sent; they are made again."""
        return max(0, self.reveals + self.sending - start.reveals)


def claim_of(memory: Memory) -> Claim:
    known = memory.transcript
    reveals = len(known.reveals)
    digest, sending = known.digest().hex(), memory.sent > reveals
    repeated, part = len(memory.repeats) >= MOST_REPEATS, memory.part
    held = () if part is None else (part.opening, part.session)
    return Claim(reveals, digest, memory.finished, sending, repeated, *held)


def first_opening(memory: Memory, start: Claim, claims: Mapping[str, Claim]) -> tuple[bool, bool]:
    """Of a session: whether its first opening is made again, and whether it is not computed.

    Raises EndOfRun where neither may be. All parties find the same.
    """
    own = claim_of(memory)
    everybody = [own, *claims.values()]
    if not memory.ends_batch(start.reveals):
        return begins_again(start, everybody), False
    members = [claims.get(name, own) for name in memory.agreement.committee]
    return False, reopens(start, everybody, members)


def begins_again(start: Claim, everybody: Collection[Claim]) -> bool:
    """Whether the first opening of a session was made before; all parties find the same.

    Raises EndOfRun if more would be made again than may be: together the parties have as many as
    each of them, and who has sent two that too few have would need two.
    """
    again = max(claim.ahead_of(start) for claim in everybody)
    most = 0 if any(claim.repeated for claim in everybody) else MOST_REPEATS
    if again > most:
        raise made_again_before(start.reveals)
    return again > 0


def reopens(start: Claim, everybody: Collection[Claim], members: Collection[Claim]) -> bool:
    """Whether a session begins with a final opening that was computed before; all find the same.

    Each member accepts it before it says that its checks have passed, and nobody sends a part
    before all members have said so. So either all hold parts of one computation, and send them as
    they are; or no honest member has sent one, and it may be computed again. Raises EndOfRun where
    neither is so.
    """
    parts = {(claim.accepted, claim.computed) for claim in members}
    if len(parts) == 1 and NO_SESSION not in (part := parts.pop()) and part[0] == start.reveals:
        return True
    if any(claim.ahead_of(start) for claim in everybody):
        raise part_is_lost(start.reveals)
    return False


def starting_point(memory: Memory, claims: Mapping[str, Claim]) -> Claim:
    """What the session starts from: two have it, and ours does not contradict it.

    Raises EndOfRun where two parties have different things, and JoinError where one says that it
    has what it cannot have.
    """
    own = claim_of(memory)
    for peer, claim in claims.items():
        others = [other for name, other in claims.items() if name != peer]
        if claim.reveals <= own.reveals:
            _check_shorter(peer, claim, own, memory, late=_is_result([own, *others]))
        else:
            late = not own.finished and _is_result(list(claims.values()))
            _check_longer(peer, claim, memory.most, late=late)
    everybody = sorted([own, *claims.values()], reverse=True)
    start = _second_longest(memory, own, claims)
    _check_same([claim for claim in everybody if claim.reveals == start.reveals])
    if (most := everybody[0].reveals) == start.reveals:
        return start
    # Too few have the end of it, which is not taken on their word.
    if most > start.reveals + 1:
        raise JoinError(
            "SFY-JOIN-009",
            f"One party has {most} openings of this run, and all others have "
            f"{start.reveals} or fewer: they have lost their record of it. If their --output "
            f"folders cannot be found, {_NEW_RUN}",
        )
    if memory.confirmed:
        raise JoinError(
            "SFY-JOIN-010",
            "The result that all parties have confirmed is here, and no other party says to have "
            "it: it stays as it is, and nothing is opened again.",
        )
    return start


def _second_longest(memory: Memory, own: Claim, claims: Mapping[str, Claim]) -> Claim:
    """The most that two parties have; in a verified run, that two members have.

    Of two members one is honest, and takes no result that it has not verified. Two others might
    hand on a result that nobody has verified.
    """
    agreement = memory.agreement
    voices = [claims[name] for name in agreement.committee if name in claims]
    if memory.member:
        voices.append(own)
    if not agreement.verified:
        voices = [own, *claims.values()]
    return sorted(voices, reverse=True)[1]


def _is_result(claims: list[Claim]) -> bool:
    """Whether all of these have the same result, which may be handed to one who is late."""
    return all(claim.finished for claim in claims) and _are_the_same(claims)


def _are_the_same(claims: list[Claim]) -> bool:
    return len({claim[:3] for claim in claims}) == 1


def _check_shorter(peer: str, claim: Claim, own: Claim, memory: Memory, *, late: bool) -> None:
    if claim.reveals < 0:
        raise JoinError("SFY-JOIN-011", f"Party {peer} says that it has {claim.reveals} openings.")
    if claim.digest != memory.transcript.digest(claim.reveals).hex():
        _differ(peer)
    if claim.finished != own.finished and claim.reveals == own.reveals:
        _differ(peer)
    if claim.reveals < memory.least and not late:
        raise JoinError(
            "SFY-JOIN-012",
            f"Party {peer} has {claim.reveals} openings of this run, and has taken part in "
            f"{memory.least} at least: it has lost its record. It must come back with its --output "
            f"folder of before; if that is lost, {_NEW_RUN}",
        )


def _check_longer(peer: str, claim: Claim, most: int, *, late: bool) -> None:
    if claim.reveals > most and not late:
        raise JoinError(
            "SFY-JOIN-013",
            f"Party {peer} says that it has {claim.reveals} openings of this run, and without us "
            f"there can be {most} at most. If we have lost our record, come back with the --output "
            f"folder of before; if that is lost, {_NEW_RUN}",
        )


def _check_same(claims: list[Claim]) -> None:
    if not _are_the_same(claims):
        raise EndOfRun(
            "SFY-JOIN-014",
            "Two parties have a different record of what was revealed. This run ends here. "
            + NEW_RUN,
        )


def _differ(peer: str) -> NoReturn:
    raise EndOfRun(
        "SFY-JOIN-008",
        f"Party {peer} has another record of what was revealed than we. This run ends here. "
        + NEW_RUN,
    )

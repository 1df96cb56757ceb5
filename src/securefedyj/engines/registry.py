"""The engines there are, and what is to be known about each: one entry per engine.

Everything that depends on the engine of a run is looked up here: who computes, how a party
connects, and the sentences about secrecy in the audit's statement and in the report. Sections 8
and 10 of docs/protocol.md describe the engines, docs/security.md what they protect. An engine's own
code is imported only when it is used: whoever reads a transcript needs the words alone.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from securefedyj.engines.additive import packed_size
from securefedyj.engines.digests import DIGEST_BYTES
from securefedyj.engines.interface import Engine
from securefedyj.errors import InputError

if TYPE_CHECKING:
    from securefedyj.engines.mpyc.runtime import Finished
    from securefedyj.party.machine import Party


class Connect(Protocol):
    """Connects the party of a name."""

    def __call__(
        self,
        name: str,
        parties: Sequence[str],
        committee: Sequence[str],
        silos: Sequence[str],
    ) -> Coroutine[Any, Any, Engine]:
        """The parties and the committee are in the agreed order; silos are those with data."""


Launch: TypeAlias = Callable[
    [Callable[..., Coroutine[Any, Any, Any]], Mapping[str, tuple[Any, ...]]],
    "Mapping[str, Finished[Any]]",
]
"""Runs `program(engine, *inputs[name])` for every name, each in a process of its own."""


@dataclass(frozen=True)
class Facts:
    """What is to be known about one engine. Sentences are plain text, without markup."""

    name: str
    secure: bool
    """Whether it keeps anything secret. Whoever uses an engine that does not must say so."""
    fewest_parties: int
    """With fewer, it could not keep its promise."""
    committee_size: int | None
    """How many of the parties compute, the first ones; None for all of them."""
    statement: tuple[str, ...]
    """What was kept secret, in lines of the audit's statement."""
    what_left: str
    """What left the silos."""
    what_stayed: str
    """What nobody learned from the protocol."""
    collusion: Callable[[Sequence[str], int], str]
    """Who must not collude, by the names of the committee and the number of silos."""
    connect: Connect
    """How a party begins with it."""
    largest_message: Callable[[int, int], int]
    """Payload bytes of the largest message when `size` integers of `limbs` limbs are shared,
    multiplied, compared, taken apart or opened at once. Operations that run in lockstep share their
    messages: theirs add up."""
    verifies: bool = False
    """Whether it has verified exchanges (`Engine.verified`)."""
    networked: bool = True
    """Whether parties on the network may agree on it."""
    launch: Launch | None = None
    """How all parties run on one machine, each in a process of its own; None for in one process."""
    party: Callable[..., Party[Any]] | None = None
    """What drives a program on the network in place of `Party`, with the same arguments."""
    check_ready: Callable[[], None] = lambda: None
    """Raises ImportError, with a sentence, where a library is missing."""
    most_ahead: Callable[[int, int, int], int] | None = None
    """Payload bytes that one party sends another while so many integers of so many limbs are dealt
    with, among so many parties; None where a few of the largest messages are the most."""
    largest_verified: Callable[[int, int], int] | None = None
    """The same as `largest_message`, of a verified exchange that ends a batch of `size` features,
    none of which needs more than so many limbs; None for an engine that has none."""

    def committee_of(self, parties: Sequence[str]) -> tuple[str, ...]:
        """Who computes, of all parties in their order."""
        if len(parties) < self.fewest_parties:
            raise InputError(
                "SFY-ENG-022",
                f"{len(parties)} parties cannot keep secrets from each other with engine "
                f"{self.name!r}: it needs {self.fewest_parties}, because what two compute together "
                "each of them can undo. Add a computing party without data, such as a coordinator: "
                "fit([X_1, X_2, None]).",
            )
        return tuple(parties[: self.committee_size])


async def _connect_replicated(
    name: str, parties: Sequence[str], committee: Sequence[str], silos: Sequence[str]
) -> Engine:
    from securefedyj.engines.replicated import connect

    first, second, third = committee
    return await connect(name, parties, (first, second, third), silos)


async def _connect_clear(
    name: str, parties: Sequence[str], committee: Sequence[str], silos: Sequence[str]
) -> Engine:
    from securefedyj.engines.clear import Clear

    return Clear(name, parties)


def _launch_mpyc(
    program: Callable[..., Coroutine[Any, Any, Any]], inputs: Mapping[str, tuple[Any, ...]]
) -> Mapping[str, Finished[Any]]:
    from securefedyj.engines.mpyc import runtime

    return runtime.run(program, inputs)


async def _connect_mpyc(
    name: str, parties: Sequence[str], committee: Sequence[str], silos: Sequence[str]
) -> Engine:
    from securefedyj.engines.mpyc.engine import Mpyc
    from securefedyj.engines.mpyc.party import work

    return Mpyc(work, parties)


def _mpyc_party(*arguments: Any, **options: Any) -> Party[Any]:
    from securefedyj.engines.mpyc.party import MpycParty

    return MpycParty(*arguments, **options)


def _check_mpyc() -> None:
    from securefedyj.engines.mpyc.runtime import check_installed

    check_installed()


def _largest_of_mpyc(size: int, limbs: int) -> int:
    """A piece of MPyC's stream."""
    from securefedyj.engines.mpyc.party import LARGEST_PIECE

    return LARGEST_PIECE


def _most_ahead_of_mpyc(size: int, limbs: int, parties: int) -> int:
    """To compare integers or to take them apart, a few field elements for each of their bits.

    Measured: of K parties about K / 2 + 1.5 to compare them; 8 to take them apart with K = 3, and
    11 with K = 10. This is twice as much. It is done with `BLOCK` integers at a time, of each width
    that occurs, and all wait for all others on the way: nobody is ahead by more than a block. All
    are shared, multiplied and opened at once, with an element for each bit at most.
    """
    from securefedyj.engines.mpyc.engine import BLOCK

    element, elements = 8 * limbs + 9, 2 * (8 + parties // 2)
    at_once = min(size, (limbs + 1) * BLOCK)
    return (1 << 20) + element * 64 * limbs * (elements * at_once + size)


def _largest_of_replicated(size: int, limbs: int) -> int:
    """The table of `negative`: 240 planes of bits for each limb, and one more.

    Per integer that is 30 bytes a limb; an opening to a party outside, the next largest, has 16.
    A digest travels with inputs, of 8 bytes a limb; where there are next to none, with two keys.
    """
    return max((240 * limbs + 1) * packed_size(size), 8 * limbs * size + DIGEST_BYTES, 64)


def _largest_when_verified(size: int, limbs: int) -> int:
    """Inputs, with a limb to spare; or the evaluations of a proof, one bit a gate.

    A feature has at most 14 inputs, some 44 gates for each bit of an integer (those of `bits` are
    the most, and grow with the logarithm). Bytes of gates are whole in each group, of 256 or more.
    """
    inputs = 8 * (limbs + 1) * 14 * size + 256 * limbs + DIGEST_BYTES
    evaluations = 44 * 64 * limbs * (packed_size(size) + size // 256 + 1) + 2048
    return max(inputs, evaluations)


def _largest_of_clear(size: int, limbs: int) -> int:
    """The inputs, and a digest with them."""
    return 8 * limbs * size + DIGEST_BYTES


def _two_members(committee: Sequence[str], silos: int) -> str:
    first, second, third = committee
    words = f"Any two of {first}, {second} and {third}. Two of them together could have seen "
    if silos <= 3:
        return words + (
            "the exact sums of one silo by itself, at every step: treat that as having seen its "
            "rows."
        )
    return words + (
        "exact sums over all silos but their own, taken together, at every step, and of no silo by "
        "itself."
    )


def _half_of_all(committee: Sequence[str], silos: int) -> str:
    return f"{(len(committee) - 1) // 2 + 1} or more of the {len(committee)} parties."


def _nobody(committee: Sequence[str], silos: int) -> str:
    return "There was nothing to protect by keeping parties apart."


_SHARES_LEFT = (
    "No row and no value. Each silo computed sums over its own rows and sent them split into "
    "shares: numbers that look random to whoever holds one of them."
)
_SUMS_STAYED = (
    "Any value or row of another silo; any sum, mean or count of a single silo; which silo "
    "contributed how much."
)

ENGINES: Mapping[str, Facts] = {
    facts.name: facts
    for facts in (
        Facts(
            name="replicated",
            secure=True,
            fewest_parties=3,
            committee_size=3,
            statement=(
                "The protocol reveals no value, no sum and no count of a single silo: they were",
                "shared among the three members of the committee, of whom no one alone can put",
                "them together.",
            ),
            what_left=_SHARES_LEFT,
            what_stayed=_SUMS_STAYED,
            collusion=_two_members,
            verifies=True,
            connect=_connect_replicated,
            largest_message=_largest_of_replicated,
            largest_verified=_largest_when_verified,
        ),
        Facts(
            name="mpyc",
            secure=True,
            fewest_parties=3,
            committee_size=None,
            statement=(
                "The protocol reveals no value, no sum and no count of a single silo: they were",
                "shared among all parties, of whom no minority can put them together.",
            ),
            what_left=_SHARES_LEFT,
            what_stayed=_SUMS_STAYED,
            collusion=_half_of_all,
            connect=_connect_mpyc,
            launch=_launch_mpyc,
            party=_mpyc_party,
            check_ready=_check_mpyc,
            largest_message=_largest_of_mpyc,
            most_ahead=_most_ahead_of_mpyc,
        ),
        Facts(
            name="clear",
            secure=False,
            fewest_parties=1,
            committee_size=None,
            statement=(
                "This engine keeps NOTHING secret: every party saw the sums of every silo.",
            ),
            what_left=(
                "Sums over each silo's rows, readable by every party: this engine is for tests "
                "and does not protect them."
            ),
            what_stayed=("The rows themselves. The sums and counts of each silo were open to all."),
            collusion=_nobody,
            connect=_connect_clear,
            networked=False,
            largest_message=_largest_of_clear,
        ),
    )
}


def facts_of(engine: str) -> Facts:
    """The entry of an engine; an unknown one is refused."""
    if engine not in tuple(ENGINES):  # also what cannot be hashed
        raise InputError(
            "SFY-ENG-021", f"engine must be one of {', '.join(map(repr, ENGINES))}, got {engine!r}"
        )
    return ENGINES[engine]

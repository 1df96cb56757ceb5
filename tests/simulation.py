"""Consortia to run programs in, for tests."""

import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from securefedyj.engines import Engine, registry
from securefedyj.numerics import wide
from securefedyj.party.inprocess import run
from securefedyj.party.machine import Party
from securefedyj.party.messages import Kind, Message

Program = Callable[[Engine, str], Awaitable[Any]]


@dataclass(frozen=True)
class Consortium:
    """Who takes part, who computes, and who has data."""

    parties: tuple[str, ...]
    committee: tuple[str, str, str]
    silos: tuple[str, ...]


THREE = Consortium(("ana", "bob", "cem"), ("ana", "bob", "cem"), ("ana", "bob", "cem"))
FIVE = Consortium(
    ("ana", "bob", "cem", "dua", "eva"), ("dua", "ana", "cem"), ("ana", "bob", "cem", "dua", "eva")
)
TWO = Consortium(("ana", "bob", "coordinator"), ("ana", "bob", "coordinator"), ("ana", "bob"))
CONSORTIA = {"three": THREE, "five": FIVE, "two": TWO}


@dataclass
class Recorder:
    """An observer that keeps every message."""

    messages: list[Message] = field(default_factory=list)

    def __call__(self, message: Message) -> Iterable[Message]:
        self.messages.append(message)
        return [message]

    def payloads(self, kind: Kind) -> list[bytes]:
        return [message.payload for message in self.messages if message.kind & kind]


# Those that can run in one process.
ENGINES = {
    facts.name: facts.connect for facts in registry.ENGINES.values() if not facts.in_parallel
}


def assemble(program: Program, consortium: Consortium, engine: str) -> list[Party[Any]]:
    """The parties, each about to connect its engine and run the program with it."""

    async def connect_and_run(name: str) -> Any:
        connected = await ENGINES[engine](
            name, consortium.parties, consortium.committee, consortium.silos
        )
        return await program(connected, name)

    session = secrets.token_bytes(16)
    return [
        Party(
            name,
            consortium.parties,
            connect_and_run(name),
            session=session,
            parameters=b"agreed upon",
        )
        for name in consortium.parties
    ]


def simulate(
    program: Program,
    consortium: Consortium = THREE,
    engine: str = "replicated",
    observe: Callable[[Message], Iterable[Message]] | None = None,
) -> list[Any]:
    return run(assemble(program, consortium, engine), observe)


def wrapped(value: int, limbs: int) -> int:
    """The two's complement value of any integer, by the definition."""
    half = 1 << (64 * limbs - 1)
    return (value + half) % (2 * half) - half


def split(values: list[int], consortium: Consortium, limbs: int) -> Mapping[str, wide.Limbs]:
    """Random inputs of the silos that sum to the given values; none for parties without data."""
    *others, last = consortium.silos
    parts = {
        silo: [wrapped(secrets.randbits(64 * limbs), limbs) for _ in values] for silo in others
    }
    parts[last] = [
        wrapped(value - sum(terms), limbs)
        for value, *terms in zip(values, *parts.values(), strict=True)
    ]
    return {silo: wide.from_ints(part, limbs) for silo, part in parts.items()}

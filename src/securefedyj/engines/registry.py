"""The engines, and the facts about each: one entry per engine.

Everything that depends on the engine of a run is looked up here, except the sentences about
secrecy (`protocol/secrecy.py`). Sections 8 and 10 of docs/protocol.md describe the engines,
docs/security.md what they protect. What needs MPyC is imported when it is used.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from securefedyj.engines import clear
from securefedyj.engines.interface import Engine
from securefedyj.engines.mpyc import LARGEST_PIECE
from securefedyj.engines.replicated import engine as replicated
from securefedyj.engines.replicated.counting import count_rounds
from securefedyj.errors import InputError
from securefedyj.party import inprocess
from securefedyj.party.machine import Party

Connect: TypeAlias = Callable[
    [str, Sequence[str], Sequence[str], Sequence[str]], Coroutine[Any, Any, Engine]
]
"""Connects the party of a name, by all parties, the committee and the silos with data, in order."""


@dataclass(frozen=True)
class Facts:
    """The facts about one engine."""

    name: str
    secure: bool
    """Whether it keeps anything secret; reports warn where an engine does not."""
    fewest_parties: int
    """With fewer, it could not keep its promise."""
    committee_size: int | None
    """How many of the parties compute, the first ones; None for all of them."""
    connect: Connect
    """How a party begins with it."""
    verifies: bool = False
    """Whether it has verified exchanges (`Engine.verified`)."""
    networked: bool = True
    """Whether parties on the network may agree on it."""
    party: Callable[..., Party[Any]] = Party
    """What drives a program."""
    run: Callable[[Sequence[Party[Any]]], list[Any]] = inprocess.run
    """Runs all parties on this machine."""
    in_parallel: bool = False
    """Whether they compute at the same time there, in processes of their own."""
    check_ready: Callable[[], None] = lambda: None
    """Raises ImportError, with a sentence, where a library is missing."""
    count_rounds: Callable[..., Sequence[Any]] | None = None
    """Counts the rounds of a program and their bytes, at most (`replicated.counting`)."""
    largest_piece: int | None = None
    """Most payload bytes of a message, of an engine that sends streams."""
    most_ahead: Callable[[int, int, int], int] | None = None
    """Payload bytes of a stream that one party sends another while it handles this many integers of
    this many limbs, among this many parties."""

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


def _of_mpyc(module: str, name: str) -> Callable[..., Any]:
    """A function of engine `mpyc`, whose module is imported when it is called."""

    def call(*arguments: Any, **options: Any) -> Any:
        found = getattr(importlib.import_module(f"securefedyj.engines.mpyc.{module}"), name)
        return found(*arguments, **options)

    return call


ENGINES: Mapping[str, Facts] = {
    facts.name: facts
    for facts in (
        Facts(
            name="replicated",
            secure=True,
            fewest_parties=3,
            committee_size=3,
            verifies=True,
            connect=replicated.connect,
            count_rounds=count_rounds,
        ),
        Facts(
            name="mpyc",
            secure=True,
            fewest_parties=3,
            committee_size=None,
            connect=_of_mpyc("engine", "connect"),
            party=_of_mpyc("party", "MpycParty"),
            run=_of_mpyc("party", "run"),
            in_parallel=True,
            check_ready=_of_mpyc("library", "check_installed"),
            largest_piece=LARGEST_PIECE,
            most_ahead=_of_mpyc("engine", "most_ahead"),
        ),
        Facts(
            name="clear",
            secure=False,
            fewest_parties=1,
            committee_size=None,
            connect=clear.connect,
            # Its inputs are as large as with `replicated`, and it sends nothing else.
            count_rounds=count_rounds,
            networked=False,
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

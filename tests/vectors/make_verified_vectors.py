"""Write verified.json: what all parties send in a verified final opening. README.md explains it.

python tests/vectors/make_verified_vectors.py
"""

import hashlib
import json
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from securefedyj.engines.replicated import inputs
from securefedyj.engines.replicated.engine import Replicated
from securefedyj.engines.replicated.keystream import Keystream, Masks
from securefedyj.engines.replicated.shares import Member, Outsider
from securefedyj.numerics import wide
from securefedyj.numerics.encoding import Domain, choose_encoding
from securefedyj.numerics.sums import ArraySilo
from securefedyj.party.inprocess import run
from securefedyj.party.machine import Party
from securefedyj.party.messages import Kind, Message
from securefedyj.protocol.agreement import Agreement
from securefedyj.protocol.course import Course
from securefedyj.protocol.program import secure_fed_yj
from securefedyj.protocol.simulation import simulate
from securefedyj.protocol.transcript import Transcript

FILE = Path(__file__).with_name("verified.json")
PARTIES = ("north", "west", "south", "east")
COMMITTEE = ("south", "north", "east")
OUTSIDER = "west"
NONE = np.nan
Feature = tuple[float, float, dict[str, list[float]]]
"""Bounds, and the column of each silo."""
SILOS: dict[str, Feature] = {
    "turns": (-1.5, 1.5, {
        "north": [0.25, -0.5], "west": [0.375, 1.375], "south": [-1.0], "east": [-0.375, 0.125],
    }),
    "climbs": (0, 1.2, {
        "north": [1.1, 1.2], "west": [1.0, 1.15], "south": [0.25], "east": [1.175, NONE],
    }),
    "fixed": (-1.5, 0, {
        "north": [-0.75] * 2, "west": [NONE, -0.75], "south": [-0.75], "east": [NONE, -0.75],
    }),
    "single": (0, 1, {
        "north": [NONE] * 2, "west": [0.75, NONE], "south": [NONE], "east": [NONE] * 2,
    }),
    "another": (-1.5, 0, {
        "north": [NONE] * 2, "west": [NONE] * 2, "south": [-0.375], "east": [NONE] * 2,
    }),
    "empty": (0, 1, {
        "north": [NONE] * 2, "west": [NONE] * 2, "south": [NONE], "east": [NONE] * 2,
    }),
}  # fmt: skip
HELPER: dict[str, Feature] = {
    "fixed": (0, 0.9, {"north": [0.5], "west": [0.5], "south": [0.5]}),
    "single": (0, 0.9, {"north": [NONE], "west": [0.75], "south": [NONE]}),
}


def key(label: str) -> bytes:
    """A fixed key: never do this outside of test vectors."""
    return hashlib.sha256(b"securefedyj test vector verified " + label.encode()).digest()


KEYS = [key(f"k{i}") for i in range(3)]
FRESH_KEYS = [[key(f"u{i} of vector {vector}") for i in range(2)] for vector in range(4)]
"""What the outsider draws."""


class Noted:
    """A log that keeps what a member accepts."""

    part = b""

    def accepted(self, transcript: Transcript, part: bytes) -> None:
        self.part = part

    def exchange(self, transcript: Transcript) -> None:
        pass

    opening = revealed = exchange


class Setting:
    """All parties before the final opening.

    Parameters
    ----------
    features
        By name. Whoever has no column is a helper.
    """

    def __init__(self, features: dict[str, Feature]) -> None:
        columns = [column for *_, column in features.values()]
        tables = {party: np.array([c[party] for c in columns]).T for party in columns[0]}
        self.silos = [party for party in PARTIES if party in tables]
        self.agreement = Agreement(
            features=tuple(features),
            domain=Domain.from_bounds([bounds for *bounds, _ in features.values()], len(features)),
            parties=PARTIES,
            committee=COMMITTEE,
            engine="replicated",
            max_steps=3,
            levels_per_exchange=2,
            result_bits=20,
            minimum_values=0,
            helpers=tuple(party for party in PARTIES if party not in tables),
            verified=True,
        )
        whole, _ = simulate(self.agreement, [tables.get(party) for party in PARTIES])
        *self.lines, self.reveal, _ = whole.to_lines()
        self.table = {
            silo: ArraySilo(tables[silo], self.agreement.domain, list(features))
            for silo in self.silos
        }
        self.mask_keys = {
            pair: key("mask " + " ".join(pair)) for pair in combinations(self.silos, 2)
        }

    def engine(self, name: str) -> Replicated:
        """The engine of a party with the fixed keys."""
        added, subtracted = (
            [Keystream(own) for pair, own in self.mask_keys.items() if pair[place] == name]
            for place in range(2)
        )
        role: Member | Outsider
        if name == OUTSIDER:
            role = Outsider(COMMITTEE, [])
        else:
            index = COMMITTEE.index(name)
            streams = {i: Keystream(KEYS[i]) for i in (index, (index + 1) % 3)}
            role = Member(index, COMMITTEE, streams, [OUTSIDER], [])
        return Replicated(role, Masks(added, subtracted), PARTIES, name, self.silos)

    async def program(self, name: str, log: Noted, again: bool) -> dict[str, Any]:
        """The final opening, computed or from what was noted; returns what it reveals."""
        before = Transcript.from_lines(self.lines)
        accepted = (len(before.reveals), log.part) if again else None
        transcript = await secure_fed_yj(
            self.engine(name), self.table.get(name), self.agreement, before, log, accepted
        )
        (reveal,) = list(transcript.to_lines())[len(self.lines) :]
        return reveal

    def rounds(self, noted: dict[str, Noted], *, again: bool = False) -> list[dict[str, Any]]:
        """All that is sent, after the greeting."""
        messages: list[Message] = []

        def observe(message: Message) -> list[Message]:
            messages.append(message)
            return [message]

        parties = [
            Party(
                name,
                PARTIES,
                self.program(name, noted[name], again),
                session=bytes(16),
                parameters=b"",
            )
            for name in PARTIES
        ]
        fresh = (u for vector in FRESH_KEYS for u in vector)
        with patch.object(inputs, "fresh_key", lambda: next(fresh)):
            revealed = run(parties, observe)
        assert all(reveal == self.reveal for reveal in revealed)
        numbers = sorted({message.round for message in messages if message.kind != Kind.HELLO})
        return [self._round(number, messages) for number in numbers]

    def _round(self, number: int, messages: Sequence[Message]) -> dict[str, Any]:
        own = [message for message in messages if message.round == number]
        (kind,) = {message.kind for message in own}
        sent = {f"{m.sender} {m.recipient}": m.payload.hex() for m in own}
        return {"round": number, "kind": str(kind), "sent": dict(sorted(sent.items()))}

    def points(self) -> list[tuple[int, float]]:
        """Features and lambdas of all sums: 0, the ends of the bracket, lambda*."""
        course = Course.of(Transcript.from_lines(self.lines))
        some = np.flatnonzero(course.n > 0)
        varying = np.flatnonzero(course.varies)
        _, *ends = course.bracket.take(varying)
        points = {(int(j), 0.0) for j in np.flatnonzero(course.n > 1)}
        points |= set(zip(some.tolist(), course.optimum(some).tolist(), strict=True))
        for end in ends:
            points |= set(zip(varying.tolist(), end.tolist(), strict=True))
        return sorted(point for point in points if np.isfinite(point[1]))

    def sums(self, feature: int, lmbda: float) -> dict[str, Any]:
        """The encoding of a feature at a lambda, and the sums of every silo."""
        chosen, at = np.array([feature]), np.array([lmbda])
        domain = self.agreement.domain.take(chosen)
        n = sum(int(silo.count[feature]) for silo in self.table.values())
        encoding = choose_encoding(domain, np.array([n]), at)
        limbs = int(encoding.limbs[0])
        silos = {}
        for name, silo in self.table.items():
            parts = [*silo.sums(chosen, at, encoding, limbs), silo.phi_sum(chosen, limbs)]
            named = zip(("y", "d", "yy", "yd", "phi"), parts, strict=True)
            silos[name] = {label: hex(wide.to_ints(part)[0]) for label, part in named}
        return {
            "feature": feature,
            "lambda": lmbda,
            "f_phi": int(domain.phi_grid()[0]),
            "y_bits": max(int(s.y_bits[0]) for s in (encoding.positive, encoding.negative)),
            "v_bits": int(encoding.v_bits[0]),
            "sum_bits": int(encoding.sum_bits[0]),
            "silos": silos,
        }

    def vectors(self) -> dict[str, Any]:
        """What the file has of it."""
        noted = {name: Noted() for name in PARTIES}
        return {
            "mask_keys": {" ".join(pair): own.hex() for pair, own in self.mask_keys.items()},
            "transcript": [json.dumps(line) for line in self.lines],
            "counts": {name: silo.count.tolist() for name, silo in self.table.items()},
            "sums": [self.sums(*point) for point in self.points()],
            "rounds": self.rounds(noted),
            "noted": {name: noted[name].part.hex() for name in COMMITTEE},
            "rounds_from_noted": self.rounds(noted, again=True),
            "reveal": json.dumps(self.reveal),
        }


def vectors() -> dict[str, Any]:
    """The content of the file."""
    return {
        "version": 2,
        "keys": [own.hex() for own in KEYS],
        "fresh_keys": [[u.hex() for u in pair] for pair in FRESH_KEYS],
        "silos": Setting(SILOS).vectors(),
        "helper": Setting(HELPER).vectors(),
    }


if __name__ == "__main__":
    FILE.write_text(json.dumps(vectors(), indent=1) + "\n", encoding="utf-8")

"""Write replicated.json: what engine `replicated` sends for fixed keys. README.md explains it.

python tests/vectors/make_vectors.py
"""

import hashlib
import json
from itertools import combinations
from pathlib import Path
from typing import Any

from securefedyj.engines.replicated.engine import Replicated
from securefedyj.engines.replicated.keystream import Keystream, Masks
from securefedyj.engines.replicated.shares import Member, Outsider
from securefedyj.numerics import wide
from securefedyj.party.inprocess import run
from securefedyj.party.machine import Party
from securefedyj.party.messages import Kind, Message
from securefedyj.party.rounds import in_lockstep

FILE = Path(__file__).with_name("replicated.json")
COMMITTEE = ("member0", "member1", "member2")
PARTIES = (*COMMITTEE, "outsider")
LIMBS = 2
DIGEST = hashlib.sha256(b"securefedyj test vector digest").digest()


def key(label: str) -> bytes:
    """A fixed key: never do this outside of test vectors."""
    return hashlib.sha256(b"securefedyj test vector " + label.encode()).digest()


KEYS = {"k0": key("k0"), "k1": key("k1"), "k2": key("k2")}
OUTSIDER_KEYS = {"member0": key("outsider 0"), "member1": key("outsider 1")}
# Of each pair of silos, the earlier one first.
MASK_KEYS = {
    f"{first} {second}": key(f"mask {first} {second}") for first, second in combinations(PARTIES, 2)
}
FIRST = {
    "member0": [1, -1, 2**126, 0, -5],
    "member1": [2, -1, 2**126 - 1, 0, 3],
    "member2": [3, 2, 0, -(2**127), 2**64],
    "outsider": [4, -1, 0, 0, -(2**64)],
}
SECOND = {name: [7, -3, 2**100, 1, index] for index, name in enumerate(PARTIES)}


def engine(name: str) -> Replicated:
    """The engine of a party with the fixed keys."""
    inputs = [Keystream(k) for member, k in OUTSIDER_KEYS.items() if name in (member, "outsider")]
    if name == "outsider":
        return Replicated(Outsider(COMMITTEE, inputs), masks(name), PARTIES, name, PARTIES)
    index = COMMITTEE.index(name)
    streams = {i: Keystream(KEYS[f"k{i}"]) for i in (index, (index + 1) % 3)}
    member = Member(index, COMMITTEE, streams, ["outsider"], inputs)
    return Replicated(member, masks(name), PARTIES, name, PARTIES)


def masks(name: str) -> Masks:
    """The masks of a silo: all parties are."""
    pairs = [pair.split() for pair in MASK_KEYS]
    added, subtracted = (
        [Keystream(MASK_KEYS[" ".join(pair)]) for pair in pairs if pair[place] == name]
        for place in range(2)
    )
    return Masks(added, subtracted)


async def share(name: str) -> Any:
    secure = engine(name)
    size = len(FIRST[name])
    _, x = await in_lockstep(
        secure.agree(DIGEST),
        secure.share(wide.from_ints(FIRST[name], LIMBS), size=size, limbs=LIMBS),
    )
    return [str(value) for value in wide.to_ints(await secure.open(x))]


async def product(name: str) -> Any:
    secure = engine(name)
    size = len(FIRST[name])
    x = await secure.share(wide.from_ints(FIRST[name], LIMBS), size=size, limbs=LIMBS)
    y = await secure.share(wide.from_ints(SECOND[name], LIMBS), size=size, limbs=LIMBS)
    opened = await secure.open(await secure.multiply(x, y))
    return [str(value) for value in wide.to_ints(opened)]


async def sign(name: str) -> Any:
    secure = engine(name)
    size = len(FIRST[name])
    x = await secure.share(wide.from_ints(FIRST[name], LIMBS), size=size, limbs=LIMBS)
    return (await secure.open_bits(await secure.negative(x))).tolist()


def transcript(program: Any) -> dict[str, Any]:
    """All messages of one program, after the greeting, and what it opens."""
    messages: list[Message] = []

    def observe(message: Message) -> list[Message]:
        messages.append(message)
        return [message]

    parties = [
        Party(name, PARTIES, program(name), session=bytes(16), parameters=b"") for name in PARTIES
    ]
    opened, *others = run(parties, observe)
    assert all(other == opened for other in others)
    return {
        "opened": opened,
        "messages": [
            {
                "round": message.round,
                "kind": str(message.kind),
                "sender": message.sender,
                "recipient": message.recipient,
                "payload": message.payload.hex(),
            }
            for message in sorted(messages, key=lambda m: (m.round, m.sender, m.recipient))
            if message.kind != Kind.HELLO
        ],
    }


def vectors() -> dict[str, Any]:
    """The content of the file."""
    decimal = {
        label: {name: [str(value) for value in values] for name, values in inputs.items()}
        for label, inputs in (("x", FIRST), ("y", SECOND))
    }
    return {
        "version": 2,
        "limbs": LIMBS,
        "keys": {name: value.hex() for name, value in KEYS.items()},
        "outsider_keys": {name: value.hex() for name, value in OUTSIDER_KEYS.items()},
        "mask_keys": {pair: value.hex() for pair, value in MASK_KEYS.items()},
        "digest": DIGEST.hex(),
        "inputs": decimal,
        "share": transcript(share),
        "product": transcript(product),
        "sign": transcript(sign),
    }


if __name__ == "__main__":
    FILE.write_text(json.dumps(vectors(), indent=1) + "\n")

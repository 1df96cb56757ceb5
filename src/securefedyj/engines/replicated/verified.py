"""The roles in a verified exchange: nobody accepts what one cheating party has falsified.

docs/protocol.md, section 8. Inputs are shared again, with one limb to spare; products are checked
(`products`), bits are taken from the components by conjunctions (`circuits`), which each member
proves to be right (`gates`). `check` runs all of that, and everybody waits until all members
confirm it; nothing is opened before. An opening waits for both holders of every component, which
send it in full.
"""

from collections.abc import Callable, Sequence

import numpy as np

from securefedyj.engines.replicated import products
from securefedyj.engines.replicated.gates import CHALLENGE_BYTES, Gates, Layout
from securefedyj.engines.replicated.inputs import Givers, share_as_member, share_as_outsider
from securefedyj.engines.replicated.keystream import KEY_BYTES
from securefedyj.engines.replicated.products import Products
from securefedyj.engines.replicated.shares import BITS, INTEGERS, Bits, Integers, Member, Outsider
from securefedyj.errors import Unverified
from securefedyj.numerics.wide import Limbs
from securefedyj.party.messages import Kind
from securefedyj.party.rounds import in_lockstep, play_round

_ACCEPTED = _READY = b"\x01"


class VerifiedMember:
    """A member that keeps a record of what it computes, and proves it."""

    def __init__(self, member: Member, givers: Givers, peers: Sequence[str]) -> None:
        self.held = member.held
        self._member = member
        self._givers = givers
        self._peers = peers
        self._products = Products(member)
        self._gates = Gates()

    async def share(self, values: Limbs) -> Integers:
        return await share_as_member(self._member, values, self._givers)

    async def sum_of_products(self, x: Integers, y: Integers) -> Integers:
        return await self._products.sum_of_products(x, y)

    async def conjunction(self, x: Bits, y: Bits) -> Bits:
        """Multiply bits, and keep what the proof needs."""
        term = BITS.local_product(x, y)
        draw = self._member.set_aside(BITS, term.shape)
        plus, minus = draw()
        term ^= plus
        term ^= minus
        payload = BITS.to_bytes(term)
        incoming = await self._member.among_members({-1: payload}, {+1: len(payload)}, Kind.CARRY)
        z = np.stack([term, BITS.from_bytes(incoming[+1], term.shape)])
        self._gates.record(x, y, lambda: draw()[0], minus, z)
        return z

    async def challenge(self) -> bytes:
        """Open a seed, once both other members have said that they have all inputs. Two rounds."""
        await products.meet(self._member, _READY, "the word that all inputs are there")
        return INTEGERS.to_bytes(await products.open_random(self._member, KEY_BYTES // 8))

    async def check(self, accept: Callable[[], None]) -> None:
        """Check products and gates; then wait until all members have done so."""
        await in_lockstep(self._products.check(), self._prove())
        accept()
        await _hear_members(self._member.committee, dict.fromkeys(self._peers, _ACCEPTED))

    async def _prove(self) -> None:
        """Prove this member's gates, and check the proofs of the two others. Two rounds."""
        proof = self._gates.check(*self._member.keystreams())
        layout = proof.layout
        outgoing = {+1: proof.challenge(), -1: proof.evaluations()}
        proof.forget_evaluations()
        challenged = await self._member.among_members(
            outgoing, {-1: CHALLENGE_BYTES, +1: layout.evaluation_bytes}
        )
        del outgoing  # large
        payload = proof.proof(challenged[-1])
        proof.forget_proof()
        proved = await self._member.among_members({+1: payload}, {-1: layout.proof_bytes})
        if not proof.accepts(proved[-1], challenged[+1]):
            raise Unverified(
                "SFY-ENG-028",
                "A check has failed: the gates of a member are not what the protocol asks for. One "
                "of the members does not follow it. Nothing of the result was revealed, and there "
                "is none.",
            )


class VerifiedOutsider:
    """A party outside the committee: it gives inputs, and receives openings after all checks."""

    def __init__(self, name: str, outsider: Outsider, givers: Givers) -> None:
        self.held = outsider.held
        self._name = name
        self._outsider = outsider
        self._givers = givers
        self._factors, self._gates = 0, 0  # bytes to be checked

    async def share(self, values: Limbs) -> Integers:
        return await share_as_outsider(self._name, self._outsider, values, self._givers)

    async def sum_of_products(self, x: Integers, y: Integers) -> Integers:
        total = y[:, :, 0]
        self._factors += INTEGERS.size(x)
        await self._outsider.pass_round(Kind.PRODUCT, 2 * INTEGERS.size(total))
        return total

    async def conjunction(self, x: Bits, y: Bits) -> Bits:
        self._gates += BITS.size(y)
        return await self._outsider.conjunction(x, y)

    async def challenge(self) -> bytes:
        """Pass two rounds; who holds nothing needs no seed."""
        await self._pass((len(_READY), KEY_BYTES))
        return bytes(KEY_BYTES)

    async def check(self, accept: Callable[[], None]) -> None:
        """Wait until all members have checked everything."""
        layout = Layout.of(self._gates)
        proof = layout.evaluation_bytes, layout.proof_bytes
        await in_lockstep(self._pass(products.check_sizes(self._factors)), self._pass(proof))
        self._factors, self._gates = 0, 0
        await _hear_members(self._outsider.committee, {})

    async def _pass(self, sizes: Sequence[int]) -> None:
        for size in sizes:
            await self._outsider.pass_round(Kind.CHECK, size)


async def _hear_members(committee: Sequence[str], outgoing: dict[str, bytes]) -> None:
    """Wait until all members confirm that their checks have passed."""
    expected = {member: len(_ACCEPTED) for member in committee}
    if outgoing:  # of a member, to all others
        expected = {member: size for member, size in expected.items() if member in outgoing}
    for member, word in (await play_round(Kind.CHECK, outgoing, expected)).items():
        if word != _ACCEPTED:
            raise Unverified(
                "SFY-ENG-030", f"Party {member} has not confirmed that its checks passed."
            )

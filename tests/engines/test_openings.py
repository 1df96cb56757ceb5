"""Openings come from both holders of a component, and digests from everybody."""

import random
from dataclasses import replace

import pytest

from securefedyj.errors import ProtocolError
from securefedyj.numerics import wide
from securefedyj.party.inprocess import run
from securefedyj.party.messages import Kind
from securefedyj.party.rounds import in_lockstep
from tests.simulation import ENGINES, FIVE, THREE, Recorder, assemble, simulate, split

VALUES = [3, -5, 1 << 100]
both = pytest.mark.parametrize("consortium", [THREE, FIVE], ids=["three", "five"])
every_engine = pytest.mark.parametrize("engine", ENGINES)


def opener(consortium):
    """Opens integers, then signs beside integers, then multiplies and opens again."""
    inputs = split(VALUES, consortium, 2)

    async def program(engine, name):
        x = await engine.share(inputs.get(name), size=3, limbs=2)
        first = wide.to_ints(await engine.open(x))
        signs = await engine.negative(x)
        second, bits = await in_lockstep(engine.open(x + x), engine.open_bits(signs))
        third = await engine.open(await engine.multiply(x, x))
        return first, wide.to_ints(second), bits.tolist(), wide.to_ints(third)

    return program


SEEN = (
    VALUES,
    [2 * v for v in VALUES],
    [0, 1, 0],
    [9, 25, (1 << 200) % (1 << 128)],
)


def is_opening(message):
    return message.kind == Kind.OPENING


@both
def test_no_single_member_can_withhold_an_opening_from_one_party(consortium):
    for member in consortium.committee:
        for victim in consortium.parties:
            pair = member, victim
            withhold = lambda m, p=pair: (  # noqa: E731
                [] if is_opening(m) and (m.sender, m.recipient) == p else [m]
            )
            assert simulate(opener(consortium), consortium, observe=withhold) == [SEEN] * len(
                consortium.parties
            )


@both
def test_a_member_that_opens_nothing_at_all_keeps_nobody_from_going_on(consortium):
    for member in consortium.committee:
        silent = lambda m, s=member: [] if is_opening(m) and m.sender == s else [m]  # noqa: E731
        for result in simulate(opener(consortium), consortium, observe=silent):
            assert result == SEEN


def flipped(payload, place):
    changed = bytearray(payload)
    changed[place] ^= 1
    return bytes(changed)


def run_in_order(parties, observe, urgency):
    """Deliver everything, the most urgent first."""
    by_name = {party.name: party for party in parties}
    in_flight = [one for party in parties for message in party.start() for one in observe(message)]
    while in_flight:
        in_flight.sort(key=urgency, reverse=True)
        message = in_flight.pop(0)
        for new in by_name[message.recipient].receive(message):
            in_flight += observe(new)


def error_of_the_victim(consortium, member, victim, place, first):
    """Alter the first opening of a member to a victim; let that copy come first, or after others.

    All copies of that opening come before anything else does.
    """
    rounds = set()

    def observe(message):
        if not is_opening(message) or message.recipient != victim:
            return [message]
        rounds.add(message.round)
        if message.sender != member or message.round > min(rounds):
            return [message]
        return [replace(message, payload=flipped(message.payload, place))]

    def urgency(message):
        if message.recipient != victim or message.round not in sorted(rounds)[:1]:
            return 0
        return 1 + (first == (message.sender == member))

    parties = assemble(opener(consortium), consortium, "replicated")
    run_in_order(parties, observe, urgency)
    (error,) = [party.error for party in parties if party.name == victim]
    return error


@both
@pytest.mark.parametrize("place", [0, -1], ids=["first byte", "last byte"])
@pytest.mark.parametrize("first", [True, False], ids=["altered first", "altered last"])
def test_a_member_that_opens_something_else_to_one_party_is_named(consortium, place, first):
    """Whether the altered copy is taken or compared, the party ends, and says between whom."""
    committee = consortium.committee
    for index, member in enumerate(committee):
        for victim in [party for party in consortium.parties if party != member]:
            error = error_of_the_victim(consortium, member, victim, place, first)
            assert isinstance(error, ProtocolError)
            if victim in committee:
                (other,) = set(committee) - {member, victim}
            else:  # whoever else has the component that was altered
                other = committee[index - 1] if place == 0 else committee[(index + 1) % 3]
            words = str(error).split(" sent different parts of one opening: one of the two ")
            assert words[0] in (f"Parties {member} and {other}", f"Parties {other} and {member}")


@both
@pytest.mark.parametrize("seed", range(10))
def test_what_comes_first_does_not_matter(consortium, seed):
    source = random.Random(seed)
    parties = assemble(opener(consortium), consortium, "replicated")
    run_in_order(parties, lambda m: [m], lambda m: source.random())
    assert [party.result for party in parties] == [SEEN] * len(parties)


@both
def test_everybody_gets_every_component_from_both_of_its_holders(consortium):
    recorder = Recorder()
    held = {}

    async def program(engine, name):
        x = await engine.share(None, size=4, limbs=2)
        held[name] = dict(zip(x.held, x.components, strict=True))
        await engine.open(x)

    simulate(program, consortium, observe=recorder)
    openings = [message for message in recorder.messages if is_opening(message)]
    assert len(openings) == 3 * (len(consortium.parties) - 1)
    for message in openings:
        lacking = [
            component.astype("<u8").tobytes()
            for index, component in held[message.sender].items()
            if index not in held[message.recipient]
        ]
        assert message.payload == b"".join(lacking)


@every_engine
@both
def test_digests_that_are_the_same_cost_no_round_beside_inputs(consortium, engine):
    inputs = split(VALUES, consortium, 2)

    def rounds(agreeing):
        async def program(engine, name):
            share = engine.share(inputs.get(name), size=3, limbs=2)
            if not agreeing:
                return wide.to_ints(await engine.open(await share))
            nothing, x = await in_lockstep(engine.agree(bytes(range(32))), share)
            assert nothing is None
            return wide.to_ints(await engine.open(x))

        parties = assemble(program, consortium, engine)
        assert run(parties) == [VALUES] * len(parties)
        return parties[0].rounds, sum(parties[0].bytes_sent.values())

    without, with_digest = rounds(False), rounds(True)
    assert with_digest[0] == without[0]
    assert with_digest[1] > without[1]


@every_engine
@both
@pytest.mark.parametrize("who", ["ana", "bob", "cem"])
def test_another_digest_is_named_before_anything_else_is_sent(consortium, engine, who):
    recorder = Recorder()

    async def program(engine, name):
        digest = bytes([9 if name == who else 7]) * 32
        _, x = await in_lockstep(engine.agree(digest), engine.share(None, size=2, limbs=1))
        await engine.open(await engine.multiply(x, x))

    parties = assemble(program, consortium, engine)
    with pytest.raises(ProtocolError, match="has another record of what was revealed"):
        run(parties, recorder)
    errors = {party.name: party.error for party in parties}
    own = [name for name in errors if isinstance(errors[name], ProtocolError)]
    assert own
    for name in own:
        if name != who:
            sentence = (
                f"Party {who} has another record of what was revealed (digest 0909090909090909)"
            )
            assert str(errors[name]).startswith(sentence)
    kinds = {message.kind for message in recorder.messages}
    assert kinds <= {Kind.HELLO, Kind.KEY, Kind.DIGEST | Kind.INPUT, Kind.STOP}


@every_engine
def test_a_digest_of_another_size_is_refused(engine):
    async def program(engine, name):
        await engine.agree(b"short")

    with pytest.raises(ValueError, match="A digest has 32 bytes, not 5"):
        simulate(program, THREE, engine)

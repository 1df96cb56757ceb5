"""Whatever happens to messages: the right result, or an error that says what happened."""

import random
import secrets
from dataclasses import replace

import pytest

from securefedyj.errors import PartyStopped, ProtocolError, Stalled
from securefedyj.numerics import wide
from securefedyj.party.inprocess import run
from securefedyj.party.machine import MAX_AHEAD, Party
from securefedyj.party.messages import VERSION, Kind, Message
from securefedyj.party.rounds import play_round
from tests.simulation import FIVE, THREE, Recorder, assemble, simulate, split

SECRETS = [1234567890123456789, -987654321987654321]


async def program(engine, name, inputs=None):
    own = None if inputs is None else inputs.get(name)
    x = await engine.share(own, size=2, limbs=2)
    y = await engine.multiply(x, x)
    return wide.to_ints(await engine.open(y)), await engine.open_bits(await engine.negative(x))


def with_inputs(consortium):
    inputs = split(SECRETS, consortium, 2)

    async def own_program(engine, name):
        squares, signs = await program(engine, name, inputs)
        assert signs.tolist() == [0, 1]
        return squares

    return own_program


def forge(kind, change):
    """An observer that changes the first message of a kind."""
    pending = [True]

    def observe(message):
        if message.kind == kind and pending:
            pending.clear()
            return change(message)
        return [message]

    return observe


STEPS = [Kind.HELLO, Kind.KEY, Kind.INPUT, Kind.PRODUCT, Kind.SUMMAND, Kind.CARRY, Kind.OPENING]

FAULTS = {
    "dropped": lambda m: [],
    "duplicated": lambda m: [m, m],
    "truncated": lambda m: [replace(m, payload=m.payload[:-1])],
    "emptied": lambda m: [replace(m, payload=b"")],
    "oversized": lambda m: [replace(m, payload=m.payload + b"\0")],
    "of an earlier round": lambda m: [replace(m, round=max(m.round - 1, 0)), m],
    "of the next round": lambda m: [replace(m, round=m.round + 1)],
    "of a far round": lambda m: [replace(m, round=m.round + MAX_AHEAD + 9)],
    "of a stranger": lambda m: [replace(m, sender="mallory")],
    "of another party": lambda m: [replace(m, sender=next(p for p in THREE.parties if p not in
                                                          (m.sender, m.recipient)))],
    "to another party": lambda m: [replace(m, recipient=next(p for p in THREE.parties if p not in
                                                             (m.sender, m.recipient)))],
    "of another kind": lambda m: [replace(m, kind=m.kind ^ Kind.PRODUCT ^ Kind.OPENING)],
    "of another version": lambda m: [replace(m, version=VERSION + 1)],
    "of another session": lambda m: [replace(m, session=secrets.token_bytes(16))],
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("kind", STEPS, ids=str)
def test_a_faulty_message_never_gives_a_wrong_result(kind, fault):
    try:
        results = simulate(with_inputs(THREE), observe=forge(kind, FAULTS[fault]))
    except (ProtocolError, Stalled) as error:
        text = str(error) + "".join(error.__notes__)
        assert not any(str(value) in text for value in SECRETS)
    else:
        # A second copy that comes when the party is done cannot do any harm, and an opening
        # that does not come is there from its other holder.
        assert fault == "duplicated" or (kind, fault) == (Kind.OPENING, "dropped")
        assert results == [[value**2 for value in SECRETS]] * 3


SENTENCES = {
    "dropped": "No message is in flight, but ana waits in round 2 for bob",
    "duplicated": "The message INPUT of round 2 from ana .*(came twice|out of turn)",
    "truncated": "INPUT of round 2 from ana has the wrong size: expected 32 bytes, got 31",
    "oversized": "INPUT of round 2 from ana has the wrong size: expected 32 bytes, got 33",
    "of an earlier round": "INPUT of round 1 from ana is out of turn: expected round 2",
    "of the next round": "PRODUCT of round 3 from ana came twice; expected it once",
    "of a far round": f"INPUT of round {2 + MAX_AHEAD + 9} from ana is out of turn",
    "of a stranger": "from mallory is addressed to cem; expected one from ana, bob to cem",
    "of another party": "INPUT of round 2 from bob is unexpected: expected INPUT from ana",
    "of another kind": "OPENING of round 2 from ana is unexpected: expected INPUT from ana",
    "of another version": f"ana speaks protocol version {VERSION + 1}, we speak version {VERSION}",
    "of another session": "INPUT of round 2 from ana belongs to another session: expected",
}


@pytest.mark.parametrize("fault", SENTENCES)
def test_the_error_names_sender_round_expected_and_got(fault):
    def observe(message):
        hit = (message.kind, message.sender) == (Kind.INPUT, "ana")
        return FAULTS[fault](message) if hit else [message]

    if fault == "dropped":  # by bob, for whom ana waits
        observe = forge_from("bob", FAULTS[fault])
    with pytest.raises((ProtocolError, Stalled), match=SENTENCES[fault]):
        simulate(with_inputs(THREE), observe=observe)


def forge_from(sender, change):
    def observe(message):
        hit = (message.kind, message.sender) == (Kind.INPUT, sender)
        return change(message) if hit else [message]

    return observe


def test_a_message_for_somebody_else_is_refused():
    ana, bob, cem = assemble(with_inputs(THREE), THREE, "replicated")
    (to_bob,) = (message for message in ana.start() if message.recipient == "bob")
    cem.receive(to_bob)
    with pytest.raises(ProtocolError, match="HELLO of round 0 from ana is addressed to bob"):
        _ = cem.result
    for party in (ana, bob):
        party.stop(RuntimeError("not needed"))


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("consortium", [THREE, FIVE], ids=["three", "five"])
def test_the_order_of_delivery_does_not_matter(consortium, seed):
    source = random.Random(seed)
    parties = {party.name: party for party in assemble(with_inputs(consortium), consortium,
                                                       "replicated")}  # fmt: skip
    in_flight = []
    unstarted = list(parties.values())
    while in_flight or unstarted:
        if unstarted and (not in_flight or source.random() < 0.3):
            in_flight += unstarted.pop().start()
        else:
            message = in_flight.pop(source.randrange(len(in_flight)))
            message = Message.from_bytes(message.to_bytes())
            in_flight += parties[message.recipient].receive(message)
    for party in parties.values():
        assert party.result == [value**2 for value in SECRETS]


def test_other_public_parameters_are_found_before_the_program_starts():
    async def never():
        raise AssertionError("The program must not start.")

    session = secrets.token_bytes(16)
    parties = [
        Party(name, THREE.parties, never(), session=session, parameters=parameters)
        for name, parameters in zip(THREE.parties, [b"same", b"same", b"other"], strict=True)
    ]
    with pytest.raises(ProtocolError, match="Party cem has other public parameters"):
        run(parties)


def test_an_error_stays_at_its_party_and_the_others_learn_only_that_it_stopped():
    recorder = Recorder()

    async def failing(engine, name):
        shared = await engine.share(None, size=1, limbs=1)
        if name == "bob":
            raise ValueError(f"row 17 holds {SECRETS[0]}")
        return await engine.open(await engine.multiply(shared, shared))

    parties = assemble(failing, THREE, "replicated")
    with pytest.raises(ValueError, match="row 17") as caught:
        run(parties, recorder)
    assert caught.value.__notes__ == ["(at party bob, in round 3)"]
    stops = [message for message in recorder.messages if message.kind == Kind.STOP]
    assert {(m.sender, m.recipient, m.payload) for m in stops} == {
        ("bob", "ana", b""),
        ("bob", "cem", b""),
    }
    for party in (parties[0], parties[2]):
        with pytest.raises(PartyStopped, match="Party bob stopped; the reason is known there"):
            _ = party.result
        assert party.done
        assert party.error.__context__ is None


def test_nothing_shows_a_secret():
    recorder = Recorder()
    seen = []
    inputs = split(SECRETS, THREE, 2)

    async def curious(engine, name):
        values = [wide.from_ints(SECRETS, 2), None, None][THREE.parties.index(name)]
        shared = await engine.share(values, size=2, limbs=2)
        seen.extend([engine, shared, -shared, await engine.bits(shared), inputs.keys()])
        seen.extend([next(play_round(Kind.INPUT, {"ana": b"1234567890123456789"}, {}))])

    parties = assemble(curious, THREE, "replicated")
    run(parties, recorder)
    text = "".join(f"{thing!r} {thing}" for thing in [*seen, *parties, *recorder.messages])
    for value in SECRETS:
        assert str(value) not in text
        assert str(value % 2**64) not in text
    assert "payload" not in repr(recorder.messages[0])


def test_a_program_that_awaits_something_else_is_refused():
    class Alien:
        def __await__(self):
            yield "a future of some event loop"

    async def program(engine, name):
        await Alien()

    with pytest.raises(TypeError, match="engine operations only"):
        simulate(program, engine="clear")


def test_a_driver_can_stop_a_party():
    first, second, _ = assemble(with_inputs(THREE), THREE, "replicated")
    for message in first.start():
        second.receive(message)
    for message in second.stop(ConnectionError("the line is dead")):
        first.receive(message)
    with pytest.raises(ConnectionError):
        _ = second.result
    with pytest.raises(PartyStopped, match="bob"):
        _ = first.result
    assert second.receive(message) == [], "what comes after the end is ignored"
    _.stop(RuntimeError("not needed"))


def test_a_party_is_started_once_and_has_no_result_before_the_end():
    async def nothing(engine, name):
        return None

    parties = assemble(nothing, THREE, "clear")
    parties[0].start()
    assert parties[0].waiting_for == ("bob", "cem")
    with pytest.raises(RuntimeError, match="started already"):
        parties[0].start()
    with pytest.raises(RuntimeError, match="not done; it is in round 0"):
        _ = parties[0].result
    for party in parties:
        party.stop(RuntimeError("not needed"))


def test_names_and_sessions_are_checked():
    async def nothing():
        return None

    for parties, session, sentence in [
        (("bob", "cem"), bytes(16), "must be one of"),
        (("ana", "ana"), bytes(16), "each named once"),
        (("ana", "bob"), bytes(15), "A session has 16 bytes, not 15"),
    ]:
        coroutine = nothing()
        with pytest.raises(ValueError, match=sentence):
            Party("ana", parties, coroutine, session=session, parameters=b"")
        coroutine.close()

"""What members see when they put together all that they have: one sum, never one silo's input.

The coalition is played: it gets every message that one of its parties sent or received, and
nothing else, and takes away from what a silo sent all that it can draw from keys in these
messages. What is left is the silo's input, or noise, or noise that cancels in a sum.
"""

from itertools import combinations

import numpy as np
import pytest

from securefedyj.engines.replicated import engine as replicated
from securefedyj.engines.replicated.keystream import KEY_BYTES, Keystream, Masks, agree_on_masks
from securefedyj.numerics import wide
from securefedyj.party.inprocess import run
from securefedyj.party.messages import Kind
from tests.engines.test_replicated_security import looks_uniform
from tests.simulation import Consortium, Recorder, assemble

SIZE, LIMBS = 1500, 2
SHAPE = LIMBS, SIZE
NOBODY = ()  # masks are made among silos: without any there are none


def consortium(parties, helper):
    """Some parties, of whom the first three are the committee; `helper` has no data, if any."""
    names = tuple(f"party {i}" for i in range(parties))
    first, second, third = names[:3]
    silos = tuple(name for i, name in enumerate(names) if i != helper)
    return Consortium(names, (first, second, third), silos)


def inputs_of(consortium):
    """An input for each silo: constant, so that what shows it cannot be taken for noise."""
    return {
        silo: wide.from_ints([10**30 + consortium.parties.index(silo)] * SIZE, LIMBS)
        for silo in consortium.silos
    }


class Coalition:
    """Some parties, and all that they have sent or received while everybody shared one vector."""

    def __init__(self, consortium, parties, *, masked=True):
        recorder = Recorder()
        inputs = inputs_of(consortium)

        async def program(engine, name):
            await engine.share(inputs.get(name), size=SIZE, limbs=LIMBS)

        silos = consortium.silos if masked else NOBODY
        among = Consortium(consortium.parties, consortium.committee, silos)
        run(assemble(program, among, "replicated"), recorder)
        self.consortium = consortium
        self.parties = set(parties)
        self.others = [name for name in consortium.parties if name not in parties]
        self._masked = silos
        self._seen = {
            (message.kind, message.sender, message.recipient): message.payload
            for message in recorder.messages
            if self.parties & {message.sender, message.recipient}
        }

    def left_of(self, party):
        """What is left of an input when all that the coalition can draw is taken away."""
        committee = self.consortium.committee
        if party in committee:
            index = committee.index(party)
            previous, following = committee[index - 1], committee[(index + 1) % 3]
            left = self._input(party, previous)
            left = wide.subtract(left, self._stream(previous, party))
            left = wide.add(left, self._stream(party, following))
            for outsider in self.consortium.parties[3:] if index < 2 else ():
                if outsider in self.parties:
                    left = wide.subtract(left, self._stream(outsider, party))
        else:
            left = self._input(party, *committee[1:])
            for member in committee[:2]:
                if member in self.parties:
                    left = wide.add(left, self._stream(party, member))
        for silo in self._masked if party in self._masked else ():
            if silo in self.parties and self._order(silo) < self._order(party):
                left = wide.add(left, self._stream(silo, party, mask=True))
            elif silo in self.parties:
                left = wide.subtract(left, self._stream(party, silo, mask=True))
        return left

    def _order(self, party):
        return self.consortium.parties.index(party)

    def _input(self, sender, *recipients):
        payloads = [self._seen.get((Kind.INPUT, sender, name)) for name in recipients]
        return wide.from_bytes(next(payload for payload in payloads if payload), LIMBS)

    def _stream(self, sender, recipient, *, mask=False):
        """The numbers from the key that one party sent to another; a mask's key comes last."""
        keys = self._seen[Kind.KEY, sender, recipient]
        key = keys[-KEY_BYTES:] if mask else keys[:KEY_BYTES]
        return Keystream(key).draw(SHAPE, np.dtype("<u8"))

    def finds(self, parties):
        """Whether the sum over some parties comes out, or it is noise; anything else is neither."""
        inputs = inputs_of(self.consortium)
        left, true = wide.zeros(*SHAPE), wide.zeros(*SHAPE)
        for party in parties:
            left = wide.add(left, self.left_of(party))
            true = wide.add(true, inputs.get(party, wide.zeros(*SHAPE)))
        if np.array_equal(left, true):
            return True
        assert looks_uniform(left.tobytes()), f"the sum over {parties} is neither known nor noise"
        return False

    def found(self):
        """The smallest sets of silos whose sum the coalition finds."""
        sums = []
        for size in range(1, len(self.others) + 1):
            for some in combinations(self.others, size):
                silos = {party for party in some if party in self.consortium.silos}
                if silos and self.finds(some) and not any(known <= silos for known in sums):
                    sums.append(silos)
        return sums


KINDS = [
    pytest.param(parties, helper, id=f"{parties} parties, helper {helper}")
    for parties in (4, 5)
    for helper in (None, 0, 1, 2, 3)
]
PAIRS = [(0, 1), (0, 2), (1, 2)]


def apart(silos):
    return [{silo} for silo in silos]


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize(("parties", "helper"), KINDS)
def test_without_masks_members_0_and_1_see_every_input_by_itself(parties, helper, pair):
    """So it was before there were masks; other pairs saw one sum."""
    everybody = consortium(parties, helper)
    coalition = Coalition(everybody, [everybody.parties[i] for i in pair], masked=False)
    silos = [silo for silo in everybody.silos if silo in coalition.others]
    assert coalition.found() == (apart(silos) if pair == (0, 1) else [set(silos)])


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize(("parties", "helper"), KINDS)
def test_two_members_see_the_sum_over_all_other_silos_and_no_other(parties, helper, pair):
    everybody = consortium(parties, helper)
    coalition = Coalition(everybody, [everybody.parties[i] for i in pair])
    assert coalition.found() == [set(everybody.silos) & set(coalition.others)]


@pytest.mark.parametrize("helper", [None, 0, 1, 2])
def test_silos_that_join_the_two_members_take_but_their_own_inputs_from_the_sum(helper):
    everybody = consortium(6, helper)
    for size in range(3):
        for more in combinations(everybody.parties[3:], size):
            for pair in PAIRS:
                members = [everybody.parties[i] for i in pair]
                coalition = Coalition(everybody, [*members, *more])
                assert coalition.found() == [set(everybody.silos) & set(coalition.others)]


def test_three_members_see_the_sum_over_those_outside():
    everybody = consortium(6, None)
    coalition = Coalition(everybody, everybody.committee)
    assert coalition.found() == [set(everybody.parties[3:])]


@pytest.mark.parametrize("member", range(3))
def test_one_member_sees_nothing_of_anybody(member):
    """All that it receives for an input is noise beside what it can draw."""
    everybody = consortium(5, None)
    coalition = Coalition(everybody, [everybody.parties[member]])
    received = [
        payload
        for (kind, _, recipient), payload in coalition._seen.items()
        if kind == Kind.INPUT and recipient in coalition.parties
    ]
    assert received
    assert all(looks_uniform(payload) for payload in received)


# The pairs of silos outside of members 0 and 1, who see the most.
LEFT_OUT = list(combinations(["party 2", "party 3", "party 4"], 2))


@pytest.mark.parametrize("pair", LEFT_OUT, ids=" ".join)
def test_a_mask_that_is_left_out_is_found(pair, monkeypatch):
    """Everybody but two silos colludes: only the mask between these two keeps them apart."""
    everybody = consortium(5, None)
    colluding = [party for party in everybody.parties if party not in pair]
    assert Coalition(everybody, colluding).found() == [set(pair)]

    async def without(name, silos, original=agree_on_masks):
        masks = await original(name, silos)
        if name not in pair:
            return masks
        (other,) = set(pair) - {name}
        peers = [silo for silo in silos if silo != name]
        place, before = peers.index(other), silos.index(name)
        added, subtracted = list(masks._added), list(masks._subtracted)
        del (subtracted if place < before else added)[place if place < before else place - before]
        return Masks(added, subtracted)

    monkeypatch.setattr(replicated, "agree_on_masks", without)
    assert Coalition(everybody, colluding).found() == apart(pair)


def test_masks_that_repeat_are_found(monkeypatch):
    """Two vectors with the same masks: their difference shows the difference of the inputs."""

    def payloads():
        recorder = Recorder()
        everybody = consortium(4, None)
        inputs = inputs_of(everybody)

        async def program(engine, name):
            first = engine._masks.hide(inputs[name])
            second = engine._masks.hide(inputs[name])
            await engine.share(None, size=1, limbs=1)
            return wide.subtract(first, second).tobytes()

        return run(assemble(program, everybody, "replicated"), recorder)

    assert all(looks_uniform(difference) for difference in payloads())

    def again(self, shape, dtype, original=Keystream.draw):
        return original(Keystream(id(self).to_bytes(32, "little")), shape, dtype)

    monkeypatch.setattr(Keystream, "draw", again)
    assert not any(looks_uniform(difference) for difference in payloads())


@pytest.mark.parametrize("place", range(3))
def test_a_helper_sees_least_as_member_2(place):
    """Without masks it is so; with them all places are alike, as the tests above show."""
    everybody = consortium(5, place)
    seen = [
        Coalition(everybody, [everybody.parties[i] for i in pair], masked=False).found()
        for pair in PAIRS
        if place in pair
    ]
    assert any(len(sums) > 1 for sums in seen) == (place != 2)


@pytest.mark.parametrize(
    ("parties", "silos", "keys"),
    [(3, 3, 0), (3, 2, 0), (4, 2, 1), (4, 1, 0), (4, 3, 3), (4, 4, 6), (5, 4, 6), (5, 5, 10)],
)
def test_masks_cost_a_key_for_each_pair_where_they_hide_something(parties, silos, keys):
    names = tuple(f"party {i}" for i in range(parties))
    first, second, third = names[:3]
    recorder = Recorder()

    async def program(engine, name):
        return wide.to_ints(await engine.open(await engine.share(None, size=1, limbs=1)))

    everybody = Consortium(names, (first, second, third), names[parties - silos :])
    members = assemble(program, everybody, "replicated")
    assert run(members, recorder) == [[0]] * parties
    assert members[0].rounds == 4  # greeting, keys, inputs, opening
    sent = sum(len(payload) for payload in recorder.payloads(Kind.KEY))
    assert sent == KEY_BYTES * (3 + 2 * (parties - 3) + keys)


def test_silos_must_be_parties():
    with pytest.raises(ValueError, match=r"The silos must be some of .*'c'\], got \['d'\]"):
        replicated.connect("a", ("a", "b", "c"), ("a", "b", "c"), ["d"]).send(None)

"""Members settle on one set of submissions: what is damaged is mended, and nobody is framed."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from securefedyj.errors import CodedError, PartyStopped, code_of
from securefedyj.network.consortium import Feature
from securefedyj.network.settling import Copy, TwoSubmissions, largest_settling, settle
from securefedyj.network.submission import Head, read, unseal
from securefedyj.party.inprocess import run as run_all
from securefedyj.party.machine import Party
from tests.network.harness import FIVE
from tests.network.test_mailbox import MEMBERS, SILOS
from tests.network.test_submission import FEATURES, Run, run_of

COPIES = dict[str, dict[str, Copy]]
STATE, ECHO, MENDING = 1, 2, 3
"""The rounds."""


@pytest.fixture(scope="module")
def five(tmp_path_factory) -> Run:
    """Four silos, two of them in the committee, and a coordinator."""
    return run_of(tmp_path_factory.mktemp("five"), FIVE)


def copies(run: Run) -> COPIES:
    """What each member has, if all arrived."""
    return {
        member: {name: copy_of(run, member, run.files[name]) for name in SILOS}
        for member in MEMBERS
    }


def copy_of(run: Run, member: str, data: bytes) -> Copy:
    whole = read(data, run.consortium)
    return Copy(whole, unseal(whole, run.consortium, member, run.private(member)), whole=True)


def damaged(copy: Copy) -> Copy:
    """What is left of a file whose parts have changed on the way."""
    return Copy(Head(copy.head.header, copy.head.data), {}, whole=False)


def settled(
    run: Run, of_members: Mapping[str, Mapping[str, Copy]], spoil: Any = None
) -> dict[str, Any]:
    """What each party ends with: submissions, or an error."""
    online = run.consortium.agreement().online
    said: dict[str, list[str]] = {name: [] for name in online}
    parties = [
        Party(
            name,
            online,
            settle(run.consortium, name, of_members.get(name, {}), said[name].append),
            session=bytes(16),
            parameters=b"",
        )
        for name in online
    ]
    with contextlib.suppress(CodedError, PartyStopped):
        run_all(parties, spoil)
    found = {party.name: party.error or party.result for party in parties}
    return found | {"said": said}


def assert_right(run: Run, found: Mapping[str, Any]) -> None:
    for member in MEMBERS:
        expected = run.totals(member)
        assert found[member].headers == expected.headers
        np.testing.assert_array_equal(found[member].held, expected.held)


def errors(found: Mapping[str, Any]) -> dict[str, Any]:
    return {name: one for name, one in found.items() if isinstance(one, Exception)}


def test_members_with_the_same_submissions_compute_with_their_sums(five):
    found = settled(five, copies(five))
    assert_right(five, found)
    assert not any(found["said"].values())


def test_a_party_outside_of_the_committee_computes_with_none(tmp_path):
    run = run_of(tmp_path, FIVE, [FEATURES[0], Feature("age", 0.0, 9.0)])
    found = settled(run, copies(run))
    assert_right(run, found)
    assert found["bob"] is found["eva"] is None


@pytest.mark.parametrize("member", MEMBERS)
@pytest.mark.parametrize("silo", SILOS)
def test_a_damaged_copy_is_mended_by_the_other_holders(five, member, silo):
    has = copies(five)
    has[member][silo] = damaged(has[member][silo])
    found = settled(five, has)
    assert_right(five, found)
    assert len(found["said"][member]) == 2


def test_all_members_may_lack_something(five):
    has = copies(five)
    for member, silo in zip(MEMBERS, SILOS, strict=False):
        has[member][silo] = damaged(has[member][silo])
    assert_right(five, settled(five, has))


def without(copy: Copy, *components: int) -> Copy:
    shares = {one: share for one, share in copy.shares.items() if one not in components}
    return dataclasses.replace(copy, shares=shares)


def test_a_silo_that_seals_garbage_for_one_member_delays_nobody(five):
    """Such as another s_2 for one of its two holders: the header admits one of them."""
    has = copies(five)
    has["ana"]["bob"] = without(has["ana"]["bob"], 2)
    found = settled(five, has)
    assert_right(five, found)
    assert len(found["said"]["ana"]) == 1


def test_a_silo_that_seals_garbage_for_both_holders_is_named(five):
    has = copies(five)
    for member in ("ana", "dua"):
        has[member]["bob"] = without(has[member]["bob"], 2)
    found = errors(settled(five, has))
    named = [one for one in found.values() if code_of(one, "") == "SFY-SUB-042"]
    assert len(named) >= 1
    assert all("bob" in str(one) for one in named)
    assert set(found) == {"ana", "dua"}


def test_a_silo_is_not_blamed_for_a_file_that_did_not_arrive_whole(five):
    has = copies(five)
    has["ana"]["bob"] = damaged(has["ana"]["bob"])
    has["dua"]["bob"] = damaged(has["dua"]["bob"])
    found = errors(settled(five, has))
    codes = {code_of(one, "") for one in found.values()}
    assert "SFY-SUB-043" in codes
    assert "SFY-SUB-042" not in codes


def test_a_silo_that_signs_two_headers_is_named_by_all_with_both_as_evidence(five):
    has = copies(five)
    other = five.make("bob")
    has["dua"]["bob"] = copy_of(five, "dua", other)
    found = errors(settled(five, has))
    assert set(found) == set(MEMBERS)
    for one in found.values():
        assert isinstance(one, TwoSubmissions)
        assert one.silo == "bob"
        lines = one.evidence.splitlines(keepends=True)
        heads = {read(data, five.consortium).data for data in (five.files["bob"], other)}
        assert {lines[0] + lines[1], lines[2] + lines[3]} == heads


def lie(member: str, turn: int, change: Callable[[bytes], bytes]) -> Any:
    """One member sends something else in a round."""

    def spoil(message: Any) -> list[Any]:
        if message.sender == member and message.round == turn:
            message = dataclasses.replace(message, payload=change(message.payload))
        return [message]

    return spoil


def test_a_member_that_claims_another_header_is_named_and_not_the_silo(five):
    has, real = copies(five), copies(five)["dua"]["bob"]
    changed = real.head.data.replace(b'"silo":"bob"', b'"silo":"eva"')
    has["dua"]["bob"] = dataclasses.replace(real, head=Head(real.head.header, changed))
    found = errors(settled(five, has))
    for name in ("ana", "coordinator"):
        assert found[name].code == "SFY-SUB-041"
        assert "dua cannot show" in str(found[name])


def test_a_member_that_says_it_lacks_shares_gets_them_and_the_run_goes_on(five):
    """It gets what it has, and nothing that it may not have."""
    has, seen = copies(five), list[bytes]()
    has["dua"]["bob"] = without(has["dua"]["bob"], 2, 0)

    def watch(message: Any) -> list[Any]:
        if message.recipient == "dua" and message.round == MENDING:
            seen.append(message.payload)
        return [message]

    assert_right(five, settled(five, has, watch))
    assert sorted(seen) == sorted(five.opened(five.files["bob"], "dua").values())


def test_a_member_that_gives_a_wrong_share_changes_nothing(five):
    has = copies(five)
    has["ana"]["bob"] = damaged(has["ana"]["bob"])
    found = errors(settled(five, has, lie("dua", MENDING, lambda share: share[::-1])))
    assert found["ana"].code == "SFY-SUB-043"


def test_no_message_is_longer_than_announced(five):
    sizes = []

    def watch(message: Any) -> list[Any]:
        sizes.append(len(message.payload))
        return [message]

    has = copies(five)
    has["ana"]["bob"] = damaged(has["ana"]["bob"])
    has["dua"]["eva"] = damaged(has["dua"]["eva"])
    settled(five, has, watch)
    has["dua"]["bob"] = copy_of(five, "dua", five.make("bob"))
    settled(five, has, watch)
    assert max(sizes) <= largest_settling(five.consortium.agreement())


@pytest.mark.parametrize("turn", [STATE, ECHO])
@pytest.mark.parametrize("place", [0, 32, 64])
def test_a_member_that_tells_two_parties_different_things_is_named(five, turn, place):
    """Each of the two would wait for a round that the other does not play, and blame it."""

    def spoil(message: Any) -> list[Any]:
        if (message.sender, message.recipient, message.round) == ("dua", "ana", turn):
            payload = bytearray(message.payload)
            payload[place] ^= 1
            message = dataclasses.replace(message, payload=bytes(payload))
        return [message]

    found = errors(settled(five, copies(five), spoil))
    assert found["ana"].code == "SFY-SUB-044"
    for honest in ("ana", "coordinator"):
        if not isinstance(found.get(honest), PartyStopped | None):
            assert found[honest].code == "SFY-SUB-044"
            assert "dua" in str(found[honest])
            assert f"{honest} does" not in str(found[honest])

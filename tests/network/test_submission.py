"""A submission: what members open, and everything that is not one."""

from __future__ import annotations

import dataclasses
import hashlib
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pytest

from securefedyj.errors import InputError
from securefedyj.network import submission as submissions
from securefedyj.network.consortium import Consortium, Feature
from securefedyj.network.identity import keygen, renew_keys
from securefedyj.network.keys import PrivateKeys, sign
from securefedyj.network.submission import Submission, read, unseal
from securefedyj.numerics import wide
from securefedyj.protocol.submissions import LIMBS
from tests.network.harness import FIVE, THREE, prepare
from tests.network.test_mailbox import MEMBERS, SILOS

FEATURES = [Feature("lactate", 0.0, 5.0, resolution="0.5"), Feature("age", 0, 9, resolution="1")]
POINTS = 11 + 10


class Run(NamedTuple):
    folder: Path
    consortium: Consortium
    counts: dict[str, Any]
    files: dict[str, bytes]

    def private(self, name: str) -> PrivateKeys:
        return PrivateKeys.read(self.folder / f"{name}.key", self.consortium.party(name).public)

    def make(self, name: str, counts: Any = None) -> bytes:
        own = self.counts[name] if counts is None else counts
        return submissions.make(self.consortium, name, self.folder / f"{name}.key", own)

    def opened(self, data: bytes, member: str) -> dict[int, bytes]:
        return unseal(read(data, self.consortium), self.consortium, member, self.private(member))

    def totals(self, member: str) -> Any:
        """What a member computes with, if the files of all silos are as they should be."""
        names = self.consortium.agreement().silos
        heads = [read(self.files[name], self.consortium) for name in names]
        shares = [self.opened(self.files[name], member) for name in names]
        index = self.consortium.committee.index(member)
        points = submissions.points_in(self.consortium.agreement())
        return submissions.totals(heads, shares, index, points)


def run_of(folder: Path, tables: Any, features: Any = FEATURES, **more: Any) -> Run:
    consortium = prepare(folder, tables, features, submitted=True, **more)
    rng = np.random.default_rng(3)
    silos = consortium.agreement().silos
    points = submissions.points_in(consortium.agreement())
    counts = {name: rng.integers(0, 50, points) for name in silos}
    run = Run(folder, consortium, counts, {})
    run.files.update({name: run.make(name) for name in silos})
    return run


@pytest.fixture(scope="module")
def five(tmp_path_factory) -> Run:
    """Four silos, two of them in the committee, and a coordinator."""
    return run_of(tmp_path_factory.mktemp("five"), FIVE)


@pytest.fixture(scope="module")
def three(tmp_path_factory) -> Run:
    """Three silos, which are the members."""
    return run_of(tmp_path_factory.mktemp("three"), THREE)


def refusal(work: Callable[..., object], *arguments: Any) -> str:
    with pytest.raises(InputError) as raised:
        work(*arguments)
    assert "sha256" not in str(raised.value)
    return raised.value.code


@pytest.mark.parametrize("size", ["three", "five"])
def test_components_of_the_members_add_up_to_the_totals(size, request):
    run = request.getfixturevalue(size)
    expected = sum(run.counts.values())
    totals = [run.totals(member) for member in run.consortium.committee]
    assert len({one.headers for one in totals}) == 1
    for i, one in enumerate(totals):
        np.testing.assert_array_equal(one.held[1], totals[(i + 1) % 3].held[0])
    whole = wide.add(wide.add(totals[0].held[0], totals[0].held[1]), totals[1].held[1])
    assert whole.shape == (LIMBS, POINTS)
    assert wide.to_ints(whole) == expected.tolist()


def test_two_members_see_masked_counts_of_a_silo_if_there_are_more_than_three(three, five):
    for run, hidden in ((three, False), (five, True)):
        name = run.consortium.agreement().silos[-1]
        shares = run.opened(run.files[name], run.consortium.committee[0])
        shares |= run.opened(run.files[name], run.consortium.committee[1])
        from securefedyj.protocol.submissions import component

        parts = [component(i, shares[i][32:] if i == 2 else shares[i], POINTS) for i in range(3)]
        seen = wide.to_ints(wide.add(wide.add(*parts[:2]), parts[2]))
        if hidden:
            assert min(abs(one) for one in seen) > 2**80
        else:
            assert seen == run.counts[name].tolist()


def test_the_same_counts_make_another_file_each_time(five):
    again = five.make("eva")
    first, second = (read(one, five.consortium) for one in (five.files["eva"], again))
    assert first.header.shares != second.header.shares
    assert first.digest != second.digest
    assert first.header.confirmations == second.header.confirmations


def test_a_file_has_32_bytes_for_each_point(five):
    data = five.files["bob"]
    head = len(read(data, five.consortium).data)
    sizes = submissions.part_sizes(five.consortium.agreement())
    assert len(data) == head + sum(sizes) == head + 32 * POINTS + 3 * 48 + 4 * 32 + 2 * 32
    assert head < 2048


def test_nothing_of_the_counts_is_public(five):
    """Header and sizes are the same for other counts, but for what is random."""
    other = five.make("bob", 1000 * five.counts["bob"])
    files = [read(data, five.consortium) for data in (other, five.files["bob"])]
    assert len({sum(map(len, file.parts)) for file in files}) == 1
    one, two = (msgspec.to_builtins(file.header) for file in files)
    differ = {name for name in one if one[name] != two[name]} - {"date"}
    assert differ == {"shares", "parts", "nonce"}
    assert "counts" not in repr(read(other, five.consortium))


def test_a_thousand_changed_bytes_are_refused(five):
    data, rng = five.files["bob"], random.Random(11)
    head = len(read(data, five.consortium).data)
    places = [*(rng.randrange(head) for _ in range(500)),
              *(rng.randrange(head, len(data)) for _ in range(500))]  # fmt: skip
    codes = set()
    for place in places:
        other = rng.choice([value for value in range(256) if value != data[place]])
        changed = data[:place] + bytes([other]) + data[place + 1 :]
        codes.add(refusal(read, changed, five.consortium))
    assert codes <= {f"SFY-SUB-00{n}" for n in range(1, 7)}
    assert {"SFY-SUB-001", "SFY-SUB-004", "SFY-SUB-006"} <= codes


def test_every_truncation_and_more_bytes_are_refused(five):
    data = five.files["bob"]
    head = len(read(data, five.consortium).data)
    for size in (*range(0, head + 2), *range(head, len(data), 97), len(data) - 1):
        assert refusal(read, data[:size], five.consortium).startswith("SFY-SUB-00")
    assert refusal(read, data + b"\0", five.consortium) == "SFY-SUB-006"


def rewritten(run: Run, data: bytes, signer: str, parts: Any = None, **changes: Any) -> bytes:
    """The same file with another header, rightly signed by a party."""
    old = read(data, run.consortium)
    parts = old.parts if parts is None else parts
    hashes = [hashlib.sha256(part).hexdigest() for part in parts]
    fields = msgspec.to_builtins(old.header) | {"parts": hashes} | changes
    line = msgspec.json.encode(fields)
    signature = sign(run.folder / f"{signer}.key", submissions.SIGNED, line).hex()
    return b"".join([line, b"\n", signature.encode(), b"\n", *parts])


def test_swapped_parts_do_not_open(five):
    parts = read(five.files["bob"], five.consortium).parts
    swapped = rewritten(five, five.files["bob"], "bob", [parts[0], parts[2], parts[1]])
    assert set(five.opened(swapped, MEMBERS[0])) == {0, 1}
    assert five.opened(swapped, MEMBERS[1]) == five.opened(swapped, MEMBERS[2]) == {}


def test_parts_that_another_silo_signs_as_its_own_do_not_open(five):
    """Eva has seen Bob's file, and submits his counts a second time."""
    eva = read(five.files["eva"], five.consortium).header
    stolen = rewritten(five, five.files["bob"], "eva", silo="eva", fingerprint=eva.fingerprint)
    for member in MEMBERS:
        assert five.opened(stolen, member) == {}
    assert (
        refusal(read, rewritten(five, five.files["bob"], "eva"), five.consortium) == "SFY-SUB-004"
    )


def test_a_file_for_another_run_is_refused_and_its_parts_do_not_open_there(five):
    other = dataclasses.replace(five.consortium, max_steps=13)
    again = five._replace(consortium=other)
    assert refusal(read, five.files["bob"], other) == "SFY-SUB-002"
    replayed = rewritten(five, five.files["bob"], "bob", digest=other.digest())
    for member in MEMBERS:
        assert again.opened(replayed, member) == {}


def test_strangers_helpers_and_other_certificates_are_refused(five, tmp_path):
    header = read(five.files["bob"], five.consortium).header
    print_of = {party.name: party.fingerprint for party in five.consortium.parties}
    for name, fingerprint in (
        ("mallory", header.fingerprint),
        ("coordinator", print_of["coordinator"]),
        ("bob", print_of["eva"]),
    ):
        file = rewritten(five, five.files["bob"], "bob", silo=name, fingerprint=fingerprint)
        assert refusal(read, file, five.consortium) == "SFY-SUB-003"
    stranger = keygen("bob", tmp_path)
    forged = rewritten(five._replace(folder=stranger.key.parent), five.files["bob"], "bob")
    assert refusal(read, forged, five.consortium) == "SFY-SUB-004"


def test_another_members_key_opens_nothing(five):
    file = read(five.files["bob"], five.consortium)
    for member in MEMBERS:
        for other in MEMBERS:
            found = unseal(file, five.consortium, member, five.private(other))
            assert bool(found) == (member == other)


def test_a_share_that_differs_from_the_header_is_left_to_the_other_holder(five):
    """Bob seals another s_2 for member 2, or signs a wrong hash: member 1 still knows which."""
    file = read(five.files["bob"], five.consortium)
    wrong = [*file.header.shares]
    wrong[2] = "0" * 64
    lied = rewritten(five, five.files["bob"], "bob", shares=wrong)
    assert [set(five.opened(lied, member)) for member in MEMBERS] == [{0, 1}, {1}, {0}]
    shares = five.opened(five.files["bob"], MEMBERS[1])
    points, header = POINTS, file.header
    assert header.fits(2, shares[2], points)
    assert not header.fits(2, shares[2][:-1] + bytes([shares[2][-1] ^ 1]), points)
    assert not header.fits(1, shares[2], points)


def test_a_share_of_another_length_fits_no_header(five):
    """A silo that seals too few points, and signs that, is the one that is named."""
    file = read(five.files["bob"], five.consortium)
    short = five.opened(five.files["bob"], MEMBERS[1])[2][:-16]
    shares = [*file.header.shares]
    shares[2] = hashlib.sha256(short).hexdigest()
    header = msgspec.structs.replace(file.header, shares=tuple(shares))
    assert not header.fits(2, short, POINTS)
    assert header.fits(2, short, POINTS - 1)


def test_masks_that_do_not_cancel_are_found_and_the_pair_is_named(five):
    headers = {name: read(five.files[name], five.consortium).header for name in SILOS}
    submissions.check_masks(headers, SILOS)
    for name in SILOS:
        for place, other in enumerate(one for one in SILOS if one != name):
            wrong = [*headers[name].confirmations]
            wrong[place] = "0" * 64
            lied = msgspec.structs.replace(headers[name], confirmations=tuple(wrong))
            with pytest.raises(InputError) as raised:
                submissions.check_masks({**headers, name: lied}, SILOS)
            assert raised.value.code == "SFY-SUB-007"
            assert name in str(raised.value)
            assert other in str(raised.value)
    few = rewritten(five, five.files["bob"], "bob", confirmations=headers["bob"].confirmations[1:])
    assert refusal(read, few, five.consortium) == "SFY-SUB-005"


def test_two_headers_of_one_silo_give_other_digests_and_each_is_evidence(five):
    heads = [read(five.files[name], five.consortium) for name in SILOS]
    second = submissions.read_head(five.make("bob"), five.consortium)
    assert second.digest != heads[1].digest
    digests = [head.digest for head in heads]
    changed = [digests[0], second.digest, *digests[2:]]
    assert submissions.digest_of(digests) != submissions.digest_of(changed)
    assert submissions.read_head(second.data, five.consortium) == second
    assert submissions.digest_of(digests) != submissions.digest_of(digests[::-1])


def hostile(data: bytes) -> Iterator[bytes]:
    line, _, rest = data.partition(b"\n")
    signature, _, parts = rest.partition(b"\n")
    yield b""
    yield b"\n" * 100_000
    yield b"{}\n"
    yield b"[" * 20_000 + b"\n"
    yield b"9" * 30_000 + b"\n"
    yield b" " * 60_000 + data
    yield line.replace(b'"version":1', b'"version":2') + b"\n" + rest
    yield line.replace(b'"version":1', b'"version":1,"version":1') + b"\n" + rest
    yield line.replace(b'"version":1', b'"version":1,"more":1') + b"\n" + rest
    yield line + b"\n" + signature.upper() + b"\n" + parts
    yield line + b"\n " + signature + b"\n" + parts
    yield line + b"\n" + signature + b"\r\n" + parts
    yield line + b"\n\n" + parts
    yield line + b"\n" + b"\xff" * 100 + b"\n" + parts
    yield line + b" \n" + rest


def test_hostile_files_are_refused_with_a_code(five):
    for data in hostile(five.files["bob"]):
        assert refusal(read, data, five.consortium).startswith("SFY-SUB-00")


def test_text_of_a_file_cannot_control_a_terminal(five):
    name = "\x1b[2J" * 5
    data = rewritten(five, five.files["bob"], "bob", silo=name, consortium=name)
    with pytest.raises(InputError) as raised:
        read(data, five.consortium)
    assert "\x1b" not in str(raised.value)
    data = rewritten(five, five.files["bob"], "bob", digest="0" * 64, consortium=name)
    with pytest.raises(InputError) as raised:
        read(data, five.consortium)
    assert "\x1b" not in str(raised.value)


def test_renewed_keys_open_nothing_of_an_earlier_file(tmp_path):
    run = run_of(tmp_path, THREE)
    renew_keys("ana", tmp_path)
    assert refusal(run.private, "ana") == "SFY-KEY-006"
    assert refusal(run.make, "ana") == "SFY-KEY-006"


def test_shares_and_keys_have_no_repr(five):
    file: Submission = read(five.files["bob"], five.consortium)
    text = repr(file) + repr(five.private("ana")) + repr(five.totals("ana"))
    for secret in five.opened(five.files["bob"], "ana").values():
        assert secret.hex()[:16] not in text
        assert repr(secret)[2:20] not in text

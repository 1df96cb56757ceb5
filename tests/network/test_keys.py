"""Keys for submissions: made next to the certificate, signed by its key, pinned by the file."""

from __future__ import annotations

import base64
import dataclasses
import stat
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from securefedyj.cli.main import main
from securefedyj.errors import InputError
from securefedyj.network.consortium import Consortium, ConsortiumError, PartyEntry
from securefedyj.network.consortium.succession import differences
from securefedyj.network.identity import Identity, keygen, read_certificate, renew_keys
from securefedyj.network.keys import SIZE, PrivateKeys, new_keys, sign, signed_by, to_pem
from securefedyj.network.transport import tls
from tests.network.test_mailbox import submitted


@pytest.fixture
def north(tmp_path) -> Identity:
    return keygen("north", tmp_path)


def entry(identity: Identity) -> PartyEntry:
    return PartyEntry.read(identity.key.stem, "silo", identity.certificate)


def as_of_0_2(identity: Identity) -> None:
    """Leave what releases without submissions have made."""
    identity.key.write_bytes(
        identity.key.read_bytes().partition(b"-----\n-----BEGIN")[0] + b"-----\n"
    )
    identity.certificate.write_text(read_certificate(identity.certificate))


def test_private_keys_belong_to_the_public_ones(north):
    public = entry(north).public
    private = PrivateKeys.read(north.key, public)
    assert private.sealing.public_key().public_bytes_raw() == public.sealing
    assert private.mask.public_key().public_bytes_raw() == public.mask
    assert public.sealing != public.mask
    assert stat.S_IMODE(north.key.stat().st_mode) == 0o600


def test_tls_and_fingerprints_take_files_with_and_without_keys(north):
    before = entry(north)
    tls.context(north, [before.certificate], server_side=True)
    as_of_0_2(north)
    tls.context(north, [before.certificate], server_side=True)
    assert entry(north) == dataclasses.replace(before, keys="")


@pytest.mark.parametrize("old", [False, True])
def test_renewed_keys_replace_the_others_and_leave_the_certificate(north, capsys, old):
    before, key = entry(north), north.key.read_bytes()
    if old:
        as_of_0_2(north)
    assert main(["keygen", "north", "--renew", "--folder", str(north.key.parent)]) == 0
    after = entry(north)
    assert after.fingerprint == before.fingerprint
    assert after.fingerprint in capsys.readouterr().out
    assert {*after.public}.isdisjoint(before.public)
    assert north.key.read_bytes().count(b"BEGIN PRIVATE KEY") == key.count(b"BEGIN PRIVATE KEY")
    assert stat.S_IMODE(north.key.stat().st_mode) == 0o600
    assert stat.S_IMODE(north.certificate.stat().st_mode) & 0o044
    tls.context(north, [after.certificate], server_side=True)
    PrivateKeys.read(north.key, after.public)
    with pytest.raises(InputError) as raised:
        PrivateKeys.read(north.key, before.public)
    assert raised.value.code == "SFY-KEY-006"


def test_only_an_identity_that_can_sign_gets_keys(north):
    north.key.write_bytes(b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")
    with pytest.raises(InputError) as raised:
        renew_keys("north", north.key.parent)
    assert raised.value.code == "SFY-KEY-007"
    assert "BEGIN" not in str(raised.value)
    with pytest.raises(FileNotFoundError):
        renew_keys("south", north.key.parent)


def test_the_key_of_another_certificate_does_not_make_keys(north, tmp_path):
    other = keygen("south", tmp_path)
    north.key.write_bytes(other.key.read_bytes())
    with pytest.raises(InputError) as raised:
        renew_keys("north", tmp_path)
    assert raised.value.code == "SFY-KEY-009"


def swapped(data: bytes) -> bytes:
    return data[SIZE : 2 * SIZE] + data[:SIZE] + data[2 * SIZE :]


def low_order(party: PartyEntry, key: ec.EllipticCurvePrivateKey) -> bytes:
    """Signed rightly, with a mask key that gives everybody the same secret."""
    from securefedyj.network import keys

    data = base64.b64decode(party.keys)
    public = data[:SIZE], bytes(SIZE)
    signature = key.sign(keys.prefixed(keys._LABEL, party.fingerprint, *public), keys._ECDSA)
    return b"".join([*public, signature])


SPOILED: dict[str, Any] = {
    "empty": lambda data: b"",
    "short": lambda data: data[:40],
    "without a signature": lambda data: data[: 2 * SIZE],
    "swapped": swapped,
    "changed": lambda data: bytes([data[0] ^ 1]) + data[1:],
    "another signature": lambda data: data[:-1] + bytes([data[-1] ^ 1]),
    "longer": lambda data: data + b"\0",
    "huge": lambda data: data * 1000,
}


@pytest.mark.parametrize("kind", SPOILED)
def test_keys_that_the_certificate_has_not_signed_are_refused(north, kind):
    party = entry(north)
    text = base64.b64encode(SPOILED[kind](base64.b64decode(party.keys))).decode()
    spoiled = dataclasses.replace(party, keys=text or "=")
    with pytest.raises(InputError) as raised:
        spoiled.check()
    assert raised.value.code == "SFY-KEY-008"


def test_keys_of_low_order_another_party_or_another_label_are_refused(north, tmp_path):
    party, other = entry(north), entry(keygen("south", tmp_path))
    signer = ec.generate_private_key(ec.SECP256R1())
    north.key.write_bytes(to_pem(signer))
    foreign = new_keys(signer, party.fingerprint)[1]
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    own: Any = load_pem_private_key((tmp_path / "south.key").read_bytes(), None)
    for text in (party.keys, foreign, base64.b64encode(low_order(other, own)).decode()):
        with pytest.raises(InputError) as raised:
            dataclasses.replace(other, keys=text).check()
        assert raised.value.code == "SFY-KEY-008"
    dataclasses.replace(other, keys=new_keys(own, other.fingerprint)[1]).check()
    for text in (f"{other.keys}\n", other.keys.replace("=", ""), f" {other.keys}"):
        if text != other.keys:
            with pytest.raises(InputError):
                dataclasses.replace(other, keys=text).check()


def test_signatures_are_of_a_label_and_all_parts(north):
    certificate = read_certificate(north.certificate)
    signature = sign(north.key, "label", b"one", b"two")
    assert signed_by(certificate, signature, "label", b"one", b"two")
    assert not signed_by(certificate, signature, "label", b"onetw", b"o")
    assert not signed_by(certificate, signature, "labelone", b"two")
    assert not signed_by(certificate, signature[:-1], "label", b"one", b"two")
    assert not signed_by(certificate, b"", "label", b"one", b"two")


def test_a_submitted_run_needs_keys_of_silos_and_members(tmp_path):
    consortium = submitted(tmp_path)
    assert Consortium.read(tmp_path / "consortium.toml") == consortium
    for name in consortium.party_names:
        parties = [
            dataclasses.replace(one, keys="" if one.name == name else one.keys)
            for one in consortium.parties
        ]
        with pytest.raises(ConsortiumError) as raised:
            dataclasses.replace(consortium, parties=tuple(parties))
        assert raised.value.code == "SFY-CON-042"
        assert name in str(raised.value)
    idle = keygen("hana", tmp_path)
    helper = PartyEntry("hana", "helper", entry(idle).fingerprint, entry(idle).certificate)
    dataclasses.replace(consortium, parties=(*consortium.parties, helper))


def test_other_keys_make_another_run(tmp_path):
    consortium = submitted(tmp_path)
    renew_keys("bob", tmp_path)
    bob = PartyEntry.read("bob", "silo", tmp_path / "bob.pem")
    parties = tuple(bob if one.name == "bob" else one for one in consortium.parties)
    renewed = dataclasses.replace(consortium, parties=parties)
    assert renewed.digest() != consortium.digest()
    assert differences(consortium, renewed) == ["bob has other keys for submissions"]


def test_a_live_file_has_no_keys_and_its_digest_does_not_depend_on_them(tmp_path):
    live = dataclasses.replace(submitted(tmp_path), submitted=False)
    live.write(tmp_path / "live.toml")
    assert "keys" not in Path(tmp_path / "live.toml").read_text()
    assert Consortium.read(tmp_path / "live.toml").digest() == live.digest()


def test_the_author_of_a_file_takes_keys_from_the_same_files(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = ("north", "east", "south")
    for name in names:
        keygen(name, tmp_path)
    as_of_0_2(Identity(tmp_path / "east.key", tmp_path / "east.pem"))
    silos = [part for name in names for part in ("--silo", f"{name}={name}.pem")]
    command = ["new", "c.toml", "--name", "c", *silos, "--feature", "age:0:120",
               "--resolution", "age=1"]  # fmt: skip
    assert main([*command, "--submitted"]) == 1
    error = capsys.readouterr().err
    assert "[SFY-CON-042]" in error
    assert "east has no keys" in error
    assert main(command) == 0  # a live run needs none
    live = Consortium.read("c.toml")
    renew_keys("east", tmp_path)
    later = ["new", "d.toml", "--from", "c.toml", "--submitted"]
    assert main(later) == 1
    renewed = [part for name in names for part in ("--renew", f"{name}={name}.pem")]
    assert main([*later, *renewed]) == 0
    after = Consortium.read("d.toml")
    assert after.submitted
    assert [one.fingerprint for one in after.parties] == [one.fingerprint for one in live.parties]
    assert "submitted is True; was False" in capsys.readouterr().out

"""Identities: a key for its owner alone, and a certificate for the agreed file."""

import hashlib
import os
import ssl
import stat

import numpy as np
import pytest
from cryptography import x509

from securefedyj.cli.main import main
from securefedyj.network import local
from securefedyj.network.consortium import Feature
from securefedyj.network.identity import fingerprint, keygen, read_certificate
from securefedyj.network.transport import tls


def test_key_is_readable_by_its_owner_alone_whatever_the_umask(tmp_path):
    before = os.umask(0)
    try:
        identity = keygen("north", tmp_path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(identity.key.stat().st_mode) == 0o600


def test_certificate_names_the_party(tmp_path):
    identity = keygen("north", tmp_path)
    certificate = x509.load_pem_x509_certificate(identity.certificate.read_bytes())
    assert certificate.subject.rfc4514_string() == "CN=north"
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["north"]


def test_fingerprint_is_that_of_the_certificate_in_binary(tmp_path):
    pem = read_certificate(keygen("Zürich 1", tmp_path).certificate)
    der = ssl.PEM_cert_to_DER_cert(pem)
    assert fingerprint(pem) == f"sha256:{hashlib.sha256(der).hexdigest()}"


def altered(pem: str, before: bytes, after: bytes) -> str:
    """The same certificate with other bytes in it, which nobody has signed."""
    der = ssl.PEM_cert_to_DER_cert(pem)
    assert before in der
    return ssl.DER_cert_to_PEM_cert(der.replace(before, after))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda pem: altered(pem, b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x26"),  # version 39
        lambda pem: altered(pem, b"\x0c\x05north", b"\xc2\x05north"),  # OpenSSL knows no such text
    ],
)
def test_what_tls_cannot_read_is_no_certificate(tmp_path, spoil):
    pem = read_certificate(keygen("north", tmp_path).certificate)
    with pytest.raises(ValueError, match="this is not a certificate in PEM form"):
        fingerprint(spoil(pem))


@pytest.mark.parametrize("between", ["", "!\n"])
def test_what_tls_trusts_is_what_the_fingerprint_is_of(tmp_path, between):
    """Python skips what OpenSSL stumbles over, in the text of a certificate."""
    identity = keygen("north", tmp_path)
    head, *lines, end = read_certificate(identity.certificate).splitlines()
    pem = between.join([head, *lines, end])
    assert fingerprint(pem) == fingerprint(read_certificate(identity.certificate))
    settings = tls.context(identity, [pem], server_side=False)
    assert settings.cert_store_stats()["x509"] == 1


def test_nothing_is_overwritten(tmp_path, capsys):
    identity = keygen("north", tmp_path)
    key = identity.key.read_bytes()
    assert main(["keygen", "north", "--folder", str(tmp_path)]) == 1
    assert "is not overwritten" in capsys.readouterr().err
    assert identity.key.read_bytes() == key


@pytest.mark.parametrize("name", ["", "../x", "a,b", "a=b", " a", "x" * 65, "a\n"])
def test_names_that_would_not_survive_are_refused(tmp_path, name):
    with pytest.raises(ValueError, match="cannot be the name of a party"):
        keygen(name, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_key_that_others_can_read_is_refused(tmp_path, capsys):
    hub = local.prepare(tmp_path, dict.fromkeys("abc", np.ones((40, 1))), [Feature("x", 0, 2)]).hub
    for name, command in (
        ("a", ["join", "--data", str(tmp_path / "a.csv"), "--output", str(tmp_path / "out")]),
        ("hub", ["hub", "--listen", hub.address]),
    ):
        key = tmp_path / f"{name}.key"
        key.chmod(0o640)
        command[1:1] = [str(tmp_path / "consortium.toml"), "--key", str(key)]
        assert main([*command, "--certificate", str(tmp_path / f"{name}.pem")]) == 1
        error = capsys.readouterr().err
        assert f"(mode 0640). Type: chmod 600 {key}." in error
        assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()

"""A party's identity: a key that never leaves it, and a certificate for everybody else.

The certificate is self-signed, and the agreed file holds it: parties compare fingerprints once,
over the telephone, and need no certificate authority.
"""

from __future__ import annotations

import datetime
import hashlib
import os
import shlex
import ssl
import stat
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from securefedyj.errors import InputError
from securefedyj.files import write_together
from securefedyj.network import keys
from securefedyj.printable import shown

LONGEST_NAME = 64  # characters, the limit of a certificate's common name
_VALID = datetime.timedelta(days=3653)
_EARLIER = datetime.timedelta(days=1)  # clocks of other parties may be behind ours


class Identity(NamedTuple):
    """The files of a party's key and certificate."""

    key: Path
    certificate: Path


def identity_in(folder: Path, name: str) -> Identity:
    """The files that `keygen` makes in a folder."""
    return Identity(folder / f"{name}.key", folder / f"{name}.pem")


def check_name(name: str) -> None:
    """Refuse a party's name that files, options or certificates cannot hold."""
    plain = all(c.isalnum() or c in " ._-" for c in name)
    if not plain or not name[:1].isalnum() or name != name.strip() or len(name) > LONGEST_NAME:
        raise InputError(
            "SFY-KEY-001",
            f"{shown(name)} cannot be the name of a party: use up to {LONGEST_NAME} letters, "
            "digits, spaces, dots, hyphens and underscores, with a letter or digit first.",
        )


def keygen(name: str, folder: Path) -> Identity:
    """Make NAME.key, readable by its owner alone, and the certificate NAME.pem."""
    check_name(name)
    folder.mkdir(parents=True, exist_ok=True)
    identity = identity_in(folder, name)
    for path in identity:
        if path.exists():
            raise InputError(
                "SFY-KEY-010",
                f"{path} exists and is not overwritten: others may know this identity. Move it "
                "away, or choose another --folder.",
            )
    signer = ec.generate_private_key(ec.SECP256R1())
    certificate = _self_signed(name, signer).public_bytes(serialization.Encoding.PEM).decode()
    private, public = keys.new_keys(signer, fingerprint(certificate))
    _write_new(identity.key, keys.to_pem(signer) + private, 0o600)
    _write_new(identity.certificate, keys.behind(certificate, public).encode(), 0o644)
    return identity


def renew_keys(name: str, folder: Path) -> Identity:
    """Replace the keys for submissions of an identity, or add them; the others stay."""
    identity = identity_in(folder, name)
    certificate = read_certificate(read_identity(*identity).certificate)
    signer = keys.signer_in(identity.key)
    if signer.public_key() != keys.certified(certificate):
        raise InputError(
            "SFY-KEY-009",
            f"{identity.key} is not the key of the certificate {identity.certificate}; find the "
            "file that is.",
        )
    private, public = keys.new_keys(signer, fingerprint(certificate))
    write_together(
        {
            identity.key: keys.to_pem(signer) + private,
            identity.certificate: keys.behind(certificate, public).encode(),
        }
    )
    return identity


def read_certificate(path: Path) -> str:
    """Read a certificate in PEM form; an error names the file."""
    return read_public(path)[0]


def read_public(path: Path) -> tuple[str, str]:
    """The certificate in NAME.pem, and the keys for submissions behind it, if there are any."""
    try:
        certificate, public = keys.apart(path.read_text(encoding="ascii"))
        fingerprint(certificate)
    except ValueError as error:
        reason = "this is not text." if isinstance(error, UnicodeDecodeError) else str(error)
        raise InputError("SFY-KEY-003", f"{path}: {reason}") from None
    return certificate, public


def read_identity(key: Path, certificate: Path) -> Identity:
    """Refuse a key that others on this machine can read, and files that do not exist."""
    open(certificate, "rb").close()  # its error names the file, TLS would not
    with open(key, "rb") as file:
        mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
        if b"BEGIN CERTIFICATE" in file.read(1 << 12):
            raise InputError(
                "SFY-KEY-002",
                f"{key} is a certificate, not a private key. Are --key and --certificate swapped?",
            )
    if mode & 0o077 and os.name == "posix":
        raise InputError(
            "SFY-KEY-011",
            f"{key} is a private key, and others on this machine can read it (mode {mode:04o}). "
            f"Type: chmod 600 {shlex.quote(str(key))}. If somebody may have copied it, make a new "
            "one with `securefedyj keygen`.",
        )
    return Identity(key, certificate)


def fingerprint(pem: str) -> str:
    """SHA-256 of the certificate in binary form, as in the agreed file."""
    return fingerprint_of_der(to_der(pem))


def fingerprint_of_der(der: bytes) -> str:
    return f"sha256:{hashlib.sha256(der).hexdigest()}"


def validity(pem: str) -> tuple[datetime.datetime, datetime.datetime]:
    """The times between which TLS accepts the certificate."""
    certificate = x509.load_der_x509_certificate(to_der(pem))
    return certificate.not_valid_before_utc, certificate.not_valid_after_utc


def to_der(pem: str) -> bytes:
    """The one certificate in a PEM text."""
    try:
        der = ssl.PEM_cert_to_DER_cert(pem.strip())
        x509.load_der_x509_certificate(der)
        # OpenSSL must be able to read it: a hub uses one context for all parties.
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=der)
    except Exception:  # errors about certificates are of several kinds
        if "PRIVATE KEY-----" in pem:
            raise InputError(
                "SFY-KEY-005",
                "this is a private key, which only its owner may have, and not a certificate: are "
                "--key and --certificate swapped?",
            ) from None
        raise InputError(
            "SFY-KEY-004", "this is not a certificate in PEM form (BEGIN CERTIFICATE ...)."
        ) from None
    return der


def _self_signed(name: str, key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + _VALID)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    )
    if name.isascii() and " " not in name:
        builder = builder.add_extension(
            x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False
        )
    return builder.sign(key, hashes.SHA256())


def _write_new(path: Path, data: bytes, mode: int) -> None:
    """Create the file with this mode from the start; never touch an existing one."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with open(descriptor, "wb") as file:
        file.write(data)

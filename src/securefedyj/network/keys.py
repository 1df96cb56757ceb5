"""Signatures by a party's certificate, and its keys for submissions.

docs/protocol.md, section 13. A party has two X25519 keys: submissions are sealed for one, and a
silo's masks are made with the other. The private keys stand behind the certificate's in NAME.key;
the public ones, which the certificate's key signs, behind the certificate in NAME.pem.
"""

from __future__ import annotations

import base64
import re
import textwrap
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from securefedyj.errors import InputError
from securefedyj.files import read_within

SIZE = 32
"""Bytes of a public key."""
_LABEL = "securefedyj keys"
_MOST_TEXT = 400  # characters of the public keys in Base64
_MOST_BYTES = 1 << 16  # of a file
_BEGIN, _END = (f"-----{word} SECUREFEDYJ KEYS-----" for word in ("BEGIN", "END"))
_PRIVATE = re.compile(
    rb"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----", re.S
)
_ECDSA = ec.ECDSA(hashes.SHA256())


class PublicKeys(NamedTuple):
    """A party's keys for submissions, as the agreed file pins them."""

    sealing: bytes
    mask: bytes


class PrivateKeys(NamedTuple):
    """A party's own keys for submissions."""

    sealing: X25519PrivateKey
    mask: X25519PrivateKey

    @classmethod
    def read(cls, path: Path, pinned: PublicKeys) -> PrivateKeys:
        """The keys in NAME.key that belong to public ones."""
        keys = [key for key in _keys_in(path) if isinstance(key, X25519PrivateKey)]
        own = {_raw(key): key for key in keys}
        try:
            return cls(own[pinned.sealing], own[pinned.mask])
        except KeyError:
            raise InputError(
                "SFY-KEY-006",
                f"{path} does not have the keys for submissions that the agreed file names; they "
                "were renewed, or this is another party's file. Give the file that has them, or "
                "agree on a file with the keys that you have now (`securefedyj new --from "
                "--renew`).",
            ) from None


def prefixed(*parts: bytes | str) -> bytes:
    """Parts one after the other, each behind its length in four bytes."""
    encoded = (part.encode() if isinstance(part, str) else part for part in parts)
    return b"".join(len(part).to_bytes(4) + part for part in encoded)


def sign(path: Path, *parts: bytes | str) -> bytes:
    """Sign parts, the first one a label, with the certificate's key in NAME.key."""
    return signer_in(path).sign(prefixed(*parts), _ECDSA)


def signed_by(certificate: str, signature: bytes, *parts: bytes | str) -> bool:
    """Whether the key of a certificate has signed these parts."""
    try:
        key = certified(certificate)
        if not isinstance(key, ec.EllipticCurvePublicKey):
            return False
        key.verify(signature, prefixed(*parts), _ECDSA)
    except (InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def certified(certificate: str) -> Any:
    """The public key in a certificate, of any kind."""
    return x509.load_pem_x509_certificate(certificate.encode()).public_key()


def public_keys(text: str, certificate: str, fingerprint: str, owner: str) -> PublicKeys:
    """The keys in this text, which their owner's certificate must have signed."""
    try:
        data = base64.b64decode(text[:_MOST_TEXT], validate=True)
        if base64.b64encode(data).decode() == text:
            found = PublicKeys(data[:SIZE], data[SIZE : 2 * SIZE])
            for key in found:  # one of few points would give everybody the same secret
                X25519PrivateKey.generate().exchange(X25519PublicKey.from_public_bytes(key))
            if signed_by(certificate, data[2 * SIZE :], _LABEL, fingerprint, *found):
                return found
    except ValueError:
        pass
    raise InputError(
        "SFY-KEY-008",
        f"the keys for submissions of {owner!r} are not signed by its certificate; ask {owner!r} "
        "for the file NAME.pem of `securefedyj keygen`.",
    )


def new_keys(signer: ec.EllipticCurvePrivateKey, fingerprint: str) -> tuple[bytes, str]:
    """New keys: what stands behind the private key, and the public ones in Base64."""
    keys = PrivateKeys(X25519PrivateKey.generate(), X25519PrivateKey.generate())
    public = PublicKeys(*map(_raw, keys))
    signature = signer.sign(prefixed(_LABEL, fingerprint, *public), _ECDSA)
    text = base64.b64encode(b"".join([*public, signature])).decode()
    return b"".join(map(to_pem, keys)), text


def to_pem(key: ec.EllipticCurvePrivateKey | X25519PrivateKey) -> bytes:
    """A private key as in NAME.key."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def behind(certificate: str, keys: str) -> str:
    """The content of NAME.pem."""
    return f"{certificate.rstrip()}\n{_BEGIN}\n{textwrap.fill(keys, 64)}\n{_END}\n"


def apart(content: str) -> tuple[str, str]:
    """Certificate and public keys in NAME.pem; the keys are empty if it has none."""
    certificate, begin, rest = content.partition(_BEGIN)
    keys, end, more = rest.partition(_END)
    if begin and (not end or more.strip()):
        return content, ""  # which is no certificate
    return certificate, "".join(keys.split())


def signer_in(path: Path) -> ec.EllipticCurvePrivateKey:
    """The certificate's key in NAME.key."""
    for key in _keys_in(path):
        if isinstance(key, ec.EllipticCurvePrivateKey):
            return key
    raise InputError(
        "SFY-KEY-007",
        f"{path} has no key that can sign for a submission; make an identity with `securefedyj "
        "keygen`.",
    )


def _keys_in(path: Path) -> Iterator[Any]:
    """All private keys in a file."""
    for block in _PRIVATE.findall(read_within(path, _MOST_BYTES)):
        with suppress(ValueError, TypeError, UnsupportedAlgorithm):  # TLS says what is wrong
            yield serialization.load_pem_private_key(block, None)


def _raw(key: X25519PrivateKey) -> bytes:
    return key.public_key().public_bytes_raw()

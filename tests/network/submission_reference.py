"""Submissions once more, from docs/protocol.md alone, without the package and without its HPKE."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
from decimal import Decimal
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, hmac
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

EMPTY_SALT = bytes(32)


def sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def prefixed(*parts: Any) -> bytes:
    """Section 13.2."""
    data = [part.encode() if isinstance(part, str) else part for part in parts]
    return b"".join(len(part).to_bytes(4, "big") + part for part in data)


def check_signature(certificate: str, signature: bytes, *parts: Any) -> None:
    """Raise InvalidSignature unless the certificate's key has signed these parts."""
    key: Any = x509.load_pem_x509_certificate(certificate.encode()).public_key()
    key.verify(signature, prefixed(*parts), ec.ECDSA(hashes.SHA256()))


def party_keys(party: dict[str, Any]) -> tuple[bytes, bytes]:
    """The sealing key and the mask key of a party in the agreed file."""
    data = base64.b64decode(party["keys"])
    own = data[:32], data[32:64]
    fingerprint = party["fingerprint"]
    check_signature(party["certificate"], data[64:], "securefedyj keys", fingerprint, *own)
    return own


# HKDF (RFC 5869) and HPKE (RFC 9180), base mode


def hmac_sha256(key: bytes, data: bytes) -> bytes:
    mac = hmac.HMAC(key, hashes.SHA256())
    mac.update(data)
    return mac.finalize()


def expand(secret: bytes, info: bytes, length: int) -> bytes:
    """At most 32 bytes."""
    return hmac_sha256(secret, info + b"\1")[:length]


def hkdf(secret: bytes, salt: bytes, info: bytes) -> bytes:
    return expand(hmac_sha256(salt, secret), info, 32)


def labeled_extract(suite: bytes, salt: bytes, label: bytes, secret: bytes) -> bytes:
    return hmac_sha256(salt or EMPTY_SALT, b"HPKE-v1" + suite + label + secret)


def labeled_expand(suite: bytes, secret: bytes, label: bytes, info: bytes, length: int) -> bytes:
    return expand(secret, length.to_bytes(2, "big") + b"HPKE-v1" + suite + label + info, length)


def open_hpke(sealed: bytes, private: bytes, info: bytes) -> bytes:
    """DHKEM(X25519, HKDF-SHA256) is 0x0020, HKDF-SHA256 is 0x0001, AES-256-GCM is 0x0002."""
    key, encapsulated = X25519PrivateKey.from_private_bytes(private), sealed[:32]
    own = key.public_key().public_bytes_raw()
    kem = b"KEM\x00\x20"
    shared = key.exchange(X25519PublicKey.from_public_bytes(encapsulated))
    secret = labeled_extract(kem, b"", b"eae_prk", shared)
    secret = labeled_expand(kem, secret, b"shared_secret", encapsulated + own, 32)
    suite = b"HPKE\x00\x20\x00\x01\x00\x02"
    context = b"\0" + labeled_extract(suite, b"", b"psk_id_hash", b"")
    context += labeled_extract(suite, b"", b"info_hash", info)
    secret = labeled_extract(suite, secret, b"secret", b"")
    aes = AESGCM(labeled_expand(suite, secret, b"key", context, 32))
    return aes.decrypt(labeled_expand(suite, secret, b"base_nonce", context, 12), sealed[32:], b"")


# Section 13.1


def points_of(feature: dict[str, Any]) -> list[float]:
    """All points, by trying every decimal between the bounds; the bounds contain 0."""
    lower, upper = Decimal(repr(feature["lower"])), Decimal(repr(feature["upper"]))
    step, digits = Decimal(feature["resolution"]), feature.get("digits", 0)
    if not digits:
        steps = int((upper - lower) / step)
        return [float(lower + j * step) for j in range(steps + 1)]
    tried = (j * step for j in range(int(lower / step), int(upper / step) + 1))
    return [
        float(one) for one in tried if len(f"{abs(one):f}".replace(".", "").strip("0")) <= digits
    ]


def counts_of(column: list[float], points: list[float]) -> list[int]:
    counts = [0] * len(points)
    for value in column:
        distances = [abs(value - point) for point in points]
        counts[distances.index(min(distances))] += 1
    return counts


# Sections 13.3 and 13.4


def numbers(key: bytes, bits: int, count: int) -> list[int]:
    """F(key, bits)."""
    stream = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor().update(bytes(16 * count))
    words = (stream[16 * j : 16 * j + 16] for j in range(count))
    return [int.from_bytes(word, "little") % (1 << bits) for word in words]


class Reference:
    """The submissions of a run, whose agreed file is already parsed."""

    def __init__(self, agreed: dict[str, Any], digest: str, points: int) -> None:
        self.digest, self.points, self.committee = digest, points, agreed["committee"]
        self.parties = {party["name"]: party for party in agreed["party"]}
        self.silos = [party["name"] for party in agreed["party"] if party["role"] == "silo"]

    def read(self, data: bytes) -> tuple[dict[str, Any], bytes, list[bytes]]:
        """The header of a file as an object and as bytes, and its parts; all checked."""
        line, signature, rest = data.split(b"\n", 2)
        header = json.loads(line)
        party = self.parties[header["silo"]]
        assert header["digest"] == self.digest
        assert header["fingerprint"] == party["fingerprint"]
        raw = bytes.fromhex(signature.decode())
        check_signature(party["certificate"], raw, "securefedyj submission: header", line)
        cuts = [0, 112, 16 * self.points + 224, 32 * self.points + 336]
        assert len(rest) == cuts[-1]
        parts = [rest[start:end] for start, end in itertools.pairwise(cuts)]
        assert [sha256(part).hex() for part in parts] == header["parts"]
        return header, line, parts

    def open(self, data: bytes, member: str, private: bytes) -> dict[int, bytes]:
        """The shares of a member."""
        header, _, parts = self.read(data)
        i = self.committee.index(member)
        info = prefixed("securefedyj submission: part", self.digest, header["silo"],
                        header["fingerprint"], member, str(i))  # fmt: skip
        shares = open_hpke(parts[i], private, info)
        sizes = [32, 32, 32 + 16 * self.points]
        first, second = i, (i + 1) % 3
        assert len(shares) == sizes[first] + sizes[second]
        found = {first: shares[: sizes[first]], second: shares[sizes[first] :]}
        for one, share in found.items():
            assert sha256(share).hex() == header["shares"][one]
        return found

    def component(self, i: int, share: bytes) -> list[int]:
        if i < 2:
            return numbers(share, 125, self.points)
        words = (share[32 + 16 * j : 48 + 16 * j] for j in range(self.points))
        return [int.from_bytes(word, "little", signed=True) for word in words]

    def mask_keys(self, silo: str, private: bytes) -> dict[str, bytes]:
        """k_pq with each other silo, in agreed order."""
        own, keys = X25519PrivateKey.from_private_bytes(private), {}
        for other in self.silos:
            if other != silo:
                public = X25519PublicKey.from_public_bytes(party_keys(self.parties[other])[1])
                pair = sorted([silo, other], key=self.silos.index)
                info = prefixed("securefedyj submission: mask", *pair)
                keys[other] = hkdf(own.exchange(public), bytes.fromhex(self.digest), info)
        return keys

    def mask(self, silo: str, private: bytes) -> list[int]:
        total = [0] * self.points
        for other, key in self.mask_keys(silo, private).items():
            sign = 1 if self.silos.index(silo) < self.silos.index(other) else -1
            for j, number in enumerate(numbers(key, 118, self.points)):
                total[j] += sign * number
        return total

    def confirmations(self, silo: str, private: bytes) -> list[str]:
        info = prefixed("securefedyj submission: confirmation")
        return [hkdf(key, EMPTY_SALT, info).hex() for key in self.mask_keys(silo, private).values()]

"""submission.json, opened by this package and by a second implementation."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from securefedyj.network import submission
from securefedyj.network.consortium import Consortium
from securefedyj.network.keys import PrivateKeys
from securefedyj.numerics import wide
from tests.network.submission_reference import (
    Reference,
    counts_of,
    open_hpke,
    party_keys,
    points_of,
    prefixed,
    sha256,
)
from tests.vectors.make_submission_vectors import FILE, vectors

VECTORS = json.loads(FILE.read_text(encoding="utf-8"))
AGREED = tomllib.loads(VECTORS["agreed_file"])
FILES = {name: bytes.fromhex(data) for name, data in VECTORS["files"].items()}
N = sum(map(len, VECTORS["points"]))


def private(name: str, kind: str, content: Any = VECTORS) -> bytes:
    return bytes.fromhex(content["private_keys"][name][kind])


@pytest.fixture
def reference() -> Reference:
    return Reference(AGREED, VECTORS["digest"], N)


@pytest.fixture
def consortium(tmp_path: Path) -> Consortium:
    (tmp_path / "agreed.toml").write_text(VECTORS["agreed_file"], encoding="utf-8")
    return Consortium.read(tmp_path / "agreed.toml")


def test_this_package_opens_the_files(consortium):
    assert consortium.digest() == VECTORS["digest"]
    heads = [submission.read(FILES[name], consortium) for name in consortium.agreement().silos]
    submission.check_masks({head.header.silo: head.header for head in heads}, list(FILES))
    assert submission.digest_of([head.digest for head in heads]).hex() == VECTORS["headers"]
    for i, name in enumerate(consortium.committee):
        keys = PrivateKeys(*(X25519PrivateKey.from_private_bytes(private(name, kind))
                             for kind in ("sealing", "mask")))  # fmt: skip
        shares = [submission.unseal(head, consortium, name, keys) for head in heads]
        held = submission.totals(heads, shares, i, N).held
        found = [" ".join(map(str, wide.to_ints(one))) for one in held]
        assert found == VECTORS["components"][i]


def test_points_and_counts_follow_from_the_page(consortium):
    features = [feature for feature in AGREED["feature"] if "resolution" in feature]
    for j, feature in enumerate(features):
        points = points_of(feature)
        assert [point.hex() for point in points] == VECTORS["points"][j]
        assert points == consortium.agreement().points[j].tolist()
    assert VECTORS["points"][2] == []
    for name, rows in VECTORS["rows"].items():
        counts = []
        for j in (0, 1):
            column = [float.fromhex(row[j]) for row in rows if row[j] is not None]
            counts += counts_of(column, list(map(float.fromhex, VECTORS["points"][j])))
        assert counts == VECTORS["counts"][name]


def test_a_second_implementation_opens_the_files(reference):
    """Members' components add up to the counts, and the silo's masks are those of the page."""
    totals: dict[str, dict[int, list[int]]] = {}
    for silo, data in FILES.items():
        components: dict[int, list[int]] = {}
        for member in reference.committee:
            own = reference.open(data, member, private(member, "sealing"))
            for i, share in own.items():
                found = reference.component(i, share)
                assert components.setdefault(i, found) == found
                total = totals.setdefault(member, {}).setdefault(i, [0] * N)
                totals[member][i] = [a + b for a, b in zip(total, found, strict=True)]
        masks = reference.mask(silo, private(silo, "mask"))
        counts = [
            sum(parts) - mask for *parts, mask in zip(*components.values(), masks, strict=True)
        ]
        assert counts == VECTORS["counts"][silo]
        header = reference.read(data)[0]
        assert header["confirmations"] == reference.confirmations(silo, private(silo, "mask"))
    for i, member in enumerate(reference.committee):
        held = [" ".join(map(str, totals[member][k])) for k in (i, (i + 1) % 3)]
        assert held == VECTORS["components"][i]


def test_a_second_implementation_digests_the_headers(reference):
    lines = [reference.read(FILES[silo])[1] for silo in reference.silos]
    assert sha256(prefixed(*map(sha256, lines))).hex() == VECTORS["headers"]


def test_public_keys_are_those_of_the_private_ones():
    for party in AGREED["party"]:
        for kind, public in zip(("sealing", "mask"), party_keys(party), strict=True):
            own = X25519PrivateKey.from_private_bytes(private(party["name"], kind))
            assert own.public_key().public_bytes_raw() == public


def test_the_second_hpke_opens_what_the_library_seals():
    suite = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_256_GCM)
    key = X25519PrivateKey.generate()
    sealed = suite.encrypt(b"a share", key.public_key(), info=b"for this")
    assert open_hpke(sealed, key.private_bytes_raw(), b"for this") == b"a share"
    with pytest.raises(InvalidTag):
        open_hpke(sealed, key.private_bytes_raw(), b"for that")


def test_new_vectors_have_the_same_points_counts_and_form(tmp_path):
    again = vectors(tmp_path)
    assert set(again) == set(VECTORS)
    for key in ("points", "counts", "rows", "version"):
        assert again[key] == VECTORS[key]
    assert {name: len(data) // 200 for name, data in again["files"].items()} == {
        name: len(data) // 200 for name, data in VECTORS["files"].items()
    }
    agreed = tomllib.loads(again["agreed_file"])
    other = Reference(agreed, again["digest"], N)
    opened = other.open(
        bytes.fromhex(again["files"]["east"]), "north", private("north", "sealing", again)
    )
    assert set(opened) == {0, 2}
    assert np.all(np.array(other.component(0, opened[0])) < 2**125)

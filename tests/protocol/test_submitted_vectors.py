"""The published vectors of a submitted run hold, also for a second implementation.

It was written from docs/protocol.md, section 13, with Python's integers, mpmath and AES, and shares
no code with the package.
"""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from mpmath import mp, mpf

VECTORS = Path(__file__).parents[1] / "vectors"
PUBLISHED: dict[str, Any] = json.loads((VECTORS / "submitted.json").read_text())
POINTS, AGREEMENT = PUBLISHED["points"], PUBLISHED["agreement"]
COLUMN = (0, 0, 1)
"""Of each question: lambda of the first feature, its median, and lambda of the second."""
LIMBS = 3
number = float.fromhex


def signed(value: int, bits: int) -> int:
    half = 1 << bits - 1
    return (value + half) % (2 * half) - half


def drawn(key: bytes, bits: int, size: int) -> list[int]:
    """F(k, b): the lowest bits of each block of the keystream."""
    cipher = Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor()
    stream = cipher.update(bytes(16 * size))
    blocks = [stream[16 * b : 16 * b + 16] for b in range(size)]
    return [int.from_bytes(block, "little") % (1 << bits) for block in blocks]


def components(silo: str) -> list[list[int]]:
    first, second, rest = map(bytes.fromhex, PUBLISHED["shares"][silo])
    size = len(rest) // 16
    last = [int.from_bytes(rest[16 * b : 16 * b + 16], "little", signed=True) for b in range(size)]
    return [drawn(first, 125, size), drawn(second, 125, size), last]


def of_feature(values: list[int], feature: int) -> list[int]:
    start = sum(map(len, POINTS[:feature]))
    return values[start : start + len(POINTS[feature])]


def totals() -> list[list[int]]:
    """T_0, T_1 and T_2."""
    return [
        [sum(column) for column in zip(*parts, strict=True)]
        for parts in zip(*map(components, PUBLISHED["counts"]), strict=True)
    ]


def counts(feature: int) -> list[int]:
    every = [sum(column) for column in zip(*PUBLISHED["counts"].values(), strict=True)]
    return of_feature(every, feature)


def coefficients(entry: dict[str, Any]) -> dict[str, list[int]]:
    own = {key: [int(a, 16) for a in values] for key, values in entry["coefficients"].items()}
    own["yy"] = [a * a for a in own["y"]]
    own["yd"] = [a * b for a, b in zip(own["y"], own["d"], strict=True)]
    return own


def sums(entry: dict[str, Any]) -> dict[str, int]:
    """Of all silos together, from the counts themselves."""
    own = counts(COLUMN[entry["question"]])
    return {
        key: sum(c * a for c, a in zip(own, values, strict=True))
        for key, values in coefficients(entry).items()
    }


def of_kind(kind: str) -> list[dict[str, Any]]:
    return [line for line in PUBLISHED["reveals"] if line["reveal"] == kind]


def test_the_package_computes_what_is_published() -> None:
    made = runpy.run_path(str(VECTORS / "make_submitted_vectors.py"))["vectors"]()
    assert json.loads(json.dumps(made)) == PUBLISHED


@pytest.mark.parametrize("silo", PUBLISHED["counts"])
def test_the_shares_of_a_silo_sum_to_its_counts(silo: str) -> None:
    first, second, rest = components(silo)
    summed = [sum(parts) for parts in zip(first, second, rest, strict=True)]
    assert summed == PUBLISHED["counts"][silo]
    assert all(0 <= value < 1 << 125 for value in first + second)


def test_components_of_sums_are_linear_in_those_of_counts() -> None:
    """Also where they are reduced modulo a ring that is narrower than the sums of components."""
    for entry in PUBLISHED["sums"]:
        bits = 64 * entry["limbs"]
        for key, values in coefficients(entry).items():
            own = [
                signed(
                    sum(
                        t * a
                        for t, a in zip(
                            of_feature(total, COLUMN[entry["question"]]), values, strict=True
                        )
                    ),
                    bits,
                )
                for total in totals()
            ]
            assert [int(part, 16) for part in entry["sums"][key]] == own
            assert signed(sum(own), bits) == sums(entry)[key]


def test_coefficients_are_those_of_the_definition() -> None:
    """To the precision of float64."""
    with mp.workprec(300):
        for entry in PUBLISHED["sums"]:
            lmbda, grid = mpf(number(entry["lambda"])), entry["grid"]
            for k, x in enumerate(map(mpf, POINTS[COLUMN[entry["question"]]])):
                side, u = (1, lmbda) if x >= 0 else (-1, 2 - lmbda)
                L = mp.log1p(abs(x))
                w = mp.exp(u * L)
                exact = {
                    "y": (side * (w - 1) / u if u else side * L, grid),
                    "d": ((L * w - (w - 1) / u) / u if u else L**2 / 2, grid),
                    "phi": (side * L, 52),
                }
                for key, (value, bits) in exact.items():
                    got = mp.ldexp(int(entry["coefficients"][key][k], 16), -bits)
                    assert abs(got - value) <= mpf("1e-14") * abs(value) + mp.ldexp(1, -bits)


def test_what_is_opened_follows_from_the_counts() -> None:
    headers, numbers, possible, variation = PUBLISHED["reveals"][:4]
    assert (headers["reveal"], headers["features"]) == ("headers", [0, 1, 2])
    assert len(bytes.fromhex(headers["digest"])) == 32
    n = [sum(counts(feature)) for feature in COLUMN]
    assert numbers == {"reveal": "counts", "features": [0, 1, 2], "n": n}
    assert possible == {"reveal": "possible", "features": [0, 2], "holds": True}
    assert variation == {"reveal": "variation", "features": [0, 2], "varies": [True, True]}
    at = {(one["question"], one["lambda"]): one for one in PUBLISHED["sums"]}
    rank = -(-n[1] // 2)
    for line in of_kind("step"):
        for q, lmbda, delta in zip(line["features"], line["lmbda"], line["delta"], strict=True):
            if q == 1:  # fewer values than the rank are at most the point
                points, point = POINTS[0], number(lmbda)
                below = sum(c for c, x in zip(counts(0), points, strict=True) if x <= point)
                assert delta == (1 if below < rank else -1)
                continue
            S = sums(at[q, lmbda])
            V = n[q] * S["yy"] - S["y"] ** 2
            D = S["phi"] * V - (n[q] * (n[q] * S["yd"] - S["y"] * S["d"]) << 52)
            assert delta == (-1 if D < 0 else 1)
    assert {delta for line in of_kind("step") for delta in line["delta"]} == {-1, 1}


def test_the_result_follows_from_the_counts() -> None:
    (final,) = of_kind("final")
    result, bits = PUBLISHED["result"]["result"], AGREEMENT["result_bits"]
    for k, entry in enumerate(PUBLISHED["sums"][-2:]):
        q, S = entry["question"], sums(entry)
        n = sum(counts(COLUMN[q]))
        V = n * S["yy"] - S["y"] ** 2
        magnitude = (V.bit_length() - 1) // 8
        assert final["magnitude"][q] == magnitude
        assert int(final["V"][q], 16) == V >> max(8 * magnitude - bits, 0)
        assert int(final["S_y"][q], 16) == S["y"] >> max(4 * magnitude - bits, 0)
        assert number(result["lmbda"][k]) == number(entry["lambda"])
        unit = 2.0 ** -entry["grid"]
        assert number(result["mean"][k]) == pytest.approx(S["y"] / n * unit, rel=1e-6)
        assert number(result["var"][k]) == pytest.approx(V / n**2 * unit**2, rel=1e-6)
    found = PUBLISHED["result"]["points"]
    ordered = [x for c, x in zip(counts(0), POINTS[0], strict=True) for _ in range(c)]
    assert list(map(number, found["value"])) == [ordered[found["rank"][0] - 1]]

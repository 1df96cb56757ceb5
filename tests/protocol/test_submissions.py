"""Counts of submissions as shares."""

import secrets

import numpy as np
import pytest

from securefedyj.numerics import wide
from securefedyj.numerics.weighed import LIMBS
from securefedyj.protocol.submissions import (
    KEYED,
    POINT_BYTES,
    Submissions,
    component,
    masked,
    share,
)
from tests.refusals import refused


def keys_of(silos: int) -> dict[frozenset[int], bytes]:
    pairs = {frozenset((p, q)) for p in range(silos) for q in range(p)}
    return {pair: secrets.token_bytes(32) for pair in pairs}


def hidden(counts: np.ndarray, p: int, keys: dict[frozenset[int], bytes], silos: int) -> wide.Limbs:
    after = [keys[frozenset((p, q))] for q in range(p + 1, silos)]
    before = [keys[frozenset((p, q))] for q in range(p)]
    return masked(counts, after, before)


@pytest.mark.parametrize("silos", [1, 4, 255])
def test_components_of_all_silos_sum_to_the_total_over_the_integers(silos: int) -> None:
    """Without a modulus, so that they fit every ring."""
    keys = keys_of(silos)
    counts = np.random.default_rng(3).integers(0, 1 << 40, (silos, 5))
    counts[0] = 1 << 40
    totals = [0] * 5
    for p in range(silos):
        parts = share(hidden(counts[p], p, keys, silos))
        assert [len(part) for part in parts] == [32, 32, 5 * POINT_BYTES]
        for i, part in enumerate(parts):
            own = wide.to_ints(component(i, part, 5))
            limit = 1 << (125 if i in KEYED else 127)
            assert all((0 if i in KEYED else -limit) <= value < limit for value in own)
            totals = [a + b for a, b in zip(totals, own, strict=True)]
    assert totals == counts.sum(axis=0).tolist()
    assert all(abs(total) < 1 << (64 * LIMBS - 1) for total in totals)


def test_the_rest_is_signed() -> None:
    part = (-5).to_bytes(16, "little", signed=True) + (1 << 126).to_bytes(16, "little")
    assert wide.to_ints(component(2, part, 2)) == [-5, 1 << 126]


def test_a_part_for_other_points_is_refused() -> None:
    with refused("SFY-RUN-013"):
        component(2, bytes(31), 2)


def bits(values: list[int], width: int) -> np.ndarray:
    return np.array([[value >> k & 1 for k in range(width)] for value in values])


@pytest.mark.parametrize("value", [0, 1 << 40])
def test_what_a_member_holds_looks_the_same_for_all_counts(value: int) -> None:
    """Any two components: every bit below the highest is as likely 0 as 1, and without the others.

    A fair bit of 4,096 points is off by 7 standard deviations once in 10^11 times.
    """
    size = 4096
    parts = share(masked(np.full(size, value), [], []))
    components = [wide.to_ints(component(i, part, size)) for i, part in enumerate(parts)]
    width = 118
    known = np.hstack([bits(values, width) for values in components])
    for held in ((0, 1), (1, 2), (2, 0)):
        own = known[:, np.concatenate([np.arange(i * width, (i + 1) * width) for i in held])]
        signs = 2 * own.astype(np.float64) - 1
        assert np.all(np.abs(signs.sum(axis=0)) < 7 * np.sqrt(size))
        # No bit says anything about another one.
        together = signs.T @ signs
        np.fill_diagonal(together, 0)
        assert np.abs(together).max() < 7 * np.sqrt(size)


def test_masks_hide_a_silo_from_two_members_who_know_another_silo() -> None:
    """Of four silos, two whose keys nobody else has: their difference looks random."""
    size = 4096
    keys = keys_of(4)
    counts = np.zeros((4, size), dtype=np.int64)
    counts[2] = 7
    own = [hidden(counts[p], p, keys, 4) for p in range(4)]
    # Everything that the first two silos know about the third one's masks.
    rest = own[2]
    for known in (0, 1):
        rest = wide.add(
            rest, masked(np.zeros(size, dtype=np.int64), [keys[frozenset((2, known))]], [])
        )
    signs = 2.0 * bits([value % (1 << 118) for value in wide.to_ints(rest)], 118) - 1
    assert np.all(np.abs(signs.sum(axis=0)) < 7 * np.sqrt(size))
    both = wide.add(rest, own[3])
    for known in (0, 1):
        both = wide.add(
            both, masked(np.zeros(size, dtype=np.int64), [keys[frozenset((3, known))]], [])
        )
    assert wide.to_ints(both) == [7] * size


def test_counts_are_not_in_the_repr() -> None:
    held = np.full((2, LIMBS, 4), 4711, dtype=np.uint64)
    assert "4711" not in repr(Submissions(bytes(32), held))

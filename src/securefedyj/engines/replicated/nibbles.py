"""What the nibbles of A + B carry, when one member knows A and the other two know B.

docs/protocol.md, section 8, "negative". The member that knows A writes the table [A' >= u] for all
u, and the members that know B read it at two neighbouring places. Reading is linear in the table:
it acts on each share of the table alone, whatever the share looks like.
"""

import numpy as np

from securefedyj.engines.additive import PackedBits, bit_planes, pack, packed_size
from securefedyj.numerics import wide
from securefedyj.numerics.wide import Limbs

PER_LIMB = 16
THRESHOLDS = 15  # u = 1, ..., 15: that A' >= 0 is always so, and A' >= 16 never

_CHUNK = 4096  # bytes of each plane to read at once: tables of 256 bits then take 4 MB


def table_shape(limbs: int, size: int) -> tuple[int, int]:
    """The shape of the table: `thresholds` of integers, in planes of packed bits."""
    return THRESHOLDS * PER_LIMB * limbs + 1, packed_size(size)


def carries_shape(limbs: int, size: int) -> tuple[int, int, int]:
    """The shape of what is read from it: see `carries`."""
    return 2, PER_LIMB * limbs, packed_size(size)


def top(a: Limbs) -> PackedBits:
    """Return the one plane of the highest bits."""
    return pack((a[-1:] >> np.uint64(63)).astype(np.uint8))


def thresholds(a: Limbs) -> PackedBits:
    """Return the planes [A' >= u], those of u = 1 first, the lowest nibble first; and `top(a)`.

    One bit more, with value 2^k, makes of the known thresholds u < 2^k of the bits below: bit or
    [A' >= u] for u, bit for 2^k, and bit and [A' >= u] for 2^k + u.
    """
    planes = bit_planes(wide.shift_left(a, 1))
    result: PackedBits = np.empty(table_shape(*a.shape), dtype=np.uint8)
    result[-1:] = top(a)
    table = result[:-1].reshape(THRESHOLDS, PER_LIMB * len(a), planes.shape[1])
    for k in range(4):
        bit, known = planes[k::4], (1 << k) - 1
        table[known] = bit
        np.bitwise_and(bit, table[:known], out=table[known + 1 : 2 * known + 1])
        table[:known] |= bit
    return result


def carries(table: PackedBits, b: Limbs, *, always: int) -> PackedBits:
    """Read a share of the table, `thresholds` without the last plane, at B'.

    ``always`` is this share of [A' >= 0]: the bits of a byte, all 1 or all 0. Returns a share of
    generate for all nibbles, and one of propagate, as two arrays in one.
    """
    planes = bit_planes(wide.shift_left(b, 1))
    result: PackedBits = np.empty(carries_shape(*b.shape), dtype=np.uint8)
    table = table.reshape(THRESHOLDS, *result.shape[1:])
    for start in range(0, planes.shape[1], _CHUNK):
        chunk = slice(start, start + _CHUNK)
        with_carry, without = _read(table[:, :, chunk], planes[:, chunk], always)
        result[0, :, chunk] = without
        np.bitwise_xor(with_carry, without, out=result[1, :, chunk])
    return result


def _read(table: PackedBits, planes: PackedBits, always: int) -> PackedBits:
    """Return the entries 15 - B' and 16 - B' of the table with both its ends.

    The highest bit of B' says which half of the table they are in; the two halves have the middle
    in common. So on with the next bit: 17 entries, 9, 5, 3, 2.
    """
    end: PackedBits = np.zeros_like(table[:1])
    entries = np.concatenate([end | np.uint8(always), table, end])
    for k in reversed(range(4)):
        middle = len(entries) // 2
        low, high = entries[: middle + 1], entries[middle:]
        chosen = low ^ high
        chosen &= planes[k::4]
        chosen ^= high
        entries = chosen
    return entries

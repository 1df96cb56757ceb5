"""Pseudorandom numbers that two parties can draw alike, and the masks of inputs made of them.

docs/protocol.md, section 8. Silo p shares v + sum over q > p of F(k_pq) - sum over q < p of F(k_pq)
in place of v, where only p and q know k_pq. The masks cancel in the sum over all silos; two members
of the committee, who hold all components, see the sum over all silos but their own, and no more.
"""

import math
import secrets
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from numpy.typing import NDArray

from securefedyj.numerics import wide
from securefedyj.numerics.wide import Limbs
from securefedyj.party.messages import Kind
from securefedyj.party.rounds import play_round

KEY_BYTES = 32

_ZEROS = memoryview(bytes(1 << 16))
_MORE = 15  # bytes that `update_into` wants behind what it writes


def fresh_key() -> bytes:
    """Return a new key from the operating system."""
    return secrets.token_bytes(KEY_BYTES)


class Keystream:
    """The AES-256-CTR keystream of one key, from its beginning.

    Two holders of the key that draw the same shapes in the same order get the same numbers. No
    part of the stream is used twice. A key serves one session, so the initial counter can be zero.
    """

    def __init__(self, key: bytes) -> None:
        self._key, self._drawn = key, 0
        self._encryptor = _from(key, 0)

    def draw(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return the next uniform numbers of a little-endian unsigned type."""
        count = math.prod(shape) * dtype.itemsize
        self._drawn += count
        return _drawn(self._encryptor, shape, dtype)

    def set_aside(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Callable[[], NDArray[Any]]:
        """Pass the next numbers over; return what draws them, each time that they are needed."""
        start = self._drawn
        self._drawn += math.prod(shape) * dtype.itemsize
        self._encryptor = _from(self._key, self._drawn)
        return lambda: _drawn(_from(self._key, start), shape, dtype)


def _from(key: bytes, position: int) -> CipherContext:
    """The keystream of a key from this byte on."""
    counter, within = divmod(position, 16)
    encryptor = Cipher(algorithms.AES256(key), modes.CTR(counter.to_bytes(16))).encryptor()
    encryptor.update(bytes(within))
    return encryptor


def _drawn(encryptor: CipherContext, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    count = math.prod(shape) * dtype.itemsize
    if count <= len(_ZEROS):
        return np.frombuffer(encryptor.update(_ZEROS[:count]), dtype).reshape(shape)
    drawn = np.empty(count + _MORE, dtype=np.uint8)
    for start in range(0, count, len(_ZEROS)):  # where they are wanted, and not moved there
        zeros = _ZEROS[: count - start]
        encryptor.update_into(zeros, drawn.data[start : start + len(zeros) + _MORE])
    return drawn[:count].view(dtype).reshape(shape)


class Masks:
    """One party's masks; of a party without data, none.

    Keystreams in common with silos after this one are added, those with silos before it subtracted.
    """

    def __init__(
        self, added: Sequence[Keystream] = (), subtracted: Sequence[Keystream] = ()
    ) -> None:
        self._added = added
        self._subtracted = subtracted

    def hide(self, values: Limbs) -> Limbs:
        """Return a vector with fresh masks."""
        for keystream in self._added:
            values = wide.add(values, keystream.draw(values.shape, np.dtype("<u8")))
        for keystream in self._subtracted:
            values = wide.subtract(values, keystream.draw(values.shape, np.dtype("<u8")))
        return values


def worthwhile(parties: Sequence[str], silos: Sequence[str]) -> bool:
    """Whether masks hide anything: of three parties, two members leave one other silo at most."""
    return len(parties) > 3 and len(silos) >= 2


async def agree_on_masks(name: str, silos: Sequence[str]) -> Masks:
    """Send a fresh key to every silo after this one. One round; a party without data passes it."""
    place = silos.index(name) if name in silos else 0
    before, after = (silos[:place], silos[place + 1 :]) if name in silos else ((), ())
    keys = {silo: fresh_key() for silo in after}
    incoming = await play_round(Kind.KEY, keys, dict.fromkeys(before, KEY_BYTES))
    return Masks(
        [Keystream(keys[silo]) for silo in after], [Keystream(incoming[silo]) for silo in before]
    )

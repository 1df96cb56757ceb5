"""Pseudorandom numbers that two parties can draw alike (docs/protocol.md, section 8)."""

import math
import secrets
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

KEY_BYTES = 32


def fresh_key() -> bytes:
    """Return a new key from the operating system."""
    return secrets.token_bytes(KEY_BYTES)


class Keystream:
    """The AES-256-CTR keystream of one key, from its beginning.

    Whoever holds the key and draws the same shapes in the same order gets the same numbers;
    no part of the stream is ever given out twice. A key serves one session, so the
    initial counter can be zero.
    """

    def __init__(self, key: bytes) -> None:
        self._encryptor = Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor()

    def draw(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return the next uniform numbers of a little-endian unsigned type."""
        count = math.prod(shape) * dtype.itemsize
        return np.frombuffer(self._encryptor.update(bytes(count)), dtype).reshape(shape)

"""The MPyC library: how it is started, and the operations that the engine uses.

MPyC is one global runtime, configured by `sys.argv` when it is imported. Only the process of
`child.py` imports it; this module by itself does not.
"""

import importlib.metadata
import importlib.util
import logging
import sys
from asyncio import Future
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import numpy as np

from securefedyj.engines.mpyc.pipe import Operation, Work, pack, unpack

STATISTICAL_SECURITY = 64
"""How many bits masks are wider than what they hide, about (security-details.md, section 2)."""

OPTIONS = ("--no-prss", "--no-uvloop", f"--sec-param={STATISTICAL_SECURITY}", "--mix32-64bit")
"""How MPyC is started.

Pseudo-random secret sharing takes binomial(K, t) keys, and for these wide fields it is slower
than messages even for three parties: its random bits cost a square root each. Where uvloop is
installed, as Flower and FLARE do, MPyC would use its event loop in place of ours. The last option,
for parties on different platforms, makes MPyC send arrays as plain numbers instead of pickles:
reading a pickle runs code that its writer chose.
"""


def check_installed() -> None:
    """Raise ImportError unless MPyC is installed, in the version whose openings were examined."""
    if importlib.util.find_spec("mpyc") is None:
        raise ImportError(
            "Engine 'mpyc' needs the MPyC library: pip install 'securefedyj[mpyc]'", name="mpyc"
        )
    version = importlib.metadata.version("mpyc")
    if version.split(".")[:2] != ["0", "11"]:
        raise ImportError(
            f"Engine 'mpyc' needs MPyC 0.11, and {version} is here: "
            "pip install 'securefedyj[mpyc]'",
            name="mpyc",
        )


def load(index: int, parties: int, options: Sequence[str] = OPTIONS) -> Any:
    """Import MPyC for one of some parties; return its runtime, which is not connected yet."""
    if "mpyc.runtime" in sys.modules:
        raise ImportError("MPyC was imported before it could be configured.")
    logging.disable(logging.INFO)
    arguments = sys.argv
    sys.argv = ["mpyc", f"-M{parties}", f"-I{index}", "--no-log", *options]
    try:
        from mpyc.runtime import mpc
    finally:
        sys.argv = arguments
    return mpc


def replace_zero_test(mpc: Any) -> None:
    """Let comparisons of this runtime test for zero without revealing more than the outcome.

    A test for zero opens e r, for a random r. MPyC 0.11 opens the shares e_i r_i as they are where
    the field is large. They lie on the polynomial e(X) r(X), of degree 2 t. A party that factors it
    and holds a share of e has e, up to a few candidates. In a comparison e is made of all bits of
    what is compared, so any guess at that could be confirmed. Sharing the product again hides all
    but the product, which is 0 or random (security-details.md, section 2).
    """
    from mpyc.asyncoro import mpc_coro

    @mpc_coro  # type: ignore[untyped-decorator]
    async def is_zero(a: Any) -> Future:  # type: ignore[type-arg]  # MPyC reads this annotation
        # 0 with a probability of less than 2^-128.
        r = await mpc._np_randoms(type(a).sectype.field, a.size)
        product = await mpc._reshare(await mpc.gather(a) * r)
        return await mpc.output(product) == 0  # type: ignore[no-any-return]

    mpc.np_is_zero_public = is_zero


class Library:
    """Computes with MPyC, whose runtime is connected to the peers."""

    def __init__(self, mpc: Any) -> None:
        replace_zero_test(mpc)
        self._mpc = mpc

    def begin(self, work: Work) -> Awaitable[bytes]:
        """Begin at once: MPyC numbers messages by the order of calls. Return what to wait for."""
        kind = self._mpc.SecInt(64 * work.limbs)
        if not work.operands[0]:
            return _packed(None, lambda _: [], kind, work.limbs)
        return _packed(*self._begin(work, kind), kind, work.limbs)

    def _begin(self, work: Work, kind: Any) -> tuple[Awaitable[Any], Callable[[Any], Any]]:
        """What to wait for, and what makes residues of it."""
        mpc = self._mpc
        operands = [unpack(operand, work.limbs) for operand in work.operands]
        match work.operation:
            case Operation.ANNOUNCE:
                secret = kind(int(operands[0][0]))
                return mpc.output(mpc.input(secret)), list
            case Operation.INPUT:
                dealt = mpc.input(kind.array(operands[0]))
                return mpc.gather(dealt), lambda parts: sum(part.value for part in parts)
        shares = [kind.array(kind.field.array(x, check=False)) for x in operands]
        match work.operation:
            case Operation.OPEN:
                return mpc.output(*shares), list
            case Operation.MULTIPLY:
                result = mpc.np_multiply(*shares)
            case Operation.NEGATIVE:
                result = mpc.np_sgn(*shares, LT=True)
            case Operation.BITS:
                result = mpc.np_to_bits(*shares, l=64 * work.limbs)
        return mpc.gather(result), lambda shared: shared.value.ravel()


async def _packed(
    begun: Awaitable[Any] | None, finish: Callable[[Any], Any], kind: Any, limbs: int
) -> bytes:
    prime = int(kind.field.modulus)
    values = finish(None if begun is None else await begun)
    return pack(np.array([prime, *(int(value) % prime for value in values)], dtype=object), limbs)

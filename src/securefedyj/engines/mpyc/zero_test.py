"""Whether shared integers are zero, opened without telling more: in place of MPyC's own test.

A test for zero opens e r, for a random r. MPyC 0.11 opens the shares e_i r_i as they are, where the
field is large. They lie on the polynomial e(X) r(X), of degree 2 t; whoever factors it, and holds a
share of e, has e but for a few candidates. In a comparison e is made of all bits of what is
compared, so that any guess at that could be confirmed. Sharing the product anew hides all
but the product, which is 0 or random (docs/security.md, section 2).
"""

from asyncio import Future
from typing import Any


def install(mpc: Any) -> None:
    """Let comparisons of this runtime use the test below."""
    from mpyc.asyncoro import mpc_coro

    @mpc_coro  # type: ignore[untyped-decorator]
    async def is_zero(a: Any) -> Future:  # type: ignore[type-arg]  # MPyC goes by this
        # 0 with a probability of less than 2^-128.
        r = await mpc._np_randoms(type(a).sectype.field, a.size)
        product = await mpc._reshare(await mpc.gather(a) * r)
        return await mpc.output(product) == 0  # type: ignore[no-any-return]

    mpc.np_is_zero_public = is_zero

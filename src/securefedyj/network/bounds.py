"""How large the messages of a peer can be, by the agreement: nobody holds more for anybody."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import lru_cache

import numpy as np

from securefedyj.engines import Engine
from securefedyj.engines.registry import facts_of
from securefedyj.engines.replicated.counting import RoundCost
from securefedyj.errors import ProtocolError
from securefedyj.network.settling import largest_settling
from securefedyj.numerics.encoding import choose_encoding
from securefedyj.protocol.agreement import Agreement
from securefedyj.protocol.program import secure_fed_yj
from securefedyj.protocol.reveals import MAGNITUDE_STEP
from securefedyj.protocol.schedule import MOST_VALUES, claimed, features_at_once
from securefedyj.strict import parse

_HEADERS = 1 << 16
"""Bytes for the header of a message, names included, and for records without a message."""

_COUNTED = 64
"""Features whose rounds are counted. The messages of more are no longer than those of several such
runs together."""


def largest_message(agreement: Agreement) -> int:
    """Bytes of a message that no honest party exceeds, whatever the data."""
    piece = facts_of(agreement.engine).largest_piece
    payload = _largest_payload(agreement.to_bytes()) if piece is None else piece
    return _HEADERS + max(payload, largest_settling(agreement) if agreement.submitted else 0)


def most_waiting(agreement: Agreement) -> int:
    """Bytes of one honest peer that may have to wait until we come to them."""
    most_ahead = facts_of(agreement.engine).most_ahead
    if most_ahead is None:
        return 4 * largest_message(agreement)
    _, limbs, v_bits = _widest(agreement)
    features = min(len(agreement.asked), features_at_once(agreement))
    points = (1 << agreement.levels_per_exchange) - 1
    # In the search, four sums at each point and one more; in the end, thresholds of V and bits.
    each = max(4 * points + 1, v_bits // MAGNITUDE_STEP + 2)
    return _HEADERS + most_ahead(each * features, limbs, len(agreement.parties))


def largest_record(agreement: Agreement) -> int:
    """Bytes of a record: a message, or all of a transcript, which a late party is handed."""
    # As text: a question, a sign and a point for each step, and numbers of up to 2^12 bits.
    steps = max(agreement.max_steps, agreement.asked.most_steps())
    transcript = len(agreement.asked) * (steps * 48 + 4096)
    return _HEADERS + max(largest_message(agreement), transcript)


def rounds_at_most(agreement: Agreement, features: int) -> list[list[RoundCost]]:
    """The rounds of two runs for each widest question, whose search goes straight to an edge.

    Integers are widest there, and here all questions are like one of the agreement.
    """
    count_rounds = facts_of(agreement.engine).count_rounds
    assert count_rounds is not None

    async def run(engine: Engine) -> None:
        with suppress(ProtocolError):  # moments that no values have, at the very end
            await secure_fed_yj(engine, None, alike)

    asked, found = agreement.asked, list[list[RoundCost]]()
    openings = max(agreement.max_steps, asked.most_steps()) + 4
    for widest in _widest(agreement)[0]:
        some = [widest] * features
        given = agreement.questions_given
        if agreement.submitted and not given[widest]:  # the run submits others
            some.append(int(np.flatnonzero(given)[0]))
        alike = replace(agreement.about(some), minimum_values=0)
        # First that all totals are possible and all features vary, where that is asked; then the
        # direction.
        first = [1] * (len(claimed(alike)) + bool(asked.searched[some].any()))
        for up in (0, 1):
            found.append(list(count_rounds(run, MOST_VALUES, [*first, *[up] * openings])))
    return found


@lru_cache
def _largest_payload(agreement: bytes) -> int:
    agreed = Agreement.from_json(parse(agreement))
    features = min(len(agreed.asked), features_at_once(agreed))
    runs = rounds_at_most(agreed, min(features, _COUNTED))
    return max(one.size for rounds in runs for one in rounds) * -(-features // _COUNTED)


def _widest(agreement: Agreement) -> tuple[list[int], int, int]:
    """Questions that take the most, and of all the most limbs and v_bits.

    Those with the widest integers of each scale, live and submitted, and one with the most points.
    """
    asked = agreement.asked
    domain, limits = asked.domain, asked.domain.limits()
    n = np.full(len(asked), MOST_VALUES)
    limbs, v_bits = np.ones((2, len(n)), dtype=np.int64)
    for edge in (limits.lowest, limits.highest, 0.0):
        lmbda = np.where(asked.searched, edge, 1.0)
        encoding = choose_encoding(domain, n, lmbda)
        limbs = np.maximum(limbs, encoding.limbs)
        v_bits = np.maximum(v_bits, encoding.v_bits)
    given = agreement.questions_given
    points = np.array([len(agreement.points[j]) for j in asked.column.tolist()])
    order = np.lexsort((v_bits, limbs))
    last = {(int(domain.scale[i]), bool(given[i])): int(i) for i in order}
    widest = {*last.values(), *[int(points.argmax())] * bool(given.any())}
    return sorted(widest), int(limbs.max()), int(v_bits.max())

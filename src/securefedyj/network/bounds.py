"""How large what a peer sends can be, by the agreement: nobody holds more for anybody."""

from __future__ import annotations

import numpy as np

from securefedyj.engines.registry import Facts, facts_of
from securefedyj.numerics.encoding import choose_encoding
from securefedyj.protocol.agreement import Agreement
from securefedyj.protocol.reveals import MAGNITUDE_STEP
from securefedyj.protocol.schedule import MOST_VALUES, features_at_once

_HEADERS = 1 << 16
"""Bytes for the header of a message, names included, and for records without a message."""


def largest_message(agreement: Agreement) -> int:
    """Bytes of a message that no honest party exceeds, whatever the data."""
    facts, size, limbs, features = _at_once(agreement)
    largest = facts.largest_message(size, limbs)
    if agreement.verified and facts.largest_verified is not None:
        largest = max(largest, facts.largest_verified(features, limbs))
    return _HEADERS + largest


def most_waiting(agreement: Agreement) -> int:
    """Bytes of one honest peer that may have to wait until we come to them."""
    facts, size, limbs, _ = _at_once(agreement)
    if facts.most_ahead is not None:
        return _HEADERS + facts.most_ahead(size, limbs, len(agreement.parties))
    return 4 * largest_message(agreement)


def _at_once(agreement: Agreement) -> tuple[Facts, int, int, int]:
    """The engine, how many integers it has at once, of how many limbs, for how many features."""
    limits = agreement.domain.limits()
    limbs, v_bits = 1, 1
    n = np.full(len(agreement.features), MOST_VALUES)
    for edge in (limits.lowest, limits.highest, 0.0):
        lmbda = np.broadcast_to(np.asarray(edge, dtype=np.float64), n.shape)
        encoding = choose_encoding(agreement.domain, n, lmbda)
        limbs = max(limbs, int(encoding.limbs.max()))
        v_bits = max(v_bits, int(encoding.v_bits.max()))
    features = min(len(agreement.features), features_at_once(agreement))
    points = (1 << agreement.levels_per_exchange) - 1
    # In the search, four sums at each point and one besides; in the end, thresholds of V and bits.
    each = max(4 * points + 1, v_bits // MAGNITUDE_STEP + 2)
    return facts_of(agreement.engine), each * features, limbs, features


def largest_record(agreement: Agreement) -> int:
    """Bytes of a record: a message, or all of a transcript, which a late party is handed."""
    # As text: a feature, a sign and a lambda for each step, and numbers of up to 2^12 bits.
    transcript = len(agreement.features) * (agreement.max_steps * 48 + 4096)
    return _HEADERS + max(largest_message(agreement), transcript)

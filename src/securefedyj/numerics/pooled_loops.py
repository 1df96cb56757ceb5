"""The compiled loops of the pooled fit: see `survey`, `distances` and `row_sums` for what they do.

Operation by operation they do what NumPy does there. So they give the same bits, whatever the
processor: nothing is contracted or reordered, and the loops are vectorized over what is independent.
"""

from __future__ import annotations

import numpy as np

from securefedyj.numerics import elementary

_ROUND = 1.5 * 2.0**52
_ROUND_BITS = np.float64(_ROUND).view(np.int64)
_LN2_HIGH, _LN2_LOW, _LOG2_E = elementary.LN2_HIGH, elementary.LN2_LOW, elementary.LOG2_E
_A = elementary._ATANH
_R0, _R1, _R2, _R3, _R4, _R5 = elementary._R

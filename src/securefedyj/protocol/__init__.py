"""The paper's algorithm 3: what parties agree on, run, reveal and check.

Yeo-Johnson itself is in `batch` (sums, score and moments), `program` (the search), `final` (the
final opening and its claims), `result` and `findings` (what the audit recomputes), and in the
openings of `reveals` and `schedule`.
"""

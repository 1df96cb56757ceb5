"""The paper's algorithm 3: what parties agree on, run, reveal and check."""

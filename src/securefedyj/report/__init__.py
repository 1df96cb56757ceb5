"""The report of a run, for people."""

"""Engine `mpyc`: Shamir sharing among all parties, on the MPyC library."""

LARGEST_PIECE = 1 << 22
"""Most bytes of MPyC's stream in one message."""

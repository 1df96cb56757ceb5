"""See `campaign`, a module of its own so that other processes find its functions."""

import sys

from benchmarks.fuzz.campaign import main

if __name__ == "__main__":
    sys.exit(main())

"""`python -m experiments` is `securefedyj paper`."""

import sys

from securefedyj.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["paper", *sys.argv[1:]]))

"""`python -m securefedyj.cli` is `securefedyj`."""

import sys

from securefedyj.cli.main import main

if __name__ == "__main__":
    sys.exit(main())

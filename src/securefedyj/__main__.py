"""`python -m securefedyj`, where scripts are not on the path."""

import sys

from securefedyj.cli import main

if __name__ == "__main__":
    sys.exit(main())

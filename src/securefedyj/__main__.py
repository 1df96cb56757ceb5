"""The command `securefedyj`; `python -m securefedyj` where scripts are not on the path."""

import sys


def main() -> int:
    """Run one command. Ctrl-C counts from here on: the imports take longer than most commands."""
    try:
        from securefedyj.cli.main import main as command

        return command()
    except KeyboardInterrupt:
        print("securefedyj: stopped before anything began.", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())

"""The command `securefedyj`: one module a command."""

from securefedyj.cli.main import main

__all__ = ["main"]

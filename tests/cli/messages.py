"""What a command may print where it fails."""

from __future__ import annotations


def one_sentence(text: str) -> bool:
    """Whether this is all that a user should see of an error."""
    return text.startswith("securefedyj: ") and text.count("\n") == 1 and text.endswith("\n")

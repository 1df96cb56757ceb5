"""Pieces of HTML that all sections of the report are made of.

Text that comes from a file (names of features and parties, findings) passes through `text` or
`name_list`, which escape it; the page's own policy forbids any script but its own besides.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from numpy.typing import NDArray

_NAMES_IN_A_SENTENCE = 12


def text(content: str) -> str:
    """Text from a file, harmless in HTML, even inside quotes; control characters show."""
    return escape("".join(c if c.isprintable() else "\ufffd" for c in content))


def number(value: float, digits: int = 4) -> str:
    """A number for people: few digits, and a typographic minus sign."""
    return f"{value:.{digits}g}".replace("e+0", "e").replace("e+", "e").replace("-", "−")


def signed(value: float) -> str:
    """A difference for people: with its sign, and two decimals unless it is large."""
    if not abs(value) < 1000:
        return number(value, 3)
    return f"{round(value, 2) + 0.0:+.2f}".replace("-", "−")  # never −0.00


def name_list(names: Sequence[str], amounts: Sequence[str] | None = None) -> str:
    """The names, or the first ones and how many more there are; with an amount beside each."""
    shown, more = names[:_NAMES_IN_A_SENTENCE], len(names) - _NAMES_IN_A_SENTENCE
    beside = [""] * len(shown) if amounts is None else [f" ({amount})" for amount in amounts]
    pairs = zip(shown, beside, strict=False)
    listed = ", ".join(f"<bdi>{text(name)}</bdi>{amount}" for name, amount in pairs)
    return listed + (f" and {more:,} more" if more > 0 else "")


def notice(kind: str, title: str, words: str) -> str:
    """A box that catches the eye; its kind is "warn" or "good"."""
    return f'<div class="notice {kind}"><p><strong>{title}</strong></p><p>{words}</p></div>'


def count_range(counts: NDArray[Any]) -> str:
    """The least and the greatest of some counts, as words."""
    low, high = int(counts.min(initial=2**62)), int(counts.max(initial=0))
    return f"{high:,}" if low >= high else f"{low:,} to {high:,}"

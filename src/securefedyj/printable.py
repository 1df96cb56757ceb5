"""Text from a file or from a peer, as it may reach a terminal or an error sentence.

Such text can hold what moves a cursor, clears a screen, turns the order of characters around or is
not seen at all, and so could show its reader something else than what is there: the digest of
another file, say. Here all of that becomes visible escapes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from reprlib import Repr

MOST_SHOWN = 80
"""Characters of a value in a sentence."""

# `str.isprintable` knows controls, formats (such as changes of direction), surrogates, separators
# and what is not assigned. These count as letters, marks or symbols, and show nothing: fillers,
# joiners, the blank of Braille, variation selectors.
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U0001d159\U000e0100-\U000e01ef]"
)
# Many marks on one letter paint over the lines above and below it.
_MARKS = re.compile(
    r"[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]{3,}"
)
# What follows many spaces may stand where the next line begins, as if the program had said it.
_SPACES = re.compile(" {2,}")


def printable(text: str, most: int | None = None) -> str:
    """Text on one line in which everything is seen, cut to so many characters if `most` is given.

    What is not printable becomes an escape as in Python (``\\x1b``, ``\\u202e``), and so do the
    spaces of a run but the first. Plain text stays as it is.
    """
    if most is not None and len(text) > most:
        text = text[: max(most - 3, 0)] + "..."
    return _SPACES.sub(lambda run: " " + "\\x20" * (len(run[0]) - 1), _visible(text))


def in_words(names: Sequence[str]) -> str:
    """Names one after the other, as one says them."""
    *most, last = map(printable, names or ("nobody",))
    return f"{', '.join(most)} and {last}" if most else last


def parties_in_words(names: Sequence[str]) -> str:
    """One party, or several, at the beginning of a sentence."""
    return f"{'Party' if len(names) == 1 else 'Parties'} {in_words(names)}"


def printable_lines(text: str) -> str:
    """The same for whole sentences, whose line breaks and indentation are the program's own.

    This is the last gate before a terminal. What is quoted in a sentence passes `printable` or
    `shown` before, or a line break in it could begin a line that looks like the program's.
    """
    return "\n".join(map(_visible, text.split("\n")))


def shown(value: object, most: int = MOST_SHOWN) -> str:
    """A value from a file or a peer for a sentence: `repr`, but short and of bounded depth."""
    return printable(_Short().repr(value), most)


def _visible(text: str) -> str:
    if text.isascii() and text.isprintable():
        return text
    text = "".join(one if one.isprintable() else _escape(one) for one in text)
    for hidden in (_INVISIBLE, _MARKS):
        text = hidden.sub(lambda found: "".join(map(_escape, found[0])), text)
    return text


def _escape(character: str) -> str:
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


class _Short(Repr):
    """Never looks at more of a value than it shows."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxstring, self.maxother, self.maxlong = 3, 60, 60, 60
        self.maxlist = self.maxdict = self.maxtuple = 4

    def repr_int(self, x: int, level: int) -> str:
        # Python refuses to write very long ones.
        return super().repr_int(x, level) if x.bit_length() < 1000 else _of_bits(x)


def _of_bits(number: int) -> str:
    return f"a whole number of {number.bit_length()} bits"

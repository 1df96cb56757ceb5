"""Text from a file or a peer, made safe for terminals and error messages.

Such text can hold characters that move the cursor, clear the screen, reverse the text or are
invisible, and so could show its reader something else, such as the digest of another file. Here
they become visible escapes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from reprlib import Repr

MOST_SHOWN = 80
"""The most characters of a value in a message."""

# `str.isprintable` excludes control and format characters, surrogates, separators and unassigned
# ones. These count as letters, marks or symbols, and are invisible: fillers, joiners, the blank of
# Braille, variation selectors.
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U0001d159\U000e0100-\U000e01ef]"
)
# Many marks on one letter paint over the lines above and below it.
_MARKS = re.compile(
    r"[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]{3,}"
)
# Text after many spaces may wrap to where the next line begins, like a message of the program.
_SPACES = re.compile(" {2,}")


def printable(text: str, most: int | None = None) -> str:
    """Text on one line without invisible characters, cut to `most` characters.

    Those become escapes as in Python (``\\x1b``, ``\\u202e``), and so do repeated spaces.
    """
    if most is not None and len(text) > most:
        text = text[: max(most - 3, 0)] + "..."
    return _SPACES.sub(lambda run: " " + "\\x20" * (len(run[0]) - 1), _visible(text))


def in_words(names: Sequence[str], most: int | None = None) -> str:
    """Names as a list in a sentence: a, b and c; or after `most` of them: and 5 more."""
    *first, last = map(printable, names[:most] or ("nobody",))
    if most is not None and len(names) > most:
        return f"{', '.join([*first, last])} and {len(names) - most} more"
    return f"{', '.join(first)} and {last}" if first else last


def parties_in_words(names: Sequence[str]) -> str:
    """One party or several, at the start of a sentence."""
    return f"{'Party' if len(names) == 1 else 'Parties'} {in_words(names)}"


def printable_lines(text: str) -> str:
    """The same for whole messages, whose line breaks and indentation are the program's own.

    This is the last step before a terminal. Quoted text passes `printable` or `shown` first, or a
    line break in it could start a line that looks like the program's.
    """
    return "\n".join(map(_visible, text.split("\n")))


def shown(value: object, most: int = MOST_SHOWN) -> str:
    """A value from a file or a peer for a message: `repr`, but short and of bounded depth."""
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
    """Never reads more of a value than it shows."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxstring, self.maxother, self.maxlong = 3, 60, 60, 60
        self.maxlist = self.maxdict = self.maxtuple = 4

    def repr_int(self, x: int, level: int) -> str:
        # Python refuses to write very long ones.
        size = x.bit_length()
        return super().repr_int(x, level) if size < 1000 else f"a whole number of {size} bits"

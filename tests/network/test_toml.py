"""The agreed file as TOML: written without loss, and read within bounds."""

import tomllib

from securefedyj.network.toml import write_table


def test_any_text_reads_back_the_same():
    text = 'a "note"\twith\nlines, \\ and \x7f, \x1b, \u202e'
    assert tomllib.loads(write_table("", {"note": text})) == {"note": text}

"""The package itself: what `import securefedyj` offers, and what it does not load."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
import securefedyj
assert not {"sklearn", "numpy"} & sys.modules.keys(), "loaded before anybody asks"
assert {*securefedyj.__all__, "parameters"} <= set(dir(securefedyj))
securefedyj.parameters.save
assert all(hasattr(securefedyj, name) for name in securefedyj.__all__)
assert not hasattr(securefedyj, "no_such_name")
"""


def test_what_is_public_is_there_and_loaded_when_it_is_asked_for():
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)

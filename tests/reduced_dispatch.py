"""Run Python as on a processor without vector units: `python -m tests.reduced_dispatch -m pytest`.

NumPy, OpenBLAS and the kernel choose what this processor computes fastest with. With another choice
the last bits of NumPy's exp and log1p or of a matrix product may be others; those of the kernel may
not. Here they do without all that they chose.
"""

from __future__ import annotations

import importlib
import os
import platform
import sys

from securefedyj.kernel import VARIABLE as LEVEL
from securefedyj.kernel import levels

DISABLE = "NPY_DISABLE_CPU_FEATURES"
CORE = "OPENBLAS_CORETYPE"
# What OpenBLAS takes for the least that NumPy runs on.
_OLDEST_CORES = {"x86_64": "Nehalem", "aarch64": "ARMV8"}


def dispatched() -> list[str]:
    """The features that NumPy was built to use if present, and that it uses in this process."""
    umath = importlib.import_module("numpy._core._multiarray_umath")
    present = umath.__cpu_features__
    # NumPy warns of a feature that is not both.
    return [feature for feature in umath.__cpu_dispatch__ if present.get(feature)]


def environment() -> dict[str, str]:
    """The environment of a process with reduced dispatch; it counts before NumPy is imported."""
    changed = dict(os.environ)
    if features := dispatched():
        changed[DISABLE] = " ".join(features)
    if core := _OLDEST_CORES.get(platform.machine()):
        changed[CORE] = core
    if len(levels()) > 1:
        changed[LEVEL] = levels()[1]  # after NumPy comes the slowest of the kernel
    return changed


def full_environment() -> dict[str, str]:
    """The environment of a process with the dispatch that NumPy chooses itself."""
    reduced = (DISABLE, CORE, LEVEL)
    return {name: value for name, value in os.environ.items() if name not in reduced}


if __name__ == "__main__":
    reduced = environment()
    print(*(f"{name}={reduced.get(name, '')}" for name in (DISABLE, CORE, LEVEL)), flush=True)
    os.execve(sys.executable, [sys.executable, *sys.argv[1:]], reduced)

"""How the kernel is compiled; everything else about the package is in pyproject.toml.

Without a compiler the package is installed all the same, and NumPy does the work. With
SECUREFEDYJ_SANITIZE=1 in the environment the kernel checks itself, for `make sanitize`.
"""

from __future__ import annotations

import hashlib
import os
import platform
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

KERNEL = Path("src/securefedyj/kernel")
FILES = sorted(KERNEL.glob("*.[ch]"))
# The package compares this with the files that it has: an old kernel would compute other sums.
SOURCE = hashlib.sha256(b"".join(path.read_bytes() for path in FILES)).hexdigest()
# Every operation as it is written: the same bits from every compiler and at every level.
FLAGS = ["-O3", "-g0", "-std=c11", "-ffp-contract=off"]
if os.environ.get("SECUREFEDYJ_SANITIZE") == "1":
    FLAGS += ["-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
# The sets of instructions that the loops are compiled for, one of which is chosen at run time.
X86_64 = {
    "baseline": [],
    "v3": ["-march=x86-64-v3", "-mpclmul"],
    "v4": ["-march=x86-64-v4", "-mpclmul"],
    "ifma": ["-march=x86-64-v4", "-mpclmul", "-mavx512ifma"],
}


class BuildKernel(build_ext):
    """Compiles the loops once for each level."""

    def build_extension(self, ext: Extension) -> None:
        self.force = True  # flags may have changed
        on_x86_64 = platform.machine() in ("x86_64", "AMD64")
        for level, flags in (X86_64 if on_x86_64 else {"baseline": []}).items():
            ext.extra_objects += self.compiler.compile(
                [str(KERNEL / "level.c")],
                output_dir=str(Path(self.build_temp) / level),
                macros=[("LEVEL", level)],
                extra_postargs=[*ext.extra_compile_args, *flags],
                depends=ext.depends,
            )
        super().build_extension(ext)


setup(
    ext_modules=[
        Extension(
            "securefedyj._kernel",
            [str(KERNEL / "module.c")],
            depends=[str(path) for path in FILES],
            define_macros=[("SOURCE", f'"{SOURCE}"')],
            extra_compile_args=FLAGS,
            extra_link_args=[flag for flag in FLAGS if flag.startswith("-fsanitize")],
            py_limited_api=True,
            optional=True,
        )
    ],
    cmdclass={"build_ext": BuildKernel},
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)

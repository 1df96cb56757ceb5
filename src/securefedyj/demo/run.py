"""What `securefedyj demo` shows: ExpYJ next to scikit-learn, then a federated fit."""

from __future__ import annotations

import shlex
import shutil
import sys
import textwrap
from functools import partial
from pathlib import Path
from typing import Any

import sklearn

from securefedyj import __version__, kernel
from securefedyj.demo import comparison, federated
from securefedyj.files import write_atomically
from securefedyj.report import templates

_WRAPPED = partial(textwrap.fill, width=80, break_long_words=False, break_on_hyphens=False)


def run(output: Path) -> None:
    """Print all sections, and save the transcript and the picture in the folder `output`."""
    transcript, picture = output / "transcript.jsonl", output / "demo.svg"
    output.mkdir(parents=True, exist_ok=True)
    cancer, digits = comparison.compare_breast_cancer(), comparison.compare_digits()
    versions = {"version": __version__, "peer": sklearn.__version__, "kernel": kernel.described()}
    _print("pooled.txt", comparisons=[cancer, digits], **versions)
    fit = federated.fit(cancer)
    _print("federated.txt", fit=fit, cancer=cancer)
    write_atomically(transcript, fit.transcript.to_text().encode())
    write_atomically(picture, comparison.picture(cancer, digits).encode())
    print(f"\nTo see what was revealed:\n\n    {command('audit', str(transcript))}\n")
    print(f"Picture: {picture}")


def _print(template: str, **values: Any) -> None:
    environment = templates(__package__)
    environment.filters["wrapped"] = _WRAPPED
    print(environment.get_template(template).render(values).rstrip(), flush=True)


def command(*arguments: str) -> str:
    """A command of this program that works as printed, in the current folder."""
    called = Path(sys.argv[0])
    if called.stem != "securefedyj":
        program = [sys.executable, "-m", "securefedyj"]
    else:
        found = shutil.which(called.name)
        on_path = found is not None and Path(found).resolve() == called.resolve()
        program = ["securefedyj" if on_path else str(called)]
    return shlex.join([*program, *arguments])

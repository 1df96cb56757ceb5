"""What `securefedyj demo` shows: ExpYJ next to scikit-learn, then a federated fit."""

from __future__ import annotations

import shlex
import shutil
import sys
import textwrap
from collections.abc import Iterator
from math import ceil, log10
from pathlib import Path

import numpy as np
import sklearn

import securefedyj
from securefedyj import kernel
from securefedyj.demo import comparison, federated
from securefedyj.demo.comparison import FitComparison
from securefedyj.files import write_atomically

PICTURE = "demo.svg"
TRANSCRIPT = "transcript.jsonl"

_WIDTH = 80
_ROW = "{:<16}{:>9}{:>10}{:>10}{:>13}{:>20}"


def run(output: Path) -> None:
    """Print all sections, and save the transcript and the picture in the folder `output`."""
    transcript, picture = output / TRANSCRIPT, output / PICTURE
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(
            f"cannot write {output} ({error.strerror}): choose another folder with --output"
        ) from error
    cancer, digits = comparison.compare_breast_cancer(), comparison.compare_digits()
    print(f"securefedyj {securefedyj.__version__} ({kernel.described()})\n")
    print("\n".join(_pooled_section(cancer, digits)), flush=True)
    fit = federated.fit(cancer)
    print("", *_federated_section(fit, cancer), sep="\n", flush=True)
    write_atomically(transcript, fit.transcript.to_text().encode())
    write_atomically(picture, comparison.picture(cancer, digits).encode())
    print(
        "",
        "To see what was revealed:",
        "",
        f"    {command('audit', str(transcript))}",
        "",
        sep="\n",
    )
    print(f"Picture: {picture}")


def _pooled_section(*comparisons: FitComparison) -> Iterator[str]:
    """Both fits are the same, except where scikit-learn misses an optimum that is far out."""
    yield from _underlined(
        f"Pooled data: securefedyj {securefedyj.__version__} and scikit-learn {sklearn.__version__}"
    )
    yield _ROW.format("data", "features", "constant", "same fit", "agreeing to", "faster").rstrip()
    for one in comparisons:
        ours, theirs = one.ours.lambdas_[one.alike], one.theirs.lambdas_[one.alike]
        worst = np.max(np.abs(ours - theirs) / np.maximum(1, np.abs(ours)), initial=1e-16)
        times = f"{1e3 * one.our_seconds:.0f} ms, {one.their_seconds / one.our_seconds:.0f}x"
        counts = (len(one.names), int(one.constant.sum()), len(one.alike))
        yield _ROW.format(one.name, *counts, f"1e{ceil(log10(worst))}", times)
    for one in comparisons:
        if one.different:
            yield from ("", _wrapped(_about_missed(one)))


def _about_missed(one: FitComparison) -> str:
    """Where scikit-learn's log-likelihood is lower, and by how much at worst."""
    k, missed = one.different[0], int(np.count_nonzero(one.gain > comparison.SAME))
    return (
        f"scikit-learn misses the optimum of {missed} features of {one.name}. The worst is "
        f"{one.names[k]}: it stops at lambda {one.theirs.lambdas_[k]:.4f} instead of "
        f"{one.ours.lambdas_[k]:.4f}, where the log-likelihood is lower by {one.gain[k]:.1f}."
    )


def _federated_section(fit: federated.FederatedFit, cancer: FitComparison) -> Iterator[str]:
    """Silos with different patients get the same bits as if their rows were in one place."""
    row = "{:<24}{:>9}{:>9}{:>9}{:>14}{:>14}"
    yield from _underlined("Federated: three silos that may not pool their rows, and a hub")
    yield f"{'':<24}{'median at silo':^27}{'lambda':^28}".rstrip()
    yield row.format("feature", *fit.silos, "federated", "pooled")
    for name in ("mean area", "mean concavity", "radius error", "worst texture"):
        j = cancer.names.index(name)
        medians = (f"{np.median(silo[:, j]):.3g}" for silo in fit.silos.values())
        lambdas = (fit.lambdas[j], cancer.ours.lambdas_[j])
        yield row.format(name, *medians, *(f"{lmbda:.8f}" for lmbda in lambdas))
    audit = fit.transcript.audit()
    for text in (
        f"{np.count_nonzero(fit.equal)} of {len(fit.equal)} features have the same lambda, "
        "mean and variance, bit for bit, at all three parties, in one process, and from "
        "all rows in one place.",
        f"Verified: {'yes' if audit.verdict else 'NO'}. "
        f"Audit: {'passed' if audit.passed else 'FAILED'}. "
        f"{fit.rounds} rounds of messages, {fit.megabytes:.3f} MB per feature and peer, "
        f"{fit.seconds:.1f} s from the start of four processes. The paper's protocol takes "
        "726 rounds and 8 MB.",
    ):
        yield from ("", _wrapped(text))


def command(*arguments: str) -> str:
    """A command of this program that works as printed, in the current folder."""
    called = Path(sys.argv[0])
    if called.stem != "securefedyj":
        program = [sys.executable, "-m", "securefedyj.cli"]
    else:
        found = shutil.which(called.name)
        on_path = found is not None and Path(found).resolve() == called.resolve()
        program = ["securefedyj" if on_path else str(called)]
    return shlex.join([*program, *arguments])


def _underlined(title: str) -> tuple[str, str]:
    return title, "-" * len(title)


def _wrapped(text: str) -> str:
    return textwrap.fill(text, _WIDTH, break_long_words=False, break_on_hyphens=False)

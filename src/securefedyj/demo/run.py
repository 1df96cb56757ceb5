"""What `securefedyj demo` shows: ExpYJ beside scikit-learn, then the federated fit of the same.

Every section is a function that returns its text; `run` prints them in turn. The federated fit is
run by a hub and three parties, each a process with keys of its own, as it would be on four
machines. The picture in the README is made by `securefedyj demo --output docs/images`.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import ceil, log2, log10
from pathlib import Path

import numpy as np
import sklearn
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.preprocessing import PowerTransformer

import securefedyj
from securefedyj import ExpYJ, SecureFedYJ
from securefedyj.network.consortium import Feature
from securefedyj.network.local import Processes, prepare
from securefedyj.numerics.arrays import Array
from securefedyj.numerics.likelihood import log_likelihood
from securefedyj.protocol.transcript import Transcript

WIDTH = 80
PICTURE = "demo.png"
TRANSCRIPT = "transcript.jsonl"
SILOS = ("north", "center", "south")

# This feature of the breast cancer data is in the picture: skewed, and its lambda of -3.54
# makes the exponential search both double and halve.
PICTURED = "radius error"

# Log-likelihoods that differ by less are the same but for rounding.
_SAME = 1e-6
_REPEATS = 3
_PATIENCE = 120.0  # seconds; the processes take a few
_ROW = "{:<24}{:>12}{:>14}{:>12}  {}"


@dataclass(frozen=True)
class Comparison:
    """Two fits of the same data. `gain` is our log-likelihood less scikit-learn's."""

    X: Array
    names: list[str]
    ours: ExpYJ
    theirs: PowerTransformer
    our_seconds: float
    their_seconds: float
    gain: Array
    constant: NDArray[np.bool_]

    @property
    def different(self) -> list[int]:
        """The features where one fit is better than the other, the clearest cases first."""
        order = np.argsort(-np.abs(self.gain), kind="stable")
        return [int(j) for j in order if abs(self.gain[j]) > _SAME]

    @property
    def alike(self) -> list[int]:
        """The other features, by rising lambda, without those that are constant."""
        alike = (np.abs(self.gain) <= _SAME) & ~self.constant
        return [int(j) for j in np.argsort(self.ours.lambdas_) if alike[j]]


def run(output: Path) -> None:
    """Print all sections, and save the picture in the folder `output`."""
    make_folder(output)
    print(introduction(), flush=True)
    cancer = compare_breast_cancer()
    print("", breast_cancer_section(cancer), sep="\n", flush=True)
    digits = compare_digits()
    print("", digits_section(digits), sep="\n", flush=True)
    print("", federated_section(cancer, output / TRANSCRIPT), sep="\n", flush=True)
    print("", picture_section(cancer, digits, output / PICTURE), sep="\n", flush=True)


def introduction() -> str:
    return _wrapped(
        "The Yeo-Johnson transformation makes a skewed feature Gaussian; its one parameter, "
        "lambda, is fitted by maximum likelihood. This demo fits the same data twice, with "
        f"ExpYJ (securefedyj {securefedyj.__version__}) and with PowerTransformer "
        f"(scikit-learn {sklearn.__version__})."
    )


def breast_cancer_section(comparison: Comparison, shown: int = 5) -> str:
    """Ordinary data: the two fits are the same, and a few features show it."""
    alike = comparison.alike
    spread = np.linspace(0, len(alike) - 1, min(shown, len(alike))).round().astype(int)
    rows = comparison.different + [alike[k] for k in spread]
    return "\n".join(
        [
            _heading("Breast cancer", comparison),
            _table(comparison, rows),
            _wrapped(_about_the_rest(comparison, shown=len(spread))),
            _timing(comparison),
        ]
    )


def digits_section(comparison: Comparison) -> str:
    """Pixels that are nearly always empty: some optima are far out, beyond the bounds of SciPy's
    search, which scikit-learn calls.
    """
    missed = int(np.count_nonzero(comparison.gain > _SAME))
    claim = (
        f"scikit-learn misses the optimum of {missed} features: its log-likelihood is lower."
        if missed
        else "scikit-learn finds the optimum of every feature."
    )
    return "\n".join(
        [
            _heading("Digits", comparison),
            claim,
            _table(comparison, comparison.different),
            _wrapped(_about_the_rest(comparison, shown=0)),
            _timing(comparison),
        ]
    )


def federated_section(cancer: Comparison, path: Path) -> str:
    """Three silos with different patients: the same bits as if their rows were in one place."""
    silos = _silos_by_size(cancer)
    # Agreed before the fit, and public: no value is negative, and none above the next power of 2.
    bounds = [(0.0, float(2.0 ** ceil(log2(highest)))) for highest in cancer.X.max(axis=0)]
    _show("the same rows in one process, to compare with ...")
    pooled = SecureFedYJ(engine="clear", bounds=bounds).fit([cancer.X])
    together = SecureFedYJ(bounds=bounds).fit(silos)
    features = [Feature(name, *pair) for name, pair in zip(cancer.names, bounds, strict=True)]
    with _interrupts() as came, tempfile.TemporaryDirectory(prefix="securefedyj-demo-") as name:
        folder = Path(name)
        seconds = _run_processes(folder, dict(zip(SILOS, silos, strict=True)), features, came)
        fitted = [securefedyj.load(folder / silo / "parameters.json") for silo in SILOS]
        transcript = Transcript.read(folder / SILOS[0] / "transcript.jsonl")
    equal = np.all(
        [
            getattr(one, a) == getattr(pooled, a)
            for one in (*fitted, together)
            for a in ("lambdas_", "mean_", "var_")
        ],
        axis=0,
    )
    audit = transcript.audit()
    try:
        transcript.write(path)
    except OSError as error:
        raise _cannot_write(path, error) from error
    title = "The same, federated: three silos that may not pool their rows"
    return "\n".join(
        [
            title,
            "-" * len(title),
            _wrapped(
                "A hub and three parties, each a process with a key of its own, as on four "
                "machines; TLS 1.3 from party to party, which the hub relays and cannot read."
            ),
            "",
            _silo_table(cancer, silos, fitted[0]),
            "",
            _wrapped(
                f"{np.count_nonzero(equal)} of {len(equal)} features have the same lambda, mean "
                "and variance at all three parties as in one process, and as one silo with all "
                "rows, bit for bit."
            ),
            "",
            _wrapped(
                "Revealed to every silo: the number of values, the signs of the search, and the "
                f"result. The audit recomputes every sign from the result: "
                f"{'passed' if audit.passed else 'FAILED'}. "
                f"Read it with: securefedyj audit {path}"
            ),
            "",
            _cost_table(together, seconds),
        ]
    )


def _run_processes(
    folder: Path, tables: dict[str, Array], features: list[Feature], interrupts: list[int]
) -> float:
    """A hub and a process for each party; return the seconds from their start to their end.

    Keys, tables and results are in the folder. However this ends, no process is left.
    """
    prepare(folder, tables, features, name="demo")
    with _shown(), Processes(folder) as processes:
        start = time.monotonic()
        _show("starting a hub and three parties ...")
        processes.start_hub()
        for party in tables:
            processes.start_party(party)
        while time.monotonic() < start + _PATIENCE:
            try:
                processes.wait(timeout=0.2)
                return time.monotonic() - start
            except subprocess.TimeoutExpired:
                if interrupts:
                    raise KeyboardInterrupt from None
                for party in tables:
                    _check(processes, party)
                _show(processes.last_line(SILOS[0]) or "starting ...")
        raise OSError(
            f"the parties are not done after {_PATIENCE:g} seconds: is another busy here?"
        )


def _check(processes: Processes, party: str) -> None:
    """The others would wait for a party that has failed."""
    if processes.running[party].poll():
        raise OSError(f"party {party} of the demo failed: {processes.last_line(party)}")


@contextlib.contextmanager
def _interrupts() -> Iterator[list[int]]:
    """Collect SIGINT and SIGTERM, and obey at the end.

    An exception in the midst of starting a process would leave that one behind.
    """
    came: list[int] = []
    before = {
        number: signal.signal(number, lambda number, frame: came.append(number))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if came:
        raise KeyboardInterrupt


@contextlib.contextmanager
def _shown() -> Iterator[None]:
    """Remove at the end what `_show` has shown."""
    try:
        yield
    finally:
        _show("")


def _show(text: str) -> None:
    """One line that is rewritten, for somebody who waits at a terminal."""
    if sys.stdout.isatty():
        print(f"\r\x1b[K{text[: WIDTH - 1]}", end="", flush=True)


def _silos_by_size(cancer: Comparison) -> list[Array]:
    """A third of the rows each: the small, the middle and the large tumours."""
    order = np.argsort(cancer.X[:, cancer.names.index("mean radius")])
    return [cancer.X[part] for part in np.array_split(order, 3)]


def _silo_table(cancer: Comparison, silos: list[Array], federated: SecureFedYJ) -> str:
    row = "{:<24}{:>9}{:>9}{:>9}{:>14}{:>14}"
    lines = [
        f"{'':<24}{'median at silo':^27}{'lambda':^28}".rstrip(),
        row.format("feature", *SILOS, "federated", "ExpYJ"),
    ]
    for name in ("mean area", "mean concavity", PICTURED, "worst texture"):
        j = cancer.names.index(name)
        medians = (f"{np.median(silo[:, j]):.3g}" for silo in silos)
        ours, pooled = federated.lambdas_[j], cancer.ours.lambdas_[j]
        lines.append(row.format(name, *medians, f"{ours:.8f}", f"{pooled:.8f}"))
    return "\n".join(lines)


def _cost_table(federated: SecureFedYJ, seconds: float) -> str:
    """Our cost beside what the paper states for its protocol at 40 steps."""
    cost, p = federated.cost_, federated.n_features_in_
    sent = max(max(to.values()) for to in cost.bytes_sent.values()) / p
    inside = cost.seconds_local + cost.seconds_secure
    rows = [
        ("cost of the fit", "this run", "paper, 40 steps"),
        ("rounds of messages", str(cost.rounds), "726"),
        ("sent per feature and peer, at most", f"{sent / 1e6:.3f} MB", "8 MB"),
        ("time of all three silos in one process", f"{inside:.1f} s", "not stated"),
        ("time of the four processes, start included", f"{seconds:.1f} s", ""),
    ]
    return "\n".join("{:<44}{:>16}{:>18}".format(*row).rstrip() for row in rows)


def picture_section(cancer: Comparison, digits: Comparison, path: Path) -> str:
    try:
        draw(cancer, digits, path)
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        return f'No picture, since {package} is missing: pip install "securefedyj[plot]"'
    except OSError as error:
        raise _cannot_write(path, error) from error
    return f"Picture: {path}"


def compare_breast_cancer() -> Comparison:
    data = load_breast_cancer()
    return compare(data.data, [str(name) for name in data.feature_names])


def compare_digits() -> Comparison:
    data = load_digits()
    return compare(data.data, [f"column {j} ({n})" for j, n in enumerate(data.feature_names)])


def compare(X: Array, names: list[str]) -> Comparison:
    """Fit both by turns, in this process; the shortest of a few runs counts."""
    ours, theirs = ExpYJ(), PowerTransformer(method="yeo-johnson")
    our_seconds, their_seconds = np.inf, np.inf
    with warnings.catch_warnings():
        # Some versions of scikit-learn warn where they overflow; the table says more.
        warnings.simplefilter("ignore")
        for _ in range(_REPEATS):
            our_seconds = min(our_seconds, _seconds(lambda: ours.fit(X)))
            their_seconds = min(their_seconds, _seconds(lambda: theirs.fit(X)))
    constant = np.ptp(X, axis=0) == 0
    gain = np.zeros(len(names))
    for j in np.flatnonzero(~constant):
        better, other = ours.lambdas_[j], theirs.lambdas_[j]
        gain[j] = log_likelihood(X[:, j], better) - log_likelihood(X[:, j], other)
    return Comparison(X, names, ours, theirs, our_seconds, their_seconds, gain, constant)


def draw(cancer: Comparison, digits: Comparison, path: Path) -> None:
    """Before and after, the two ways to the optimum, and an optimum that was missed."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    from securefedyj.demo import plots

    margins = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.12)  # inches
    figure = Figure(figsize=(10, 7.2), layout=margins)
    (before, search), (after, missed) = figure.subplots(2, 2)

    j = cancer.names.index(PICTURED)
    x, z = cancer.X[:, j], cancer.ours.transform(cancer.X)[:, j]
    plots.plot_histogram(before, x, PICTURED, f"Before: {PICTURED}")
    plots.plot_histogram(after, z, f"{PICTURED}, transformed", "After Yeo-Johnson")

    column = x.reshape(-1, 1)
    paths = {
        plots.EXPONENTIAL_SEARCH: ExpYJ(solver="expsearch").fit(column).path_[:, 0],
        plots.NEWTON: ExpYJ().fit(column).path_[:, 0],
    }
    plots.plot_search(search, x, paths, f"Two ways to the optimum: {PICTURED}")

    k = (digits.different + digits.alike)[0]
    found = {
        plots.OURS: float(digits.ours.lambdas_[k]),
        plots.SCIKIT_LEARN: float(digits.theirs.lambdas_[k]),
    }
    plots.plot_comparison(missed, digits.X[:, k], found, f"Two results: digits, {digits.names[k]}")
    figure.savefig(path, dpi=150)


def make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _cannot_write(path, error) from error


def _cannot_write(path: Path, error: OSError) -> OSError:
    reason = error.strerror or error
    return OSError(f"cannot write {path} ({reason}): choose another folder with --output")


def _heading(name: str, comparison: Comparison) -> str:
    rows, features = comparison.X.shape
    title = f"{name}: {rows} rows, {features} features"
    return f"{title}\n{'-' * len(title)}"


def _table(comparison: Comparison, features: Iterable[int]) -> str:
    lines = [_ROW.format("feature", "ExpYJ", "scikit-learn", "difference", "log-likelihood")]
    for j in features:
        ours, theirs = comparison.ours.lambdas_[j], comparison.theirs.lambdas_[j]
        difference = ours - theirs
        lines.append(
            _ROW.format(
                comparison.names[j],
                f"{ours:.4f}",
                f"{theirs:.4f}",
                f"{difference:.1e}" if abs(difference) < 0.01 else f"{difference:.2f}",
                _remark(comparison.gain[j]),
            ).rstrip()
        )
    return "\n".join(lines)


def _remark(gain: float) -> str:
    """scikit-learn's log-likelihood, seen from ours."""
    if abs(gain) <= _SAME:
        return "the same"
    return f"{'lower' if gain > 0 else 'higher'} by {abs(gain):.1f}"


def _about_the_rest(comparison: Comparison, shown: int) -> str:
    alike, constant = comparison.alike, int(np.count_nonzero(comparison.constant))
    ours, theirs = comparison.ours.lambdas_[alike], comparison.theirs.lambdas_[alike]
    worst = np.max(np.abs(ours - theirs) / np.maximum(1, np.abs(ours)), initial=1e-16)
    sentence = f"{len(alike) - shown} other features agree to a relative 1e{ceil(log10(worst))}"
    return sentence + (f"; {constant} are constant." if constant else ".")


def _timing(comparison: Comparison) -> str:
    ours, theirs = comparison.our_seconds, comparison.their_seconds
    return (
        f"Time of fit: ExpYJ {1000 * ours:.1f} ms, scikit-learn {1000 * theirs:.0f} ms: "
        f"{theirs / ours:.0f} times as long."
    )


def _seconds(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def _wrapped(text: str) -> str:
    return textwrap.fill(text, WIDTH, break_long_words=False)

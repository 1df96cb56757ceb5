"""What a run revealed, in order; the result that follows from it; and the audit of both.

Opened, and nothing else, are: how many values each feature has and whether they vary, the signs
of the search, and mean and variance at the end. The result is computed from the transcript alone
(`Transcript.compute_result`), and the audit goes the other way: it recomputes every sign from
the result (the paper's proposition 4.1), so the signs told nothing that the result does not.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Context, Decimal, localcontext
from math import log, sqrt
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from securefedyj.files import write_atomically
from securefedyj.numerics.arrays import Array, Index, Integers, Signs
from securefedyj.numerics.encoding import choose_encoding, decaying
from securefedyj.numerics.search import Bracket, at_bound, exp_update, recover_path
from securefedyj.numerics.yeojohnson import Standardization
from securefedyj.protocol.agreement import Agreement

FORMAT = 1

# Magnitudes of variances are told in steps of so many bits, and this many bits are opened below.
MAGNITUDE_STEP = 8
VARIANCE_BITS = 52
# S_y is opened down to this many bits below its standard deviation.
MEAN_BITS = 44


class Counts(NamedTuple):
    """n of each feature: the number of values that all silos have together."""

    features: Index
    n: Integers


class Variation(NamedTuple):
    """Whether a feature has two distinct values at all, over all silos, on its grid."""

    features: Index
    varies: NDArray[np.bool_]


class Step(NamedTuple):
    """One step of the search: the sign of the score of each feature at its lambda."""

    step: int
    features: Index
    lmbda: Array
    delta: Signs


class Moments(NamedTuple):
    """V = n S_yy - S_y^2 and S_y at lambda*, as integers on the grid of the encoding.

    V lies in [2^(8 magnitude), 2^(8 magnitude + 8)), or below 256 where the magnitude is 0.
    Both come without their lowest bits, `lowest_opened` many.
    """

    features: Index
    magnitude: Integers
    V: list[int]
    S_y: list[int]


Reveal = Counts | Variation | Step | Moments
R = TypeVar("R", Counts, Variation, Step, Moments)


class Result(NamedTuple):
    """The fit: what everybody is meant to learn, one entry per feature."""

    lmbda: Array
    mean: Array
    var: Array
    n: Integers
    at_bound: NDArray[np.bool_]
    constant: NDArray[np.bool_]
    standardization: Standardization


def lowest_opened(magnitude: Integers) -> tuple[Integers, Integers]:
    """The lowest bits of V and of S_y that are opened, by the magnitude of V.

    From V >= 2^(8m) follows sqrt(V) >= 2^(4m), which is n times the standard deviation.
    """
    return (
        np.maximum(MAGNITUDE_STEP * (magnitude + 1) - VARIANCE_BITS, 0),
        np.maximum(MAGNITUDE_STEP * magnitude // 2 - MEAN_BITS, 0),
    )


@dataclass
class Transcript:
    """Everything that one run revealed, to all parties alike."""

    agreement: Agreement
    reveals: list[Reveal] = field(default_factory=list)
    result: Result | None = None

    @property
    def n_features(self) -> int:
        return len(self.agreement.features)

    def all(self, kind: type[R]) -> Iterator[R]:
        """The reveals of one kind, in order."""
        return (reveal for reveal in self.reveals if isinstance(reveal, kind))

    def search_state(self) -> Bracket:
        """Where the signs so far have led each feature."""
        limits = self.agreement.domain.limits()
        state = Bracket.start(self.n_features)
        for reveal in self.reveals:
            if isinstance(reveal, Step):
                where = reveal.features
                state.put(where, exp_update(state.take(where), reveal.delta, limits.take(where)))
        return state

    def constant(self) -> NDArray[np.bool_]:
        """Features that were not found to vary."""
        constant = np.ones(self.n_features, dtype=bool)
        for reveal in self.reveals:
            if isinstance(reveal, Variation):
                constant[reveal.features] = ~reveal.varies
        return constant

    def steps_done(self, features: Index) -> int:
        """How many steps of the search of these features, a batch, were revealed."""
        steps = (
            reveal.step + 1
            for reveal in self.reveals
            if isinstance(reveal, Step) and np.isin(reveal.features, features).any()
        )
        return max(steps, default=0)

    def has_moments(self, features: Index) -> bool:
        """Whether the moments of these features, a batch, were revealed."""
        return any(
            isinstance(reveal, Moments) and bool(np.isin(reveal.features, features).any())
            for reveal in self.reveals
        )

    def counts(self) -> Integers:
        """n of each feature, 0 while it is unknown."""
        n = np.zeros(self.n_features, dtype=np.int64)
        for reveal in self.reveals:
            if isinstance(reveal, Counts):
                n[reveal.features] = reveal.n
        return n

    def signs_opened(self) -> Integers:
        """How many signs of each feature were revealed."""
        signs = np.zeros(self.n_features, dtype=np.int64)
        for reveal in self.reveals:
            if isinstance(reveal, Step):
                np.add.at(signs, reveal.features, 1)
        return signs

    def concluded(self) -> Transcript:
        """Itself, with the result that follows from the reveals of a whole run."""
        self.result = self.compute_result()
        return self

    def compute_result(self) -> Result:
        """The fit, from what was revealed and nothing else."""
        p = self.n_features
        state, constant = self.search_state(), self.constant()
        lmbda = np.where(constant, 1.0, state.value)
        beyond = at_bound(state, self.agreement.domain.limits())
        n = self.counts()
        moments: dict[int, tuple[int, int]] = {}
        for reveal in self.reveals:
            if isinstance(reveal, Moments):
                values = zip(*_complete(reveal), strict=True)
                moments |= dict(zip(reveal.features.tolist(), values, strict=True))
        grid = choose_encoding(self.agreement.domain, n, lmbda).grid
        standardization = Standardization(np.zeros(p), np.ones(p))
        result = Result(
            lmbda, np.zeros(p), np.zeros(p), n, beyond & ~constant, constant, standardization
        )
        domain = self.agreement.domain
        decays = zip(
            decaying(domain.L_positive, lmbda).tolist(),
            decaying(domain.L_negative, 2 - lmbda).tolist(),
            strict=True,
        )
        for j, (step, sides) in enumerate(zip(grid.tolist(), decays, strict=True)):
            if j in moments:
                _fill(result, j, step, sides, *moments[j])
        return result

    def unresolved(self) -> list[str]:
        """Features that vary so little, for their bounds, that lambda is not certain.

        The score is the difference of terms of which each sample contributes its d, rounded to
        the grid and to float64. Near the center, d varies with the square of the spread s of
        log(1+|x|), and the score falls by s^2 per unit of lambda: so an error e of d, in units of
        the slope of Psi, moves lambda by about e / s^3.
        """
        result = self.result or self.compute_result()
        center, spread = result.standardization
        L = np.log1p(np.abs(center))
        u = np.where(center >= 0, result.lmbda, 2 - result.lmbda)
        grid = choose_encoding(self.agreement.domain, result.n, result.lmbda).grid
        with np.errstate(all="ignore"):
            size = np.where(np.abs(u * L) < 1e-8, L, -np.expm1(-u * L) / u)  # |mean| / slope
            size = np.where(u * L < -1, 1 / np.abs(u), size)  # where the constant is kept apart
            error = np.exp2(-grid) * np.exp(-u * L) + 2.0**-53 * L * size
            uncertain = error / spread**3 > 1e-6 * np.maximum(1, np.abs(result.lmbda))
        chosen = np.flatnonzero(uncertain & ~result.constant)
        return [self.agreement.features[j] for j in chosen]

    def audit(self) -> Audit:
        """Recompute from the result what was revealed on the way to it."""
        return Audit(self, list(_findings(self)))

    def write(self, path: Path | str) -> None:
        """Write the transcript as JSON lines: the agreement, the reveals in order, the result."""
        write_atomically(path, self.to_text().encode())

    @classmethod
    def read(cls, path: Path | str) -> Transcript:
        with open(path, encoding="utf-8") as file:
            try:
                lines = [json.loads(line) for line in file if line.strip()]
            except json.JSONDecodeError as error:
                raise TranscriptError(f"this is no file of JSON lines: {error}") from None
        return cls.from_lines(lines)

    def to_text(self) -> str:
        """The content of the file transcript.jsonl."""
        return "".join(json.dumps(line) + "\n" for line in self.to_lines())

    def to_lines(self) -> Iterator[dict[str, Any]]:
        yield {"transcript": FORMAT, "agreement": self.agreement.to_json()}
        for reveal in self.reveals:
            yield {"reveal": type(reveal).__name__.lower(), **_plain(reveal)}
        if self.result is not None:
            yield {"result": _plain(self.result)}

    @classmethod
    def from_lines(cls, lines: list[dict[str, Any]]) -> Transcript:
        """Read what `to_lines` gives; raises TranscriptError for anything else."""
        if not lines or not isinstance(lines[0], dict) or lines[0].get("transcript") != FORMAT:
            raise TranscriptError(f"this is no transcript of format {FORMAT}")
        try:
            _expect_keys(lines[0], ("transcript", "agreement"))
            transcript = cls(Agreement.from_json(lines[0]["agreement"]))
        except (KeyError, TypeError, ValueError) as error:
            raise TranscriptError(f"line 1 is no agreement of this protocol: {error}") from None
        for number, line in enumerate(lines[1:], start=2):
            try:
                transcript._append(line)
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise TranscriptError(
                    f"line {number} is no reveal of this protocol: {error}"
                ) from None
        return transcript

    def _append(self, line: dict[str, Any]) -> None:
        """Take one line of a file, if nothing is wrong with it."""
        if self.result is not None:
            raise ValueError("nothing may follow the result")
        if "result" in line:
            _expect_keys(line, ("result",))
            self.result = _read_result(line["result"], self.n_features)
        else:
            self.reveals.append(_read_reveal(dict(line), self.n_features))


class TranscriptError(ValueError):
    """A transcript that cannot be read, or that holds something the protocol does not reveal."""


@dataclass(frozen=True)
class Audit:
    """The outcome of an audit: what does not follow from the result, if anything."""

    transcript: Transcript = field(repr=False)
    findings: list[str]

    @property
    def passed(self) -> bool:
        return not self.findings

    def statement(self) -> str:
        """What was revealed to whom, for a reader who must answer for the data."""
        lines = [
            "What this run revealed",
            "",
            *self.who_computed(),
            "",
            "Opened to every party, and to nobody else, for each feature:",
            *(f"  - {what}" for what in OPENED),
            "",
            f"Audit: {'passed' if self.passed else 'FAILED'}.",
            *(f"  - {finding}" for finding in self.findings[:20]),
        ]
        if len(self.findings) > 20:
            lines.append(f"  - and {len(self.findings) - 20} more findings")
        return "\n".join([*lines, *self._table()])

    def who_computed(self) -> list[str]:
        """The parties, the engine, and what that kept secret."""
        agreement = self.transcript.agreement
        return [
            f"Parties: {', '.join(agreement.parties)}.",
            f"Engine: {agreement.engine}, computed by {', '.join(agreement.committee)}.",
            *_ENGINE_WORDS[agreement.engine],
        ]

    def _table(self) -> list[str]:
        agreement, result = self.transcript.agreement, self.transcript.result
        if result is None:
            return []
        lines = ["", f"{'feature':<32} {'values':>9} {'signs':>6} {'lambda':>14}"]
        for name, n, count, lmbda in zip(
            agreement.features, result.n, self.transcript.signs_opened(), result.lmbda, strict=True
        ):
            lines.append(f"{name[:32]:<32} {n:>9} {count:>6} {lmbda:>14.8g}")
        return lines


# What every party learns about each feature.
OPENED = (
    "the number of its values over all silos together, and whether they vary;",
    "the signs of the search, which follow from lambda;",
    "lambda, mean and variance of the transformed feature: the result.",
)

_ENGINE_WORDS = {
    "clear": ["This engine keeps NOTHING secret: every party saw the sums of every silo."],
    "replicated": [
        "No value, no sum and no count of a single silo was revealed: they were shared",
        "among the three members of the committee, of whom no one alone can put them",
        "together.",
    ],
    "mpyc": [
        "No value, no sum and no count of a single silo was revealed: they were shared",
        "among all parties, of whom no minority can put them together.",
    ],
}


def _findings(transcript: Transcript) -> Iterator[str]:
    if transcript.result is None:
        yield "the transcript ends without a result"
        return
    yield from _result_findings(transcript, transcript.result)
    yield from _sign_findings(transcript, transcript.result)
    yield from _number_findings(transcript, transcript.result)
    for reveal in transcript.reveals:
        if isinstance(reveal, Moments):
            yield from _moment_findings(reveal, transcript.agreement.features)


def _result_findings(transcript: Transcript, result: Result) -> Iterator[str]:
    """Does the result follow from what was revealed?"""
    names = transcript.agreement.features
    try:
        recomputed = transcript.compute_result()
    except (ArithmeticError, ValueError):
        yield "no result follows from what was revealed"
        return
    ours, theirs = ((*fit[:6], *fit.standardization) for fit in (recomputed, result))
    fields = (*Result._fields[:6], *Standardization._fields)
    for name, recomputed_values, told in zip(fields, ours, theirs, strict=True):
        for j in np.flatnonzero(np.asarray(recomputed_values) != np.asarray(told)):
            yield f"feature {names[j]!r}: {name} does not follow from what was revealed"


def _sign_findings(transcript: Transcript, result: Result) -> Iterator[str]:
    """Does every sign follow from the result (function F), and is every sign there once?"""
    agreement = transcript.agreement
    names, max_steps = agreement.features, agreement.max_steps
    path = recover_path(result.lmbda, max_steps, agreement.domain.limits(), result.at_bound)
    path.signs[:, result.constant] = 0  # a search that is over before it begins
    seen = np.zeros(path.signs.shape, dtype=bool)
    for reveal in transcript.reveals:
        if not isinstance(reveal, Step):
            continue
        step = reveal.step
        for j, lmbda, delta in zip(*(part.tolist() for part in reveal[1:]), strict=True):
            where = f"feature {names[j]!r}, step {step + 1}"
            if not 0 <= step < max_steps or path.signs[step, j] == 0:
                yield f"{where}: a sign was revealed that the search does not need"
            elif seen[step, j]:
                yield f"{where}: more than one sign was revealed"
            elif path.points[step, j] != lmbda or path.signs[step, j] != delta:
                yield f"{where}: the sign {delta:+d} at {lmbda!r} does not follow from lambda"
            else:
                seen[step, j] = True
    for step, j in zip(*np.nonzero((path.signs != 0) & ~seen), strict=True):
        yield f"feature {names[j]!r}, step {step + 1}: a sign of the search is missing"


def _number_findings(transcript: Transcript, result: Result) -> Iterator[str]:
    """Was everything else revealed as often as the protocol does?"""
    p, names = transcript.n_features, transcript.agreement.features
    expected: list[tuple[str, type[Reveal], Any]] = [
        ("its count", Counts, np.ones(p)),
        ("its variation", Variation, result.n > 1),
        ("its moments", Moments, result.n > 0),
    ]
    for what, kind, wanted in expected:
        times = np.zeros(p, dtype=int)
        for reveal in transcript.reveals:
            if isinstance(reveal, kind):
                np.add.at(times, reveal.features, 1)
        for j in np.flatnonzero(times != wanted):
            yield f"feature {names[j]!r}: {what} revealed {times[j]} times, not {int(wanted[j])}"


def _moment_findings(reveal: Moments, names: tuple[str, ...]) -> Iterator[str]:
    low, _ = lowest_opened(reveal.magnitude)
    for j, m, V, shift in zip(
        reveal.features.tolist(), reveal.magnitude.tolist(), reveal.V, low.tolist(), strict=True
    ):
        smallest = 0 if m == 0 else 1 << (MAGNITUDE_STEP * m)
        if not smallest <= V << shift < 1 << (MAGNITUDE_STEP * (m + 1)):
            yield f"feature {names[j]!r}: the variance is not of the magnitude that was revealed"


def _complete(reveal: Moments) -> tuple[list[int], list[int]]:
    """V and S_y, with what was not opened at the middle of its range."""
    V, S_y = (
        [(value << low) + (1 << low >> 1) for value, low in zip(values, lows.tolist(), strict=True)]
        for values, lows in zip(
            (reveal.V, reveal.S_y), lowest_opened(reveal.magnitude), strict=True
        )
    )
    return V, S_y


def _fill(result: Result, j: int, grid: int, decays: tuple[bool, bool], V: int, S_y: int) -> None:
    """Mean, variance, center and width of one feature, from exact integers.

    ``decays`` tells of the two sides, mean >= 0 and mean < 0, whether they are decaying.
    """
    n, u = int(result.n[j]), float(result.lmbda[j])
    negative = S_y < 0
    if negative:
        u = 2 - u
    # Fractions are kept as numerator and denominator, since none needs its lowest terms.
    unit, size = n << grid, abs(S_y)
    p, q = u.as_integer_ratio()
    # At the center c, where Psi is |mean|, e^{uL} = 1 + u |mean|. It may be tiny: on a decaying
    # side |mean| is close to the constant that the silos have added, 1/|u| as a float64.
    growth, slope, scale = p * size, p * size + q * unit, q * unit
    if decays[negative]:
        a, b = (1 / abs(u)).as_integer_ratio()
        growth, slope, scale = b * growth, p * (b * size - a * unit), b * scale
    variance = V / (n * n << 2 * grid)
    result.mean[j], result.var[j] = S_y / unit, variance
    if slope <= 0:  # only a forged transcript has a mean beyond the range of Psi
        result.standardization.center[j] = result.standardization.width[j] = np.nan
        return
    center = float(
        _center(_ratio(slope, scale), _ratio(growth, scale), _ratio(size, unit), Decimal(u))
    )
    result.standardization.center[j] = -center if negative else center
    # A constant is centered as if its standard deviation were 1.
    deviation = 1.0 if result.constant[j] else sqrt(variance)
    result.standardization.width[j] = deviation / (slope / scale)


# Decimal arithmetic gives the same digits everywhere; the logarithms of C libraries do not. Of
# these, float64 takes 17, and `_center` may lose 12.
_DIGITS = Context(prec=32)


def _ratio(a: int, b: int) -> Decimal:
    return _DIGITS.divide(Decimal(a), Decimal(b))


def _center(slope: Decimal, growth: Decimal, mean: Decimal, u: Decimal) -> Decimal:
    """c with (1 + c)^u = slope = 1 + growth, where growth = u mean."""
    with localcontext(_DIGITS):
        # Two terms of each series where a logarithm or exponential would cancel.
        tiny = Decimal("1e-12")
        L = mean * (1 - growth / 2) if abs(growth) < tiny else _log(slope) / u
        return L * (1 + L / 2) if tiny > L else L.exp() - 1


def _log(x: Decimal) -> Decimal:
    """The logarithm, by one exponential: that of float64, and what is missing to 30 digits."""
    near = Decimal(log(x))
    rest = x * (-near).exp() - 1
    return near + rest * (1 - rest / 2)


def _plain(values: Any) -> dict[str, Any]:
    """A named tuple as what JSON can hold; integers of any size as hexadecimal."""
    out: dict[str, Any] = {}
    for name, value in values._asdict().items():
        if isinstance(value, Standardization):
            out |= _plain(value)
        elif isinstance(value, np.ndarray):
            out[name] = value.tolist()
        elif isinstance(value, list):
            out[name] = [hex(v) for v in value]
        else:
            out[name] = value
    return out


def _expect_keys(data: dict[str, Any], keys: Sequence[str]) -> None:
    if set(data) != set(keys):
        wrong = sorted(set(data) ^ set(keys))
        raise ValueError(f"missing or unexpected: {', '.join(map(str, wrong))}")


def _read_reveal(line: dict[str, Any], n_features: int) -> Reveal:
    kind = line.pop("reveal")
    kinds = {cls.__name__.lower(): cls for cls in (Counts, Variation, Step, Moments)}
    if kind not in kinds:
        raise ValueError(f"unknown reveal {kind!r}")
    _expect_keys(line, kinds[kind]._fields)
    features = np.array(line["features"], dtype=np.intp)
    if np.any((features < 0) | (features >= n_features)):
        raise ValueError("a feature that was not agreed on")
    if any(isinstance(v, list) and len(v) != len(features) for v in line.values()):
        raise ValueError("lists of different lengths")
    if kind == "counts":
        return Counts(features, np.array(line["n"], dtype=np.int64))
    if kind == "variation":
        return Variation(features, np.array(line["varies"], dtype=bool))
    if kind == "step":
        delta = np.array(line["delta"], dtype=np.int8)
        return Step(int(line["step"]), features, np.array(line["lmbda"], dtype=float), delta)
    return Moments(
        features,
        np.array(line["magnitude"], dtype=np.int64),
        [int(v, 16) for v in line["V"]],
        [int(v, 16) for v in line["S_y"]],
    )


def _read_result(data: dict[str, Any], n_features: int) -> Result:
    _expect_keys(data, (*Result._fields[:6], *Standardization._fields))
    if any(len(values) != n_features for values in data.values()):
        raise ValueError("a result of another number of features")
    center, width = (np.array(data[name], dtype=float) for name in Standardization._fields)
    lmbda, mean, var = (np.array(data[name], dtype=float) for name in ("lmbda", "mean", "var"))
    at_edge, constant = (np.array(data[name], dtype=bool) for name in ("at_bound", "constant"))
    n = np.array(data["n"], dtype=np.int64)
    return Result(lmbda, mean, var, n, at_edge, constant, Standardization(center, width))

"""`parameters.json`: the result of a run, to be kept and used long after it.

docs/parameters.md describes every field. The file holds the result as it stands in the
transcript, to the last bit, so what `load` returns transforms like the estimator of the run, on
another machine to the last two digits: NumPy's exp and log1p depend on the processor. The file
is read strictly, because these numbers decide how patients' data are changed.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import numpy as np
from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import asdict

from securefedyj.errors import InputError, code_of
from securefedyj.files import read_within, write_atomically
from securefedyj.numerics.encoding import LARGEST_BOUND, SMALLEST_BOUND
from securefedyj.party.messages import VERSION as PROTOCOL_VERSION
from securefedyj.printable import in_words, shown
from securefedyj.protocol.agreement import Agreement, bounds_of
from securefedyj.protocol.methods import DEFAULT, METHODS, Methods
from securefedyj.protocol.result import Result
from securefedyj.protocol.transcript import Origin, Transcript
from securefedyj.strict import MOST_BYTES, Finite, Record, convert, parse

if TYPE_CHECKING:
    from securefedyj.estimators import ExpYJ, FrozenColumns, FrozenYJ

FORMAT = "securefedyj parameters"
VERSION = 4
_WITHOUT_METHODS = 3
"""The version of a file where all features have the method yeo-johnson alone."""
_WHOLE = ". Give the whole parameters.json of a run; all parties have the same."
_POOLED = ("pooled data",)
# Fixed until version 2, agreed on since version 3.
_AGREED_BEFORE_3: dict[str, Any] = {"result_bits": 44, "helpers": [], "verified": False}
# Not in files of version 1, which release 0.1 wrote.
_NOT_IN_1: dict[str, float | bool] = {"center_low": 0.0, "converged": True}

NotNegative: TypeAlias = Annotated[float, Meta(ge=0, le=sys.float_info.max)]


class FeatureParameters(Record, frozen=True, kw_only=True, rename={"lmbda": "lambda"}):
    """One feature. A wrong number would change every later transformation unnoticed."""

    name: str
    n: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    lmbda: Finite
    mean: Finite
    var: NotNegative
    center: Finite
    width: NotNegative
    center_low: Finite
    at_bound: bool
    converged: bool
    constant: bool


class FittedParameters(FeatureParameters, frozen=True, kw_only=True):
    """What one method found about a feature, but for quantiles."""

    method: str


class QuantileParameters(Record, frozen=True, kw_only=True):
    """One quantile of a feature."""

    name: str
    quantile: str
    n: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    rank: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    value: Finite | None
    """None if it was refused."""
    refused: str
    """Why; empty if it was not."""


class ParametersFile(Record, frozen=True, kw_only=True):
    """The file; the agreement and the features are declared by classes of their own."""

    format: str
    version: int
    consortium: dict[str, Any] | UnsetType = UNSET
    agreement: dict[str, Any]
    standardize: bool
    transcript_sha256: str
    features: list[dict[str, Any]]
    quantiles: list[QuantileParameters] | UnsetType = UNSET


class ParametersError(InputError):
    """A file that is not a parameters.json of this version."""


@dataclass(frozen=True)
class Parameters:
    """A fitted transformation, and the run that it comes from."""

    agreement: Agreement
    result: Result
    standardize: bool
    transcript_sha256: str
    origin: Origin | None = None
    quantiles: tuple[QuantileParameters, ...] = ()

    @classmethod
    def of(cls, transcript: Transcript, standardize: bool = True) -> Parameters:
        """The parameters that a finished run found."""
        if transcript.result is None:
            raise InputError("SFY-PAR-005", "the transcript has no result: the run is not complete")
        return cls(
            transcript.agreement,
            transcript.result,
            standardize,
            digest_of(transcript),
            transcript.origin,
            tuple(_quantiles(transcript)),
        )

    @classmethod
    def of_pooled(cls, fitted: ExpYJ, standardize: bool = True) -> Parameters:
        """The parameters of a fit to pooled data: no run, no transcript, the widest bounds."""
        names = tuple(fitted._feature_names())
        lower = SMALLEST_BOUND if fitted.method == "box-cox" else -LARGEST_BOUND
        methods: tuple[Methods, ...] = ({fitted.method: ()},) * len(names)
        agreement = Agreement(
            features=names,
            domain=bounds_of((lower, LARGEST_BOUND), names, methods),
            methods=methods,
            parties=_POOLED,
            committee=_POOLED,
            engine="clear",
            verified=False,
        )
        agreement.check()
        lmbda, mean, var = fitted.lambdas_, fitted.mean_, fitted.var_
        if lost := [names[j] for j in np.flatnonzero(~np.isfinite(mean + var))]:
            raise InputError(
                "SFY-PAR-013",
                f"the mean or variance of {in_words(lost, 5)} is beyond float64, so the fit cannot "
                "be saved; fit without these columns, or values in another unit",
            )
        counted = (fitted.n_samples_seen_, fitted.at_bound_, fitted.converged_)
        constant = (var == 0) & (lmbda == 1)
        result = Result(lmbda, mean, var, *counted, constant, *fitted._standardization)
        return cls(agreement, result, standardize, "")

    def estimator(self) -> FrozenYJ | FrozenColumns:
        """The fitted estimator: it transforms as that of the run, to the last two digits."""
        from securefedyj.estimators import FrozenColumns, FrozenYJ  # scikit-learn takes a while

        methods = {tuple(own) for own in self.agreement.methods or [DEFAULT]}
        fitted: FrozenYJ | FrozenColumns
        if len(methods) == 1 and methods < {("yeo-johnson",), ("box-cox",)}:
            fitted = FrozenYJ(self.standardize, method=methods.pop()[0])
        else:
            fitted = FrozenColumns(standardize=self.standardize)
        fitted.agreement_ = self.agreement
        if self.origin is not None:
            fitted._source = f" of run {shown(self.origin.name)}"
        fitted.n_features_in_ = len(self.agreement.features)
        if not self.unnamed:
            fitted.feature_names_in_ = np.array(self.agreement.features, dtype=object)
        if isinstance(fitted, FrozenYJ):
            fitted._set_result(self.result, self.agreement.domain)
        else:
            fitted._set_found(self)
        return fitted

    @property
    def unnamed(self) -> bool:
        """Whether the features were arrays' columns: these are called "0", "1" and so on."""
        return all(name == str(j) for j, name in enumerate(self.agreement.features))

    def to_json(self) -> dict[str, Any]:
        """The content of the file, as an object (docs/parameters.md)."""
        methods = {} if self._plain else {"quantiles": [asdict(one) for one in self.quantiles]}
        return {
            "format": FORMAT,
            "version": _WITHOUT_METHODS if self._plain else VERSION,
            **({} if self.origin is None else {"consortium": self.origin._asdict()}),
            "agreement": self.agreement.to_json(),
            "standardize": self.standardize,
            "transcript_sha256": self.transcript_sha256,
            "features": self._features(),
            **methods,
        }

    @property
    def _plain(self) -> bool:
        return _is_plain(self.agreement)

    def _features(self) -> list[dict[str, Any]]:
        """The result as the file lists it: by feature, and by method if there are several."""
        names, methods = _listed(self.agreement)
        kind = FeatureParameters if self._plain else FittedParameters
        columns = {**self.result._asdict(), "name": np.array(names), "method": np.array(methods)}
        values = zip(*(columns[field].tolist() for field in kind.__struct_fields__), strict=True)
        return [dict(zip(kind.__struct_encode_fields__, row, strict=True)) for row in values]

    def to_bytes(self) -> bytes:
        """The content of the file."""
        # Python writes the shortest decimal that reads back as the same float64.
        return (json.dumps(self.to_json(), indent=1, allow_nan=False) + "\n").encode()

    @classmethod
    def from_json(cls, data: Any) -> Parameters:
        """Read what `to_json` gives; raises ParametersError for anything else."""
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise ParametersError(
                "SFY-PAR-006",
                "this is not a parameters.json of securefedyj: such a file begins with "
                f'{{"format": "{FORMAT}"}}',
            )
        if data.get("version") not in range(1, VERSION + 1):
            raise ParametersError(
                "SFY-PAR-007",
                f"this file is of version {shown(data.get('version'))}, and this release reads "
                f"versions 1 to {VERSION}: use the release that wrote it, or write it again "
                "from the transcript",
            )
        try:
            file = convert(data, ParametersFile, "the file")
            origin = Origin.from_json(file.consortium)
            features, agreement = file.features, file.agreement
            if file.version == 1:
                features = [_not_in_1(feature) for feature in features]
            if file.version < _WITHOUT_METHODS:
                agreement = _from_before_3(agreement)
            agreed = Agreement.from_json(agreement)
            result = _result(features, agreed)
            quantiles = _checked_quantiles(file, agreed)
        except ValueError as error:
            raise ParametersError(code_of(error, "SFY-PAR-010"), str(error)) from None
        return cls(agreed, result, file.standardize, file.transcript_sha256, origin, quantiles)


def save(fitted: Any, path: Path | str, standardize: bool | None = None) -> None:
    """Write a fit as parameters.json, whole or not at all.

    Parameters
    ----------
    fitted : ExpYJ, SecureFedYJ, other estimator over silos, or Transcript
        A fitted estimator, or the transcript of a finished run.
    path : path-like
        The file; an existing one is replaced.
    standardize : bool, optional
        Whether the transformer that `load` makes of it gives zero mean and unit variance; by
        default as the estimator does, and True for a transcript.
    """
    if standardize is None:
        standardize = getattr(fitted, "standardize", True)
    transcript = getattr(fitted, "transcript_", fitted)
    if isinstance(transcript, Transcript):
        made = Parameters.of(transcript, standardize)
    else:
        from sklearn.utils.validation import check_is_fitted  # it takes a while

        check_is_fitted(fitted, "lambdas_")
        made = Parameters.of_pooled(fitted, standardize)
    write_atomically(path, made.to_bytes())


def read(path: Path | str) -> Parameters:
    """What a parameters.json holds.

    Parameters
    ----------
    path : path-like
        The file.

    Returns
    -------
    parameters : Parameters
        With the agreement and the digest of the transcript, which `load` leaves out.

    Raises
    ------
    ParametersError
        If the file is not a parameters.json; the message names it and says what is wrong.
    """
    try:
        return Parameters.from_json(parse(read_within(path, MOST_BYTES)))
    except IsADirectoryError:
        raise ParametersError(
            "SFY-PAR-008", f"{path}: this is a folder; give its parameters.json"
        ) from None
    except ValueError as error:
        hint = "" if isinstance(error, ParametersError) else _WHOLE
        raise ParametersError(code_of(error, "SFY-PAR-009"), f"{path}: {error}{hint}") from None


def load(path: Path | str) -> FrozenYJ | FrozenColumns:
    """The fitted transformer of a parameters.json.

    Parameters
    ----------
    path : path-like
        A parameters.json that a run, or `securefedyj.save`, has written.

    Returns
    -------
    fitted : FrozenYJ or FrozenColumns
        The latter if the run had other methods than Yeo-Johnson or Box-Cox for all features.
        Transforms, and inverts, as the estimator of the run: bit for bit on the same machine, to
        the last two digits on another. It is fitted and stays so, also in a Pipeline, in a
        cross-validation and when it is cloned. It has no `transcript_` and no `cost_`: these
        belong to the run.
    """
    fitted = read(path).estimator()
    fitted._source += f", file of {date.fromtimestamp(Path(path).stat().st_mtime)}"
    return fitted


def digest_of(transcript: Transcript) -> str:
    """SHA-256 of the transcript's file, as `sha256sum transcript.jsonl` prints it."""
    return hashlib.sha256(transcript.to_text().encode()).hexdigest()


def _not_in_1(feature: dict[str, Any]) -> dict[str, Any]:
    """A feature of version 1 as this version writes it."""
    return feature if _NOT_IN_1.keys() & feature.keys() else {**feature, **_NOT_IN_1}


def _from_before_3(agreement: dict[str, Any]) -> dict[str, Any]:
    """The agreement as it is written now; names and bounds have not changed."""
    if agreement.get("version") not in (1, 2) or _AGREED_BEFORE_3.keys() & agreement.keys():
        return agreement
    return {**agreement, **_AGREED_BEFORE_3, "version": PROTOCOL_VERSION}


def _is_plain(agreement: Agreement) -> bool:
    """Whether all features have the method yeo-johnson alone."""
    return all(methods == DEFAULT for methods in agreement.methods)


def _listed(agreement: Agreement) -> tuple[list[str], list[str]]:
    """The features that the file lists in order, and the methods that were fitted to them."""
    of_scale = {scale: method for method, scale in METHODS.items()}
    asked = [agreement.asked.all[i] for i in agreement.asked.fitted]
    return [agreement.features[q.column] for q in asked], [of_scale[q.scale] for q in asked]


def _quantiles(transcript: Transcript) -> Iterator[QuantileParameters]:
    """The quantiles as the file lists them, by feature."""
    agreement = transcript.agreement
    counts = transcript.values_of_features()
    for name, n, own in zip(agreement.features, counts, transcript.quantiles(), strict=True):
        for quantile, one in own.items():
            value = None if one.refused else one.value
            yield QuantileParameters(
                name=name, quantile=quantile, n=n, rank=one.rank, value=value, refused=one.refused
            )


def _checked_quantiles(
    file: ParametersFile, agreement: Agreement
) -> tuple[QuantileParameters, ...]:
    """The quantiles that the file lists."""
    asked = [(agreement.features[q.column], q.quantile) for q in agreement.asked.all if q.quantile]
    found = () if file.quantiles is UNSET else tuple(file.quantiles)
    if [(one.name, one.quantile) for one in found] != asked or any(
        (one.value is None) != bool(one.refused) for one in found
    ):
        raise ParametersError("SFY-PAR-011", "the quantiles are not those of the agreement")
    return found


def _result(features: list[dict[str, Any]], agreement: Agreement) -> Result:
    """The result that the file lists."""
    names, methods = _listed(agreement)
    if len(features) != len(names):
        raise ParametersError("SFY-PAR-001", f"features must be a list of {len(names)} objects")
    kind = FeatureParameters if _is_plain(agreement) else FittedParameters
    checked = []
    for name, method, feature in zip(names, methods, features, strict=True):
        where = f"feature {shown(name)}"
        checked.append(convert(feature, kind, where))
        if feature.get("method", method) != method:
            raise ParametersError(
                "SFY-PAR-012",
                f"{where} has method {method} in the agreement and {shown(feature['method'])} in "
                "the list",
            )
        if feature["name"] != name:
            raise ParametersError(
                "SFY-PAR-002",
                f"{where} of the agreement is called {shown(feature['name'])} in the list",
            )
    columns = (np.array([getattr(feature, name) for feature in checked]) for name in Result._fields)
    return Result(*columns)

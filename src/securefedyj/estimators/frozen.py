"""What was fitted in a run, for use among other estimators: FrozenYJ and FrozenColumns."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted, validate_data

from securefedyj.estimators.base import FORMULAS, YeoJohnsonTransformer
from securefedyj.estimators.columns import FeatureTransformer, check_choice
from securefedyj.estimators.export import as_fitted
from securefedyj.estimators.scaling import AffineScaler
from securefedyj.numerics.arrays import Array, Bools
from securefedyj.printable import in_words
from securefedyj.protocol.agreement import Agreement
from securefedyj.protocol.methods import METHODS
from securefedyj.protocol.result import fit_of
from securefedyj.tables.source import check_columns, has_column_names, is_table

if TYPE_CHECKING:
    from securefedyj.parameters import Parameters

USES = ("scale", "median", "mean")
_MEDIAN = "0.5"
_MOST_NAMED = 5


class Frozen(FeatureTransformer):
    """An estimator that is fitted, and stays so; it finds its columns in a frame by their names."""

    agreement_: Agreement
    _source = ""
    """The run and the date of the file, for people."""

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Check that X has the columns of the run; nothing is learned from its rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or table
            The data.
        y : None
            Ignored.

        Returns
        -------
        self : estimator
        """
        check_is_fitted(
            self, msg="This %(name)s has no fit: securefedyj.load('parameters.json') makes one."
        )
        if is_table(X):
            self._validated_source(X, reset=False)
        else:
            validate_data(self, self._own_columns(X), reset=False, skip_check_array=True)
        return self

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        called: str = super().__repr__(N_CHAR_MAX)
        if not hasattr(self, "agreement_"):
            return called
        return f"<{called}{self._source}: {in_words(self.agreement_.features, _MOST_NAMED)}>"

    def _validated(self, X: ArrayLike) -> Array:
        return super()._validated(X if is_table(X) else self._own_columns(X))

    def _own_columns(self, X: Any) -> Any:
        """The columns of the run, where those of X have names."""
        own = getattr(self, "feature_names_in_", None)
        if own is None or not has_column_names(X):
            return X
        check_columns("the table", own, list(X.columns))
        return X[list(own)]

    def __sklearn_clone__(self) -> Self:
        return deepcopy(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # The checks of scikit-learn fit columns of their own; FrozenEstimator does the same.
        tags._skip_test = True
        return tags


@dataclass(eq=False, repr=False)
class FrozenYJ(Frozen, YeoJohnsonTransformer):
    """A Yeo-Johnson or Box-Cox transformation that is fitted, and stays so.

    `securefedyj.load` makes it from a parameters.json. It can be a step of a Pipeline or a
    ColumnTransformer as it is: `fit` checks the columns and learns nothing, and a clone is fitted
    as well, as with `sklearn.frozen.FrozenEstimator`. So in a cross-validation all folds have the
    same transformation, that of the run.

    Parameters
    ----------
    standardize : bool, default=True
        Give transformed features zero mean and unit variance over the rows of the run.
    copy : bool, default=True
        As of `ExpYJ`.

    Attributes
    ----------
    lambdas_, mean_, var_, at_bound_, converged_, n_samples_seen_, n_features_in_, feature_names_in_
        As of `SecureFedYJ`.
    agreement_ : Agreement
        What the parties of the run had agreed on: bounds, engine, steps, precision.

    See Also
    --------
    SecureFedYJ : Fits over silos.

    Notes
    -----
    docs/transformation.md has the formulas, and what lambda means.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import numpy as np
    >>> import securefedyj
    >>> X = np.random.default_rng(0).lognormal(size=(90, 2))
    >>> run = securefedyj.SecureFedYJ(engine="clear").fit([X])
    >>> with TemporaryDirectory() as folder:
    ...     securefedyj.save(run, f"{folder}/parameters.json")
    ...     frozen = securefedyj.load(f"{folder}/parameters.json")
    >>> frozen.fit(X[:5]).n_samples_seen_  # of the run
    array([90, 90])
    """

    standardize: bool = True
    copy: bool = True
    method: str = "yeo-johnson"


@dataclass(eq=False, repr=False)
class FrozenColumns(Frozen):
    """What a run with several methods has found, applied to each column; it stays as it is.

    `securefedyj.load` makes it from a parameters.json, and it can be a step of a Pipeline, as
    `FrozenYJ`. To fill in missing values and then scale, use two of them.

    Parameters
    ----------
    use : {"scale", "median", "mean"}, default="scale"
        "scale" transforms each column by the first of its methods among `yeo-johnson`, `box-cox`,
        `standard` and `robust`; a column without any of them stays as it is. "median" and "mean"
        replace missing values by the median or mean of all silos, where the run found it, and
        change nothing else; then `inverse_transform` changes nothing at all.
    standardize : bool, default=True
        As of `FrozenYJ`, for columns with Yeo-Johnson or Box-Cox.
    copy : bool, default=True
        As of `ExpYJ`.

    Attributes
    ----------
    methods_ : list of str
        What "scale" applies to each column; "" for nothing.
    medians_, means_ : ndarray of shape (n_features,)
        Over all silos; NaN where the run did not find them.
    quantiles_ : list of dict
        The quantiles of each column by what was agreed on, such as "0.5". A quantile that was
        refused is NaN.
    agreement_, n_features_in_, feature_names_in_
        As of `FrozenYJ`.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import numpy as np
    >>> import securefedyj
    >>> X = np.array([[20.0], [np.nan], [40.0], [50.0], [900.0]])
    >>> asked = securefedyj.SecureQuantiles(bounds=(0, 1000), resolution=1)
    >>> run = asked.fit([X[:2], X[2:4], X[4:]])
    >>> with TemporaryDirectory() as folder:
    ...     securefedyj.save(run, f"{folder}/parameters.json")
    ...     frozen = securefedyj.load(f"{folder}/parameters.json")
    >>> frozen.set_params(use="median").transform(X).ravel()
    array([ 20.,  40.,  40.,  50., 900.])
    """

    use: str = "scale"
    standardize: bool = True
    copy: bool = True
    methods_: list[str] = field(init=False)
    medians_: Array = field(init=False)
    means_: Array = field(init=False)
    quantiles_: list[dict[str, float]] = field(init=False)

    def _set_found(self, found: Parameters) -> None:
        """Take the result of a run from a file."""
        agreed = found.agreement
        self._agreed = (agreed.domain.lower, agreed.domain.upper)
        self.quantiles_ = [{} for _ in agreed.features]
        places = {name: j for j, name in enumerate(agreed.features)}
        for one in found.quantiles:
            value = np.nan if one.value is None else one.value
            self.quantiles_[places[one.name]][one.quantile] = value
        self.medians_ = np.array([own.get(_MEDIAN, np.nan) for own in self.quantiles_])
        self.means_ = np.full(len(places), np.nan)
        columns, result = fit_of(agreed, found.result, "standard")
        self.means_[columns] = np.where(result.n > 0, result.mean, np.nan)
        self.methods_ = [""] * len(places)
        self._parts: dict[int, tuple[FeatureTransformer, int]] = {}
        for method in reversed(METHODS):  # the first one last, so that it replaces others
            own = [j for j, methods in enumerate(agreed.methods) if method in methods]
            part = self._part(found, method, own) if own else None
            for i, j in enumerate(own):
                if part is not None and not (method == "robust" and np.isnan(part._center[i])):
                    self._parts[j], self.methods_[j] = (part, i), method

    def changed(self, use: str) -> Bools:
        """The columns that a use changes.

        Parameters
        ----------
        use : {"scale", "median", "mean"}
            As the parameter.

        Returns
        -------
        changed : ndarray of bool of shape (n_features,)
        """
        if use == "scale":
            return np.array([method != "" for method in self.methods_])
        known: Bools = ~np.isnan(self.medians_ if use == "median" else self.means_)
        return known

    def _part(self, found: Parameters, method: str, own: list[int]) -> Any:
        """What applies a method to the columns that have it; None if it only finds quantiles."""
        if method in FORMULAS:
            _, result = fit_of(found.agreement, found.result, method)
            power = as_fitted(FrozenYJ(method=method), self, own)
            power._set_result(result, found.agreement.domain.take(np.array(own, dtype=np.intp)))
            return power
        scaler = as_fitted(AffineScaler(), self, own)
        if method == "standard":
            _, result = fit_of(found.agreement, found.result, method)
            scaler._set_map(result.center, result.width, result.center_low)
        elif method == "robust":
            three = [self._three(j, found.agreement.methods[j][method]) for j in own]
            center, scale = np.array(three).T
            scaler._set_map(center, np.where(scale == 0, 1.0, scale))
        return None if method == "quantiles" else scaler

    def _three(self, j: int, quantiles: Sequence[str]) -> tuple[float, float]:
        """Center and scale by three quantiles; NaN if one of them was refused."""
        center = _MEDIAN if _MEDIAN in quantiles else quantiles[1]
        low, high = (self.quantiles_[j][q] for q in quantiles if q != center)
        scale = high - low
        return (self.quantiles_[j][center] if scale == scale else np.nan), scale

    def _map(self, x: Array, j: int) -> Array:
        if self.use != "scale":
            fill = self.medians_ if self.use == "median" else self.means_
            return np.where(np.isnan(x), fill[j], x)
        part, i = self._part_of(j)
        return x if part is None else part._map(x, i)

    def _inverse(self, z: Array, j: int) -> Array:
        part, i = self._part_of(j)
        x: Array = z if part is None or self.use != "scale" else part._inverse(z, i)
        return x

    def _part_of(self, j: int) -> tuple[Any, int]:
        """What scales a column, if anything does, and its number there."""
        part, i = self._parts.get(j, (None, 0))
        if isinstance(part, FrozenYJ):
            part.standardize = self.standardize  # which may have been set after the load
        return part, i

    def _check_values(self, data: Array) -> None:
        check_choice("SFY-FIT-031", "use", self.use, USES)
        if self.use != "scale":
            empty = ~self.changed(self.use) & np.isnan(data).any(axis=0)
            self._warn(empty, f"missing values stay missing, as the run found no {self.use} of it")
            return
        box_cox = [j for j, method in enumerate(self.methods_) if method == "box-cox"]
        if box_cox:
            self._parts[box_cox[0]][0]._check_values(data[:, box_cox])
        robust = np.array(["robust" in methods for methods in self.agreement_.methods])
        unscaled = robust & (np.array(self.methods_) == "")
        self._warn(unscaled, "its values stay as they are, as a quantile of it was refused")

    def _warn(self, chosen: Bools, words: str) -> None:
        if chosen.any():
            # past this, _check_values, _transformed, transform, and scikit-learn's wrapper
            warnings.warn(f"{self._listed(chosen)}: {words}.", UserWarning, stacklevel=6)

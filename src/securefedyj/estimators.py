"""The estimators, with the contract of scikit-learn."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.preprocessing import PowerTransformer, StandardScaler
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from securefedyj.numerics import likelihood, yeojohnson
from securefedyj.numerics.arrays import Array
from securefedyj.numerics.encoding import Domain
from securefedyj.numerics.pooled import fit_pooled
from securefedyj.numerics.yeojohnson import Standardization
from securefedyj.protocol.agreement import ENGINES, MOST_LEVELS, Agreement
from securefedyj.protocol.simulation import committee_of, simulate
from securefedyj.protocol.transcript import Result

# Columns are transformed in blocks of so many numbers, which stay in the cache.
_BLOCK = 1 << 14


class _YeoJohnsonTransformer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """What a fitted Yeo-Johnson transformation can do, however it was fitted."""

    standardize: bool
    n_features_in_: int
    lambdas_: Array
    mean_: Array
    var_: Array
    at_bound_: NDArray[np.bool_]
    n_samples_seen_: NDArray[np.int64]
    _standardization: Standardization

    def transform(self, X: ArrayLike) -> Array:
        """Apply the fitted transformation to every feature.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The data; NaN is kept.

        Returns
        -------
        Z : ndarray of shape (n_samples, n_features)
            The transformed data. A value beyond the range of float64 is replaced by the
            largest float64 of its sign, with a warning that names the feature.
        """
        check_is_fitted(self)
        data = self._validated(X)

        def psi(x: Array, j: int) -> Array:
            if self.standardize:
                return yeojohnson.standardize(x, self.lambdas_[j], self._standardization_of(j))
            return yeojohnson.transform(x, self.lambdas_[j])

        Z = _by_columns(psi, data)
        self._saturate(Z)
        return Z

    def inverse_transform(self, X: ArrayLike) -> Array:
        """Undo `transform`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Transformed data; NaN is kept.

        Returns
        -------
        X_original : ndarray of shape (n_samples, n_features)
            The original data. NaN, with a warning, where no value is transformed to what was
            given: for lambda < 0 or lambda > 2 the transformation is bounded on one side.
        """
        check_is_fitted(self)
        data: Array = check_array(X, dtype=np.float64, ensure_all_finite="allow-nan")
        if data.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {data.shape[1]} features, but {type(self).__name__} "
                f"is expecting {self.n_features_in_} features as input."
            )

        def psi_inverse(z: Array, j: int) -> Array:
            if self.standardize:
                return yeojohnson.unstandardize(z, self.lambdas_[j], self._standardization_of(j))
            return yeojohnson.inverse(z, self.lambdas_[j])

        original = _by_columns(psi_inverse, data)
        lost = ~np.isfinite(original) & ~np.isnan(data)
        if lost.any():
            warnings.warn(
                f"Some values of {self._names(np.any(lost, axis=0))} have no original: they lie at "
                "or beyond the bound of the fitted transformation. They become inf or NaN.",
                UserWarning,
                stacklevel=2,
            )
        return original

    def log_likelihood(self, X: ArrayLike) -> Array:
        """The log-likelihood of the fitted lambdas on X, one value per feature.

        This is the paper's equation 3: mean and variance are those of X itself. It is inf for
        a constant feature and NaN for one without values.
        """
        check_is_fitted(self)
        data = self._validated(X)
        values = np.empty(self.n_features_in_)
        for j, x in enumerate(data.T):
            x = x[~np.isnan(x)]
            if len(x) == 0 or np.all(x == x[0]):
                values[j] = np.inf if len(x) else np.nan
            else:
                values[j] = likelihood.log_likelihood(x, self.lambdas_[j])
        return values

    def to_sklearn(self) -> PowerTransformer:
        """A fitted `sklearn.preprocessing.PowerTransformer` with the same parameters.

        Raises
        ------
        ValueError
            If mean or variance of a feature cannot be held by a float64, or if the variance
            is lost beside the mean, so that scikit-learn's arithmetic would return noise.
        """
        check_is_fitted(self)
        constant = self.var_ == 0
        width, scale = self._standardization.width, np.sqrt(self.var_)
        with np.errstate(over="ignore"):
            unfit = ~np.isfinite(self.mean_) | ~np.isfinite(self.var_)
            unfit |= ~constant & (scale < 1e-10 * np.abs(self.mean_))
            unfit |= constant & (width != 1 / (1 + np.abs(self._standardization.center)))
        if self.standardize and unfit.any():
            raise ValueError(
                f"{self._names(unfit)} cannot be handed to scikit-learn: at lambda = "
                f"{', '.join(f'{v:.6g}' for v in self.lambdas_[unfit][:5])} the mean and variance "
                "do not fit float64. Use this estimator's own transform, or drop the feature."
            )
        fitted = PowerTransformer(method="yeo-johnson", standardize=self.standardize)
        fitted.lambdas_ = self.lambdas_.copy()
        if self.standardize:
            scaler = StandardScaler(copy=False).set_output(transform="default")
            scaler.mean_, scaler.var_ = self.mean_.copy(), self.var_.copy()
            scaler.scale_ = np.where(constant, 1.0, scale)
            scaler.n_samples_seen_ = self.n_samples_seen_.copy()
            scaler.n_features_in_ = self.n_features_in_
            fitted._scaler = scaler
        fitted.n_features_in_ = self.n_features_in_
        if hasattr(self, "feature_names_in_"):
            fitted.feature_names_in_ = self.feature_names_in_.copy()
        return fitted

    def _set_parameters(
        self, lmbda: Array, standardization: Standardization, constant: NDArray[np.bool_]
    ) -> None:
        """Mean and variance follow from center and width; float64 may not be able to hold them."""
        center, width = standardization
        u = np.where(center >= 0, lmbda, 2 - lmbda)
        self.lambdas_ = lmbda
        self._standardization = standardization
        self.mean_ = yeojohnson.transform(center, lmbda)
        with np.errstate(over="ignore", under="ignore"):
            scale = width * np.exp(u * np.log1p(np.abs(center)))
            self.var_ = np.where(constant, 0.0, scale * scale)

    def _standardization_of(self, j: int) -> Standardization:
        return Standardization(*(part[j] for part in self._standardization))

    def _saturate(self, Z: Array) -> None:
        beyond = np.isinf(Z)
        if beyond.any():
            np.clip(Z, -np.finfo(np.float64).max, np.finfo(np.float64).max, out=Z)
            warnings.warn(
                f"Transformed values of {self._names(np.any(beyond, axis=0))} are beyond the range "
                "of float64 and were replaced by its largest value. "
                + (
                    "They are extremely far from the data of the fit."
                    if self.standardize
                    else "Use standardize=True, which stays in range on the data of the fit."
                ),
                UserWarning,
                stacklevel=4,  # past this, transform, and scikit-learn's wrapper of it
            )

    def _validated(self, X: ArrayLike, reset: bool = False, **checks: Any) -> Array:
        data: Array = validate_data(
            self, X, dtype=np.float64, ensure_all_finite="allow-nan", reset=reset, **checks
        )
        return data

    def _names(self, chosen: Any) -> str:
        """The chosen features for a message, the first few by name."""
        names = getattr(self, "feature_names_in_", np.arange(self.n_features_in_))[chosen]
        listed = ", ".join(str(name) for name in names[:5])
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        return f"feature{'s' if len(names) > 1 else ''} {listed}{more}"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


class ExpYJ(_YeoJohnsonTransformer):
    """Yeo-Johnson transformation of pooled data, fitted by maximum likelihood.

    A drop-in for `sklearn.preprocessing.PowerTransformer(method="yeo-johnson")` that finds
    the true optimum also where float64 arithmetic on the likelihood breaks down, and finds it
    faster.

    Parameters
    ----------
    standardize : bool, default=True
        Give transformed features zero mean and unit variance.
    solver : {"newton", "expsearch"}, default="newton"
        "newton" reaches full precision in a few passes over the data; "expsearch" is the
        paper's exponential search (algorithm 1).
    max_steps : int, default=40
        Number of steps of the exponential search; "newton" takes what it needs.

    Attributes
    ----------
    lambdas_ : ndarray of shape (n_features,)
        The fitted lambda of each feature, 1 for a constant one.
    mean_, var_ : ndarray of shape (n_features,)
        Mean and variance of the transformed features before standardization, as float64: at
        extreme lambdas they may be inf or 0. `transform` does not depend on them.
    at_bound_ : ndarray of bool of shape (n_features,)
        Where the search ended at the edge of its range, |lambda| = 1e300.
    path_ : ndarray of shape (n_visits, n_features)
        The lambdas at which the likelihood was evaluated, in order; NaN once a feature has
        its result.
    n_samples_seen_ : ndarray of shape (n_features,)
        Number of values of each feature that are not missing.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, if X had any.

    Notes
    -----
    NaN counts as missing: ignored in `fit`, kept in `transform`.

    Examples
    --------
    >>> import numpy as np
    >>> from securefedyj import ExpYJ
    >>> X = np.array([[1.0, 2.0], [3.0, 2.0], [4.0, 5.0]])
    >>> fitted = ExpYJ().fit(X)
    >>> print(fitted.lambdas_.round(6))
    [ 1.386682 -3.100533]
    >>> print(fitted.transform(X).round(3))
    [[-1.316 -0.707]
     [ 0.21  -0.707]
     [ 1.106  1.414]]
    """

    def __init__(
        self, standardize: bool = True, solver: str = "newton", max_steps: int = 40
    ) -> None:
        self.standardize = standardize
        self.solver = solver
        self.max_steps = max_steps

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Find the lambda, mean and variance of every feature.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The data, at least two rows; NaN is ignored.
        y : None
            Ignored.

        Returns
        -------
        self : ExpYJ
        """
        _check_choice("solver", self.solver, ("newton", "expsearch"))
        _check_positive_integer("max_steps", self.max_steps)
        data = self._validated(X, reset=True, ensure_min_samples=2)
        fit = fit_pooled(data, self.solver, self.max_steps)
        self._set_parameters(fit.lmbda, fit.standardization, fit.constant)
        self.at_bound_ = fit.at_bound
        self.path_ = fit.path
        self.n_samples_seen_ = fit.n
        return self


class SecureFedYJ(_YeoJohnsonTransformer):
    """Yeo-Johnson transformation of data that is split over silos, fitted under secret sharing.

    `fit` runs the real protocol with one party per silo, all on this machine. The result is the
    same, bit for bit, however the rows are split and whichever engine computes it.

    Parameters
    ----------
    engine : {"replicated", "mpyc", "clear"}, default="replicated"
        "replicated": three computing parties, private unless two of them collude. "mpyc":
        Shamir sharing among all silos, private unless a majority colludes; slow. "clear": no
        secrecy at all, for tests and experiments.
    max_steps : int, default=40
        Number of steps of the exponential search, which halve the interval around lambda.
    levels_per_exchange : int, default=4
        Steps that share one exchange between the silos: more of them mean fewer rounds and
        more computation, never another result.
    bounds : None, (lower, upper) or one pair per feature, default=None
        Agreed bounds of the values, public; None stands for |x| <= 2^20. Tighter bounds make
        the fit cheaper, admit larger |lambda| and resolve smaller differences: a feature whose
        values differ by less than 2^-60 counts as constant with the default bounds. A value
        outside is an error at its silo.
    standardize : bool, default=True
        Give transformed features zero mean and unit variance over all silos.

    Attributes
    ----------
    lambdas_, mean_, var_, n_samples_seen_, n_features_in_, feature_names_in_
        As of `ExpYJ`.
    at_bound_ : ndarray of bool of shape (n_features,)
        Where the optimum lies beyond the range of lambda that the bounds admit; lambda is the
        edge of that range.
    transcript_ : Transcript
        Everything that was revealed; `transcript_.audit()` checks it.
    cost_ : Cost
        Rounds, bytes sent by each party, and seconds.

    Examples
    --------
    >>> import numpy as np
    >>> from securefedyj import SecureFedYJ
    >>> X = np.random.default_rng(0).lognormal(size=(90, 2))
    >>> fitted = SecureFedYJ().fit([X[:20], X[20:50], X[50:]])
    >>> pooled = SecureFedYJ(engine="clear").fit([X])
    >>> bool(np.all(fitted.lambdas_ == pooled.lambdas_))
    True
    >>> fitted.transcript_.audit().passed
    True
    """

    def __init__(
        self,
        engine: str = "replicated",
        max_steps: int = 40,
        levels_per_exchange: int = 4,
        bounds: Sequence[float] | Sequence[Sequence[float]] | None = None,
        standardize: bool = True,
    ) -> None:
        self.engine = engine
        self.max_steps = max_steps
        self.levels_per_exchange = levels_per_exchange
        self.bounds = bounds
        self.standardize = standardize

    def fit(self, silos: Sequence[ArrayLike | None], y: object = None) -> Self:
        """Fit one transformation to the rows of all silos.

        Parameters
        ----------
        silos : sequence of array-like of shape (n_rows_k, n_features), or None
            The rows of each silo, with the same columns in the same order. None stands for a
            party that computes but has no data, such as a coordinator.
        y : None
            Ignored.

        Returns
        -------
        self : SecureFedYJ
        """
        _check_choice("engine", self.engine, ENGINES)
        _check_positive_integer("max_steps", self.max_steps)
        _check_positive_integer("levels_per_exchange", self.levels_per_exchange)
        if self.levels_per_exchange > MOST_LEVELS:
            raise ValueError(
                f"levels_per_exchange must be at most {MOST_LEVELS}, got "
                f"{self.levels_per_exchange}: each level doubles the work of an exchange"
            )
        tables = self._validated_silos(silos)
        names = getattr(self, "feature_names_in_", np.arange(self.n_features_in_))
        parties = tuple(f"silo {k + 1}" for k in range(len(tables)))
        agreement = Agreement(
            features=tuple(str(name) for name in names),
            domain=Domain.from_bounds(self.bounds, self.n_features_in_),
            parties=parties,
            committee=committee_of(self.engine, parties),
            engine=self.engine,
            max_steps=int(self.max_steps),
            levels_per_exchange=int(self.levels_per_exchange),
        )
        self.transcript_, self.cost_ = simulate(agreement, tables)
        result = self.transcript_.result
        assert result is not None
        if unresolved := self.transcript_.unresolved():
            warnings.warn(
                f"{', '.join(unresolved[:5])}: the values vary too little for their bounds, so "
                "that lambda is not certain. Agree on bounds closer to the values, or change "
                "the unit.",
                UserWarning,
                stacklevel=2,
            )
        self._set_result(result)
        return self

    def _set_result(self, result: Result) -> None:
        """Take over what a run has found, now or long ago."""
        self.lambdas_, self.mean_, self.var_ = result.lmbda, result.mean, result.var
        self.at_bound_, self.n_samples_seen_ = result.at_bound, result.n
        self._standardization = result.standardization

    def _validated_silos(self, silos: Sequence[ArrayLike | None]) -> list[Array | None]:
        """The tables of all silos; their columns must be the same."""
        if hasattr(silos, "shape"):
            raise ValueError(
                "fit takes a list with one table per silo, e.g. fit([X_1, X_2, X_3]); "
                "for pooled data use ExpYJ"
            )
        with_data = [k for k, silo in enumerate(silos) if silo is not None]
        if not with_data:
            raise ValueError("at least one silo must have data")
        first = with_data[0]
        tables: list[Array | None] = []
        for k, silo in enumerate(silos):
            if silo is None:
                tables.append(None)
                continue
            try:
                tables.append(self._validated(silo, reset=k == first, ensure_min_samples=0))
            except ValueError as error:
                raise ValueError(f"silo {k + 1}: {error}") from error
        return tables


def _check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")


def _check_positive_integer(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise ValueError(f"{name} must be a positive integer, got {value!r}")


def _by_columns(function: Callable[[Array, int], Array], X: Array) -> Array:
    """Apply a function of (values, feature) to every column, in blocks that fit the cache."""
    out = np.empty_like(X, order="C")
    for j in range(X.shape[1]):
        for first in range(0, len(X), _BLOCK):
            rows = slice(first, first + _BLOCK)
            out[rows, j] = function(X[rows, j], j)
    return out

"""What the estimators of a power transformation share, with the contract of scikit-learn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.preprocessing import PowerTransformer
from sklearn.utils.validation import check_is_fitted

from securefedyj.errors import InputError
from securefedyj.estimators.columns import FeatureTransformer, check_choice
from securefedyj.estimators.export import OnError, onnx_model, power_transformer
from securefedyj.numerics import boxcox, yeojohnson
from securefedyj.numerics.arrays import Array
from securefedyj.numerics.encoding import Domain
from securefedyj.numerics.yeojohnson import Standardization
from securefedyj.pooled import likelihood
from securefedyj.pooled.fit import PooledFit
from securefedyj.protocol.result import Result

FORMULAS = {"yeo-johnson": yeojohnson, "box-cox": boxcox}

if TYPE_CHECKING:
    from securefedyj.estimators.display import PowerTransformDisplay


class YeoJohnsonTransformer(FeatureTransformer):
    """What every fitted Yeo-Johnson transformation can do."""

    method: str = "yeo-johnson"
    standardize: bool
    lambdas_: Array
    mean_: Array
    var_: Array
    at_bound_: NDArray[np.bool_]
    converged_: NDArray[np.bool_]
    n_samples_seen_: NDArray[np.int64]
    _standardization: Standardization

    def log_likelihood(self, X: ArrayLike) -> Array:
        """The log-likelihood of the fitted lambdas on X: the paper's equation 3.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The data; NaN is ignored.

        Returns
        -------
        log_likelihoods : ndarray of shape (n_features,)
            With the mean and variance of X itself; inf for a constant feature, NaN for one without
            values.
        """
        check_is_fitted(self)
        data = self._validated(X)
        self._check_values(data)
        values = np.empty(self.n_features_in_)
        for j, x in enumerate(data.T):
            x = x[~np.isnan(x)]
            if len(x) == 0 or np.all(x == x[0]):
                values[j] = np.inf if len(x) else np.nan
            else:
                box_cox = self.method == "box-cox"
                values[j] = likelihood.log_likelihood(x, self.lambdas_[j], box_cox)
        return values

    def to_sklearn(self, on_error: OnError = "raise") -> PowerTransformer:
        """A fitted `sklearn.preprocessing.PowerTransformer` with the same parameters.

        scikit-learn cannot carry a feature whose mean or variance does not fit float64, or whose
        variance is lost next to the mean: its arithmetic would return noise. Without
        standardization, it cannot carry one whose transformed values may not fit float64.

        Parameters
        ----------
        on_error : {"raise", "drop", "identity"}, default="raise"
            What becomes of such a feature: an error that names it; or it is left out, so that
            the PowerTransformer expects the other columns only; or its values pass unchanged.
            The latter two come with a warning.

        Returns
        -------
        made : PowerTransformer
            It transforms as this estimator, up to rounding.

        Raises
        ------
        ValueError
            If there is such a feature, or with "drop" no other.
        """
        check_is_fitted(self)
        return power_transformer(self, on_error)

    def to_onnx(self) -> Any:
        """The fitted transformation as an ONNX model, which runs without Python.

        Input "X" and output "Z" are of float64, with any number of rows. NaN is kept. Values
        outside the agreed bounds are transformed without a warning: ONNX has none. Needs the
        extra `onnx`.

        Returns
        -------
        model : onnx.ModelProto
        """
        check_is_fitted(self)
        return onnx_model(self)

    def plot(self, X: ArrayLike, feature: int | str = 0) -> PowerTransformDisplay:
        """Draw a feature before and after the transformation; needs matplotlib.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The data, as for `transform`.
        feature : int or str, default=0
            Which feature, by its place or its name.

        Returns
        -------
        display : PowerTransformDisplay
            With the figure in `figure_` and its four panels in `axes_`.
        """
        from securefedyj.estimators.display import PowerTransformDisplay

        return PowerTransformDisplay.from_estimator(self, X, feature=feature)

    def _check_method(self) -> None:
        check_choice("SFY-FIT-019", "method", self.method, FORMULAS)

    def _set_fit(self, fit: Result | PooledFit, mean: Array, var: Array) -> None:
        self.lambdas_, self.mean_, self.var_ = fit.lmbda, mean, var
        self.at_bound_, self.converged_, self.n_samples_seen_ = fit.at_bound, fit.converged, fit.n
        self._standardization = fit.standardization

    def _set_result(self, result: Result, domain: Domain) -> None:
        """Take the result of a run, now or from a file."""
        mean, var = result.mean, result.var
        if self.method == "box-cox":  # the result has those of x/lower
            mean, var = boxcox.moments(result.lmbda, result.standardization)
            var = np.where(result.constant, 0.0, var)
        self._set_fit(result, mean, var)
        self._agreed = (domain.lower, domain.upper)

    def _map(self, x: Array, j: int) -> Array:
        lmbda, formulas = self.lambdas_[j], FORMULAS[self.method]
        if self.standardize:
            return np.asarray(formulas.standardize(x, lmbda, self._standardization.take(j)))
        return np.asarray(formulas.transform(x, lmbda))

    def _inverse(self, z: Array, j: int) -> Array:
        lmbda, formulas = self.lambdas_[j], FORMULAS[self.method]
        if self.standardize:
            return np.asarray(formulas.unstandardize(z, lmbda, self._standardization.take(j)))
        return np.asarray(formulas.inverse(z, lmbda))

    def _check_values(self, data: Array) -> None:
        if self.method == "box-cox" and np.any(data <= 0):
            raise InputError(
                "SFY-FIT-017",
                "The Box-Cox transformation can only be applied to strictly positive data, but "
                f"{self._named(np.any(data <= 0, axis=0))} has other values.",
            )

    def _why_beyond(self) -> str:
        if self.standardize:
            return super()._why_beyond()
        return "Use standardize=True, which stays in range on the data of the fit."

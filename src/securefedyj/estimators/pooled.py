"""ExpYJ: the fit of pooled data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self

import numpy as np

from securefedyj.estimators.base import FORMULAS, YeoJohnsonTransformer
from securefedyj.estimators.columns import (
    check_choice,
    check_positive_integer,
    choice_of_columns,
)
from securefedyj.numerics.arrays import Array
from securefedyj.numerics.passes import Source, over_all
from securefedyj.pooled.fit import PooledFit, fit_pooled

_SOLVERS = ("newton", "expsearch")


@dataclass(kw_only=True, eq=False, repr=False)
class ExpYJ(YeoJohnsonTransformer):
    """Yeo-Johnson or Box-Cox transformation of pooled data, fitted by maximum likelihood.

    A drop-in for `sklearn.preprocessing.PowerTransformer` that finds the true optimum also where
    float64 arithmetic on the likelihood breaks down, and finds it faster.

    Parameters
    ----------
    method : {"yeo-johnson", "box-cox"}, default="yeo-johnson"
        "box-cox" is for values > 0.
    standardize : bool, default=True
        Give transformed features zero mean and unit variance.
    copy : bool, default=True
        Whether `transform` and `inverse_transform` leave X as it is. False saves memory: an array
        of float64 or float32 that can be written to is then overwritten and returned.
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
        Where the search hit its limit, |lambda| = 1e300.
    converged_ : ndarray of bool of shape (n_features,)
        Where lambda is certain to 1e-9 of max(|lambda|, 1/sqrt(|score'|/n)): the score changes its
        sign that close to it, by more than rounding could. With fewer than 40 steps, "expsearch"
        promises 2^(10 - max_steps) instead. The mean of the transformed values, in standard
        deviations, and their variance are then as certain.
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
    The transformation is ::

        Psi(lambda, x) =  ((1 + x)^lambda - 1) / lambda               for x >= 0
        Psi(lambda, x) = -((1 - x)^(2 - lambda) - 1) / (2 - lambda)   for x < 0

    with log(1 + x) at lambda = 0 and -log(1 - x) at lambda = 2. lambda = 1 changes nothing; less
    pulls a long right tail in, more a long left tail. lambda is where the log-likelihood of a
    normal distribution is highest ::

        -n/2 log(2 pi Var(Psi)) + (lambda - 1) sum sgn(x) log(1 + |x|)

    It has one maximum. docs/transformation.md has a picture, and says what a large lambda means.

    Box-Cox is (x^lambda - 1) / lambda, or log(x) at lambda = 0, with log(x) in place of
    sgn(x) log(1 + |x|). A feature without values is refused, as scikit-learn does; a constant one
    gets lambda = 1, where scikit-learn raises an error.

    NaN counts as missing: ignored in `fit`, kept in `transform`. The masked entries of a masked
    array count as NaN.

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

    method: str = field(default="yeo-johnson", kw_only=False)
    standardize: bool = True
    copy: bool = True
    solver: str = "newton"
    max_steps: int = 40

    def fit(self, X: Any, y: object = None) -> Self:
        """Find the lambda, mean and variance of every feature.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or table
            The data, at least two rows; NaN is ignored. A table is the path of a CSV or Parquet
            file or of a folder of them, a polars LazyFrame or a PyArrow table. All its columns are
            fitted; `securefedyj.tables.source.as_source` chooses some by name. One that is too
            large to be held is read in blocks, once for each pass, with the same result. A table of
            Dask is fitted by one of its workers, which reads the rows of all.
        y : None
            Ignored.

        Returns
        -------
        self : ExpYJ
        """
        self._check_method()
        check_choice("SFY-FIT-016", "solver", self.solver, _SOLVERS)
        check_positive_integer("max_steps", self.max_steps)
        data = self._validated_table(X, reset=True, ensure_min_samples=2)
        box_cox = self.method == "box-cox"
        fitted: Callable[[Array | Source], PooledFit] = partial(
            fit_pooled, solver=self.solver, max_steps=self.max_steps, box_cox=box_cox
        )
        with choice_of_columns():
            if isinstance(data, np.ndarray):
                self._check_values(data)
                fit = fitted(data)
            else:
                fit = over_all(data, fitted)
        mean, var = FORMULAS[self.method].moments(fit.lmbda, fit.standardization)
        self._set_fit(fit, mean, np.where(fit.constant, 0.0, var))
        self.path_ = fit.path
        self._warn()
        return self

    def _warn(self) -> None:
        empty = self.n_samples_seen_ == 0
        self._warn_not_converged(empty, "all values are missing, so lambda is 1", UserWarning)
        advice = (
            f"{self.max_steps} steps are too few to find lambda. Set max_steps to "
            f"{2 * self.max_steps}, or solver to 'newton'"
            if self.solver == "expsearch"
            else "lambda is not certain: float64 arithmetic does not resolve the values"
        )
        self._warn_not_converged(~self.converged_, advice)

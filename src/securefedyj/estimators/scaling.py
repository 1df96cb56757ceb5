"""Scalers of data that is split over silos, which subtract a number and divide by another."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from sklearn.preprocessing import RobustScaler, StandardScaler
from sklearn.utils.validation import check_is_fitted

from securefedyj.errors import InputError
from securefedyj.estimators.export import as_fitted
from securefedyj.estimators.secure import SecureTransformer
from securefedyj.numerics.arrays import Array, Index
from securefedyj.numerics.grid import STEPS
from securefedyj.protocol.agreement import MOST_BITS
from securefedyj.protocol.methods import Methods, as_quantile

# A scale of fewer steps of the grid is off by more than a hundredth.
_FEWEST_STEPS = 100
# What a mean as one float64 may cost, in standard deviations.
_LOST = 1e-9


class AffineScaler(SecureTransformer):
    """What scalers share. The center is the sum of two float64, so that no digit of x is lost."""

    def _map(self, x: Array, j: int) -> Array:
        z: Array = ((x - self._center[j]) - self._center_low[j]) / self._width[j]
        return z

    def _inverse(self, z: Array, j: int) -> Array:
        x: Array = self._center[j] + (z * self._width[j] + self._center_low[j])
        return x

    def _set_map(self, center: Array | None, scale: Array | None, low: Array | float = 0.0) -> None:
        """Take what is subtracted and divided by; None for nothing."""
        nothing = np.zeros(self.n_features_in_)
        self._center = nothing if center is None else center
        self._center_low = nothing if center is None else nothing + low
        self._width = nothing + 1 if scale is None else scale


@dataclass(kw_only=True, eq=False, repr=False)
class SecureStandardScaler(AffineScaler):
    """Subtract the mean over all silos and divide by the standard deviation, under secret sharing.

    As `sklearn.preprocessing.StandardScaler` of the pooled rows. Values are added up exactly, on a
    grid of 2^-128 of the bounds, so that a mean far from zero costs no digit.

    Parameters
    ----------
    with_mean : bool, default=True
        Subtract the mean.
    with_std : bool, default=True
        Divide by the standard deviation.
    engine, bounds, result_bits, verified, minimum_values, cache_bytes, copy
        As of `SecureFedYJ`.
    submitted, resolution, digits, round
        As of `SecureFedYJ`.

    Attributes
    ----------
    mean_, var_ : ndarray of shape (n_features,)
        Mean and variance over all silos, to the precision of `result_bits`.
    scale_ : ndarray of shape (n_features,) or None
        The standard deviation, 1 for a constant feature; None if `with_std=False`.
    converged_ : ndarray of bool of shape (n_features,)
        Where the variance is certain. Elsewhere values vary by less than 2^-98 of their bounds, and
        a warning says so.
    n_samples_seen_, n_features_in_, feature_names_in_, transcript_, cost_
        As of `SecureFedYJ`.

    Examples
    --------
    >>> import numpy as np
    >>> from securefedyj import SecureStandardScaler
    >>> X = np.array([[1e9, 1.0], [1e9 + 1, 2.0], [1e9 + 2, 6.0]])
    >>> fitted = SecureStandardScaler(bounds=(0, 2**31)).fit([X[:1], X[1:], None])
    >>> print(fitted.transform(X).round(3))
    [[-1.225 -0.926]
     [-0.    -0.463]
     [ 1.225  1.389]]
    """

    with_mean: bool = True
    with_std: bool = True
    result_bits: int = MOST_BITS

    def _methods(self) -> Methods:
        return {"standard": ()}

    def _learn(self, features: Index) -> None:
        columns, found = self.transcript_.fit_of("standard")
        result = found.take(np.searchsorted(columns, features))
        self.mean_, self.var_, self.n_samples_seen_ = result.mean, result.var, result.n
        self.converged_ = result.converged
        self.scale_ = result.width if self.with_std else None
        self._set_map(result.center if self.with_mean else None, self.scale_, result.center_low)
        self._warn_not_converged(
            ~self.converged_,
            "the values vary too little for their bounds, so that the variance is not certain. "
            "Agree on bounds closer to the values",
        )

    def to_sklearn(self) -> StandardScaler:
        """A fitted `sklearn.preprocessing.StandardScaler`.

        Returns
        -------
        made : StandardScaler
            It transforms as this estimator, up to rounding. It has the mean as one float64 only: a
            warning names features where that costs more than 10^-9 standard deviations.
        """
        check_is_fitted(self)
        lost = np.abs(self._center_low) > _LOST * self._width
        if lost.any():
            warnings.warn(
                f"The mean of {self._named(lost)} is so large that scikit-learn, which keeps one "
                "float64, transforms with less precision.",
                UserWarning,
                stacklevel=2,
            )
        made = StandardScaler(copy=self.copy, with_mean=self.with_mean, with_std=self.with_std)
        learned = ("mean_", "var_", "scale_", "n_samples_seen_")
        return as_fitted(made, self, **{name: getattr(self, name) for name in learned})


@dataclass(kw_only=True, eq=False, repr=False)
class SecureRobustScaler(AffineScaler):
    """Subtract the median over all silos and divide by a range of quantiles, under secret sharing.

    As `sklearn.preprocessing.RobustScaler` of the pooled rows, with quantiles that are values: the
    quantile q of n values is the one of rank max(1, ceil(q n)), where scikit-learn interpolates
    between two.

    Parameters
    ----------
    quantile_range : (q_min, q_max), 0.0 < q_min < q_max < 100.0, default=(25.0, 75.0)
        The percentages of the quantiles whose difference is the scale.
    with_centering : bool, default=True
        Subtract the median.
    with_scaling : bool, default=True
        Divide by the scale.
    resolution : None, number, str or Decimal, or one of these per feature, default=None
        The grid of the quantiles: lower bound + j resolution. A quantile is exact for values on the
        grid, such as years or 0.01 mmol/l, and rounded up to it otherwise. None means 2^24 steps
        between the bounds: 0.125 for the default bounds, so give `bounds` or a `resolution`.
    minimum_values : int, default=0
        A quantile is somebody's value. It is refused before anything of it is opened if fewer
        values are as small or as large, or if it has fewer ranks to the quantile before it. Then it
        is NaN, with a warning. Consortia agree on at least 5.
    engine, levels_per_exchange, bounds, verified, cache_bytes, copy
        As of `SecureFedYJ`.
    submitted, digits, round
        As of `SecureFedYJ`.

    Attributes
    ----------
    center_ : ndarray of shape (n_features,) or None
        The median; None if `with_centering=False`.
    scale_ : ndarray of shape (n_features,) or None
        The range of the quantiles, 1 where that is 0; None if `with_scaling=False`.
    converged_ : ndarray of bool of shape (n_features,)
        Where a resolution was agreed on, or the scale is at least 100 steps of the grid. Elsewhere
        the grid is too coarse for the values, and a warning says so.
    n_features_in_, feature_names_in_, transcript_, cost_
        As of `SecureFedYJ`.

    Examples
    --------
    >>> import numpy as np
    >>> from securefedyj import SecureRobustScaler
    >>> X = np.array([[20.0], [30.0], [40.0], [50.0], [900.0]])
    >>> fitted = SecureRobustScaler(bounds=(0, 1000), resolution=1).fit([X[:1], X[1:4], X[4:]])
    >>> fitted.center_, fitted.scale_
    (array([40.]), array([20.]))
    >>> fitted.transform(X).ravel()
    array([-1. , -0.5,  0. ,  0.5, 43. ])
    """

    quantile_range: tuple[float, float] = (25.0, 75.0)
    with_centering: bool = True
    with_scaling: bool = True
    levels_per_exchange: int = 4

    def _quantiles(self) -> list[str]:
        """The median and the ends of the range."""
        try:
            low, high = (Decimal(repr(float(q))) / 100 for q in self.quantile_range)
            in_order = 0 < low < high < 1
        except (TypeError, ValueError, ArithmeticError):
            in_order = False
        if not in_order:
            raise InputError(
                "SFY-FIT-021",
                f"quantile_range must be two percentages, 0 < q_min < q_max < 100, got "
                f"{self.quantile_range!r}",
            )
        return [as_quantile(q) for q in (Decimal("0.5"), low, high)]

    def _methods(self) -> Methods:
        three = tuple(sorted(set(self._quantiles()), key=Decimal))
        return {"robust" if len(three) == 3 else "quantiles": three}

    def _learn(self, features: Index) -> None:
        median, low, high = self._quantiles_of(self._quantiles(), features)
        scale = high - low
        self.center_ = median if self.with_centering else None
        self.scale_ = np.where(scale == 0, 1.0, scale) if self.with_scaling else None
        self._set_map(self.center_, self.scale_)
        agreement = self.transcript_.agreement
        domain, chosen = agreement.domain.take(features), np.array(agreement.resolution)[features]
        steps = (domain.upper - domain.lower) / STEPS
        self.converged_ = (chosen != "") | (scale >= _FEWEST_STEPS * steps)
        self._warn_not_converged(
            ~self.converged_ & ~np.isnan(scale),
            f"the scale is less than {_FEWEST_STEPS} steps of the grid to which quantiles are "
            f"rounded up, 2^-24 of the bounds. Agree on bounds closer to the values, or on a "
            "resolution",
        )

    def to_sklearn(self) -> RobustScaler:
        """A fitted `sklearn.preprocessing.RobustScaler`, which transforms as this estimator.

        Returns
        -------
        made : RobustScaler
        """
        check_is_fitted(self)
        made = RobustScaler(
            copy=self.copy,
            with_centering=self.with_centering,
            with_scaling=self.with_scaling,
            quantile_range=self.quantile_range,
        )
        return as_fitted(made, self, center_=self.center_, scale_=self.scale_)

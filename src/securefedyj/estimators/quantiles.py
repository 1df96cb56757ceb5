"""SecureQuantiles: quantiles of data that is split over silos."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import KBinsDiscretizer
from sklearn.utils.validation import check_is_fitted

from securefedyj.errors import InputError
from securefedyj.estimators.columns import check_choice
from securefedyj.estimators.export import as_fitted
from securefedyj.estimators.secure import SecureTransformer
from securefedyj.numerics.arrays import Array, Index
from securefedyj.protocol.methods import Methods, as_quantile

_USES = ("impute", "bins")
_MEDIAN = "0.5"
Quantile: TypeAlias = float | str | Decimal | Fraction


@dataclass(kw_only=True, eq=False, repr=False)
class SecureQuantiles(SecureTransformer):
    """Quantiles over all silos, under secret sharing: to fill in missing values, or for bins.

    The quantile q of n values is the one of rank max(1, ceil(q n)), computed in integers: NumPy's
    `inverted_cdf`, without its rounding of q n.

    Parameters
    ----------
    quantiles : float, str, Decimal or Fraction, or a sequence of these, default=(0.5,)
        Up to 100 decimal numbers from 0 to 1; of a float, the first 15 digits count.
    use : {"impute", "bins"}, default="impute"
        What `transform` does. "impute" replaces missing values by the median, which must be among
        the quantiles. "bins" replaces a value by the number of quantiles that are not above it, and
        keeps missing values.
    resolution : None, number, str or Decimal, or one of these per feature, default=None
        As of `SecureRobustScaler`: without one, and without `bounds`, quantiles are rounded up to
        multiples of 0.125.
    minimum_values : int, default=0
        As of `SecureRobustScaler`. A quantile that is refused is NaN.
    engine, levels_per_exchange, bounds, verified, cache_bytes, copy
        As of `SecureFedYJ`.
    submitted, digits, round
        As of `SecureFedYJ`.

    Attributes
    ----------
    quantiles_ : ndarray of shape (n_quantiles, n_features)
        The quantiles, in the order in which they were asked for. Exact for values on the grid,
        rounded up to it otherwise.
    n_features_in_, feature_names_in_, transcript_, cost_
        As of `SecureFedYJ`.

    Notes
    -----
    There is no `inverse_transform`: what was missing, and where in its bin a value was, is lost.

    Examples
    --------
    >>> import numpy as np
    >>> from securefedyj import SecureQuantiles
    >>> X = np.array([[20.0], [np.nan], [40.0], [50.0], [900.0]])
    >>> fitted = SecureQuantiles(bounds=(0, 1000), resolution=1).fit([X[:2], X[2:4], X[4:]])
    >>> fitted.quantiles_
    array([[40.]])
    >>> fitted.transform(X).ravel()
    array([ 20.,  40.,  40.,  50., 900.])
    """

    quantiles: Quantile | Sequence[Quantile] = field(default=(0.5,), kw_only=False)
    use: str = "impute"
    levels_per_exchange: int = 4

    def _quantiles(self) -> list[str]:
        """The quantiles as the agreement has them."""
        given: Any = self.quantiles
        given = [given] if np.ndim(given) == 0 else given
        return [as_quantile(f"{q:.15g}" if isinstance(q, float) else q) for q in given]

    def _methods(self) -> Methods:
        check_choice("SFY-FIT-022", "use", self.use, _USES)
        quantiles = self._quantiles()
        if self.use == "impute" and _MEDIAN not in quantiles:
            raise InputError(
                "SFY-FIT-023",
                "use='impute' needs the median: add 0.5 to the quantiles, or set use='bins'",
            )
        return {"quantiles": tuple(sorted(set(quantiles), key=Fraction))}

    def _learn(self, features: Index) -> None:
        quantiles = self._quantiles()
        self.quantiles_ = self._quantiles_of(quantiles, features)
        self._median = self.quantiles_[quantiles.index(_MEDIAN)] if self.use == "impute" else None

    def _map(self, x: Array, j: int) -> Array:
        missing = np.isnan(x)
        if self._median is not None:
            return np.where(missing, self._median[j], x)
        numbers = np.searchsorted(np.sort(self.quantiles_[:, j]), x, side="right")
        return np.where(missing, np.nan, numbers)

    def to_sklearn(self) -> SimpleImputer | KBinsDiscretizer:
        """A fitted object of scikit-learn, which transforms as this estimator.

        Returns
        -------
        made : SimpleImputer or KBinsDiscretizer
            With `use="impute"` and `use="bins"`. The latter has the agreed bounds as the ends of
            the first and last bins, and refuses missing values, as ever.

        Raises
        ------
        ValueError
            If a quantile was refused.
        """
        check_is_fitted(self)
        unknown = np.isnan(self.quantiles_).any(axis=0)
        if unknown.any():
            raise InputError(
                "SFY-FIT-024",
                f"scikit-learn needs all quantiles; some were refused of {self._named(unknown)}",
            )
        if self._median is not None:
            imputer = SimpleImputer(copy=self.copy, strategy="median")
            return as_fitted(imputer.fit(self._median[None]), self)
        assert self._agreed is not None
        lower, upper = self._agreed
        edges = np.empty(self.n_features_in_, dtype=object)
        edges[:] = list(np.sort(np.vstack([lower, self.quantiles_, upper]), axis=0).T)
        bins = len(self.quantiles_) + 1
        made = KBinsDiscretizer(bins, encode="ordinal", strategy="quantile")
        return as_fitted(made, self, bin_edges_=edges, n_bins_=np.full(len(edges), bins))

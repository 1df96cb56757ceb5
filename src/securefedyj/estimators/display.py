"""A picture of one transformed feature, in the manner of scikit-learn's Display classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import norm
from sklearn.utils.validation import check_is_fitted

from securefedyj.errors import InputError
from securefedyj.numerics.arrays import Array
from securefedyj.pooled import likelihood
from securefedyj.pooled.fit import fit_pooled

if TYPE_CHECKING:
    from securefedyj.estimators.base import YeoJohnsonTransformer

# From the palette of Okabe and Ito, whose colours every reader can distinguish.
_BLUE, _VERMILION, _GREY = "#0072B2", "#D55E00", "#8C8C8C"
_BINS, _POINTS, _CURVE = 30, 41, 200
# The likelihood is drawn up to this many standard errors on both sides of lambda.
_REACH = 4.0
# Twice the log-likelihood falls by 3.84 at the ends of a 95 % interval.
_LEVEL = -1.92


@dataclass(kw_only=True, eq=False, repr=False)
class PowerTransformDisplay:
    """One feature before and after its transformation, a Q-Q plot, and the likelihood of lambda.

    Use `from_estimator` or the `plot` of a fitted estimator to make one.

    Parameters
    ----------
    before, after : ndarray of shape (n_values,)
        The values, and what they are transformed to.
    lmbda : float
        The lambda of the transformation.
    lambdas, log_likelihoods : ndarray of shape (n_points,)
        Lambdas around it, and the log-likelihood of the values there, less its maximum among
        these. Empty where all values are equal: then there is no likelihood.
    name : str, default="feature"
        What the feature is called.

    Attributes
    ----------
    figure_ : matplotlib Figure
        The figure.
    axes_ : ndarray of matplotlib Axes of shape (4,)
        Before, after, Q-Q plot, log-likelihood.

    Examples
    --------
    >>> import numpy as np
    >>> from securefedyj import ExpYJ, PowerTransformDisplay
    >>> X = np.random.default_rng(0).lognormal(size=(200, 2))
    >>> display = PowerTransformDisplay.from_estimator(ExpYJ().fit(X), X, feature=1)
    >>> display.figure_.savefig("feature.png")  # doctest: +SKIP
    """

    before: Array
    after: Array
    lmbda: float
    lambdas: Array
    log_likelihoods: Array
    name: str = "feature"

    @classmethod
    def from_estimator(
        cls,
        estimator: YeoJohnsonTransformer,
        X: ArrayLike,
        *,
        feature: int | str = 0,
        axes: Any = None,
    ) -> Self:
        """Draw a feature of a fitted estimator.

        Parameters
        ----------
        estimator : ExpYJ, SecureFedYJ or FrozenYJ
            A fitted estimator.
        X : array-like of shape (n_samples, n_features)
            The data; missing values are left out.
        feature : int or str, default=0
            Which feature, by its place or its name.
        axes : array-like of four matplotlib Axes, default=None
            Where to draw; None makes a figure.

        Returns
        -------
        display : PowerTransformDisplay
        """
        check_is_fitted(estimator)
        j = _place(estimator, feature)
        values = estimator._validated(X)[:, j].astype(np.float64)
        values = values[~np.isnan(values)]
        return cls.from_values(
            values,
            estimator._map(values, j),
            float(estimator.lambdas_[j]),
            name=str(estimator.get_feature_names_out()[j]),
            method=estimator.method,
            axes=axes,
        )

    @classmethod
    def from_values(
        cls,
        before: ArrayLike,
        after: ArrayLike,
        lmbda: float,
        *,
        name: str = "feature",
        method: str = "yeo-johnson",
        axes: Any = None,
    ) -> Self:
        """Draw values, and what they were transformed to.

        Parameters
        ----------
        before, after : array-like of shape (n_values,)
            The values, none of them missing, and what they were transformed to.
        lmbda : float
            The lambda of the transformation.
        name : str, default="feature"
            What the feature is called.
        method : {"yeo-johnson", "box-cox"}, default="yeo-johnson"
            The method of the transformation.
        axes : array-like of four matplotlib Axes, default=None
            Where to draw; None makes a figure.

        Returns
        -------
        display : PowerTransformDisplay
        """
        values, transformed = np.asarray(before, np.float64), np.asarray(after, np.float64)
        if values.ndim != 1 or values.shape != transformed.shape or not len(values):
            raise InputError(
                "SFY-FIT-006",
                f"{name} has no values to draw, or not the same number before and after",
            )
        if not np.isfinite([values, transformed]).all():
            raise InputError(
                "SFY-FIT-007",
                f"transformed values of {name} are beyond float64 and cannot be drawn; use "
                "standardize=True, which stays in range",
            )
        # In units of the least value Box-Cox is Yeo-Johnson.
        fitted = values / values.min() - 1 if method == "box-cox" else values
        lambdas = _around(fitted, lmbda)
        heights = np.array([likelihood.log_likelihood(fitted, at) for at in lambdas])
        display = cls(
            before=values,
            after=transformed,
            lmbda=lmbda,
            lambdas=lambdas,
            log_likelihoods=heights - heights.max(initial=-np.inf),
            name=name,
        )
        return display.plot(axes=axes)

    def plot(self, *, axes: Any = None) -> Self:
        """Draw all four panels.

        Parameters
        ----------
        axes : array-like of four matplotlib Axes, default=None
            Where to draw; None makes a figure.

        Returns
        -------
        display : PowerTransformDisplay
        """
        if axes is None:
            try:
                import matplotlib.pyplot as plt
            except ImportError as error:
                raise ImportError(
                    'plot needs matplotlib: pip install "securefedyj[plot]"'
                ) from error
            _, axes = plt.subplots(2, 2, figsize=(9, 7), layout="constrained")
        self.axes_ = np.asarray(axes, dtype=object).ravel()
        if len(self.axes_) != 4:
            raise InputError(
                "SFY-FIT-008", f"axes must be four matplotlib Axes, got {len(self.axes_)}"
            )
        self.figure_ = self.axes_[0].figure
        self._plot_before(self.axes_[0])
        self._plot_after(self.axes_[1])
        self._plot_quantiles(self.axes_[2])
        self._plot_likelihood(self.axes_[3])
        return self

    def _plot_before(self, ax: Any) -> None:
        ax.hist(self.before, bins=_edges(self.before), color=_GREY)
        ax.set(title=f"{self.name}, before", xlabel="value", ylabel="number of values")

    def _plot_after(self, ax: Any) -> None:
        edges = _edges(self.after)
        ax.hist(self.after, bins=edges, color=_BLUE)
        mean, deviation = self.after.mean(), self.after.std()
        if deviation > 0:
            z = np.linspace(self.after.min(), self.after.max(), _CURVE)
            area = len(self.after) * (edges[1] - edges[0])
            ax.plot(z, area * norm.pdf(z, mean, deviation), color=_VERMILION, label="normal")
            ax.legend(frameon=False)
        ax.set(title=f"after, λ = {self.lmbda:.4g}", xlabel="transformed value")

    def _plot_quantiles(self, ax: Any) -> None:
        n = len(self.after)
        expected = norm.ppf((np.arange(n) + 0.5) / n)
        for values, color, label in (
            (self.before, _GREY, "before"),
            (self.after, _BLUE, "after"),
        ):
            if np.ptp(values) > 0:
                relative = values / np.abs(values).max()  # squares of 1e300 would overflow
                relative -= relative.min()  # or the mean of close values is not among them
                observed = np.sort((relative - relative.mean()) / relative.std())
                ax.plot(expected, observed, ".", color=color, markersize=4, label=label)
        ax.axline((0, 0), slope=1, color=_VERMILION, linewidth=1, label="normal")
        ax.legend(frameon=False)
        ax.set(title="Q-Q plot", xlabel="quantile of the normal", ylabel="standardized value")

    def _plot_likelihood(self, ax: Any) -> None:
        ax.set(title="log-likelihood of these values", xlabel="λ", ylabel="less its maximum")
        if not len(self.lambdas):
            ax.text(0.5, 0.5, "all values are equal", ha="center", transform=ax.transAxes)
            return
        ax.plot(self.lambdas, self.log_likelihoods, color=_BLUE)
        ax.axvline(self.lmbda, color=_VERMILION, linewidth=1, label=f"λ = {self.lmbda:.4g}")
        ax.axhline(_LEVEL, color=_GREY, linewidth=1, linestyle=":", label="95 % interval above")
        ax.legend(loc="lower center")


def _place(estimator: YeoJohnsonTransformer, feature: int | str) -> int:
    names = list(estimator.get_feature_names_out())
    if isinstance(feature, str):
        if feature not in names:
            raise InputError(
                "SFY-FIT-009", f"there is no feature {feature!r}; the first are {names[:5]}"
            )
        return names.index(feature)
    if not 0 <= feature < len(names):
        raise InputError(
            "SFY-FIT-005", f"feature must be from 0 to {len(names) - 1}, got {feature}"
        )
    return int(feature)


def _edges(values: Array) -> Array:
    """Edges of bins; values that are almost equal, such as 3.3 and the next float, share one."""
    least, greatest = values.min(), values.max()
    farthest = max(-least, greatest)
    if greatest - least < 2 * _BINS * np.spacing(farthest):
        half = max(farthest / 1000, 0.5)
        least, greatest = least - half, greatest + half
    return np.linspace(least, greatest, _BINS + 1)


def _around(values: Array, lmbda: float) -> Array:
    """Lambdas around the fitted one and the best for these values."""
    fit = fit_pooled(values[:, None], solver="newton", max_steps=40)
    if fit.constant[0]:
        return np.empty(0)
    best = float(fit.lmbda[0])
    reach = _REACH / np.sqrt(-likelihood.score_derivative(values, best))
    return np.linspace(min(best, lmbda) - reach, max(best, lmbda) + reach, _POINTS)

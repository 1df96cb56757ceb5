"""A fitted transformation as scikit-learn's own PowerTransformer."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from sklearn.preprocessing import PowerTransformer, StandardScaler

from securefedyj.errors import InputError
from securefedyj.numerics.arrays import Bools

if TYPE_CHECKING:
    from securefedyj.estimators.base import YeoJohnsonTransformer

OnError = Literal["raise", "drop", "identity"]


def power_transformer(fitted: YeoJohnsonTransformer, on_error: OnError) -> PowerTransformer:
    """A fitted PowerTransformer; called by `YeoJohnsonTransformer.to_sklearn`."""
    if on_error not in get_args(OnError):
        choices = ", ".join(map(repr, get_args(OnError)))
        raise InputError("SFY-FIT-014", f"on_error must be one of {choices}, got {on_error!r}")
    if fitted.standardize:
        unfit = ~fitted._standardization.told_by(fitted.mean_, fitted.var_)
    else:
        unfit = ~_in_range(fitted)
    if unfit.any():
        _tell(fitted, unfit, on_error)
    kept = ~unfit if on_error == "drop" else np.ones(len(unfit), dtype=bool)
    passed = (unfit & (on_error == "identity"))[kept]

    made = PowerTransformer(method="yeo-johnson", standardize=fitted.standardize, copy=fitted.copy)
    made.lambdas_ = np.where(passed, 1.0, fitted.lambdas_[kept])
    made.n_features_in_ = int(kept.sum())
    if hasattr(fitted, "feature_names_in_"):
        made.feature_names_in_ = fitted.feature_names_in_[kept]
    if fitted.standardize:
        scaler = StandardScaler(copy=False).set_output(transform="default")
        scaler.mean_ = np.where(passed, 0.0, fitted.mean_[kept])
        scaler.var_ = np.where(passed, 1.0, fitted.var_[kept])
        scaler.scale_ = np.where(scaler.var_ == 0, 1.0, np.sqrt(scaler.var_))
        scaler.n_samples_seen_ = fitted.n_samples_seen_[kept]
        scaler.n_features_in_ = made.n_features_in_
        made._scaler = scaler
    return made


def _in_range(fitted: YeoJohnsonTransformer) -> Bools:
    """Of which features all values of the fit are transformed to numbers of float64.

    One of n values is at most sqrt(n) standard deviations from their mean.
    """
    at = fitted._standardization
    u = np.where(at.center >= 0, fitted.lambdas_, 2 - fitted.lambdas_)
    with np.errstate(divide="ignore"):
        log_deviation = np.log(at.width) + u * np.log1p(np.abs(at.center))
        log_reach = log_deviation + np.log(fitted.n_samples_seen_) / 2
        log_largest = np.logaddexp(np.log(np.abs(fitted.mean_)), log_reach)
    in_range: Bools = log_largest <= np.log(np.finfo(np.float64).max)
    return in_range


def _tell(fitted: YeoJohnsonTransformer, unfit: Bools, on_error: OnError) -> None:
    lambdas = ", ".join(f"{lmbda:.6g}" for lmbda in fitted.lambdas_[unfit][:5])
    what = "mean and variance" if fitted.standardize else "transformed values"
    found = (
        f"{fitted._named(unfit)} cannot be handed to scikit-learn: at lambda = {lambdas} the "
        f"{what} do not fit float64."
    )
    if on_error == "raise" or (on_error == "drop" and unfit.all()):
        raise InputError(
            "SFY-FIT-015",
            f"{found} Use this estimator's own transform, or on_error='identity' to let the values "
            "of such features pass unchanged, or on_error='drop' to leave out those features where "
            "there are others.",
        )
    done = "left out" if on_error == "drop" else "passed on unchanged"
    warnings.warn(f"{found} Their values are {done}.", UserWarning, stacklevel=4)

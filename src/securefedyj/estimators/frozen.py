"""FrozenYJ: a transformation that was fitted elsewhere, for use among other estimators."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Self

from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted, validate_data

from securefedyj.estimators.base import YeoJohnsonTransformer
from securefedyj.protocol.agreement import Agreement
from securefedyj.tables.source import is_table


class FrozenYJ(YeoJohnsonTransformer):
    """A Yeo-Johnson transformation that is fitted, and stays so.

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
    ...     securefedyj.parameters.save(run.transcript_, f"{folder}/parameters.json")
    ...     frozen = securefedyj.load(f"{folder}/parameters.json")
    >>> frozen.fit(X[:5]).n_samples_seen_  # of the run
    array([90, 90])
    """

    agreement_: Agreement

    def __init__(self, standardize: bool = True, copy: bool = True) -> None:
        self.standardize = standardize
        self.copy = copy

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
        self : FrozenYJ
        """
        check_is_fitted(
            self, msg="This %(name)s has no fit: securefedyj.load('parameters.json') makes one."
        )
        if is_table(X):
            self._validated_source(X, reset=False)
        else:
            validate_data(self, X, reset=False, skip_check_array=True)
        return self

    def __sklearn_clone__(self) -> Self:
        return deepcopy(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # The checks of scikit-learn fit columns of their own; FrozenEstimator does the same.
        tags._skip_test = True
        return tags

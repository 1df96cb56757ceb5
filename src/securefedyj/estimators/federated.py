"""SecureFedYJ: Yeo-Johnson and Box-Cox transformations of data that is split over silos."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from securefedyj.estimators.base import YeoJohnsonTransformer
from securefedyj.estimators.secure import SecureTransformer
from securefedyj.numerics.arrays import Index
from securefedyj.numerics.resolution import steps_wanted
from securefedyj.protocol.agreement import MOST_BITS, MOST_STEPS
from securefedyj.protocol.methods import METHODS as SCALES
from securefedyj.protocol.methods import Methods


class SecureFedYJ(SecureTransformer, YeoJohnsonTransformer):
    """Yeo-Johnson or Box-Cox transformation of data of several silos, fitted under secret sharing.

    `fit` runs the real protocol with one party per silo, all on this machine. The result is the
    same, bit for bit, however the rows are split and whichever engine computes it.

    Parameters
    ----------
    engine : {"replicated", "mpyc", "clear"}, default="replicated"
        "replicated": three computing parties, private unless two of them collude. "mpyc":
        Shamir sharing among all silos, private unless half of them or more collude; slow. "clear":
        no secrecy at all, for tests and experiments.
    max_steps : int, default=40
        Number of steps of the exponential search, which halve the interval around lambda.
    levels_per_exchange : int, default=4
        How many levels share one exchange between the silos, at most 8; a level is one step of
        the search. More of them mean fewer rounds and more computation, never another result.
    bounds : None, (lower, upper) or one pair per feature, default=None
        Agreed bounds of the values, public; None means |x| <= 2^20. Tighter bounds make
        the fit cheaper, admit larger |lambda| and resolve smaller differences. With the default
        bounds, a feature whose values differ by less than 2^-60 counts as constant. So does one
        whose values have the same log(1 + |x|) in float64, such as 8 and the next float64; then
        `converged_` is false, unless they differ by 2^-53 (1 + |x|) at most. A value outside is an
        error at its silo.
    standardize : bool, default=True
        Give transformed features zero mean and unit variance over all silos.
    result_bits : int, default=44
        How precisely mean and variance are revealed, from 8 to 44: the mean to some
        2^-result_bits of the standard deviation, the variance to as much of itself. What is not
        revealed counts as the middle of its range, so that transformed values move by as little.
        Fewer bits reveal less about the values; together with `max_steps` they protect a feature
        with few distinct values.
    verified : bool, default=False
        Whether a result is accepted only with a proof that it is right for the sums of the silos,
        even if one party cheats. Here, in one process, none does; the result is the same. Engine
        "replicated" only.
    cache_bytes : int, default=None
        Memory for what is computed once per value; what does not fit is computed again in each
        exchange. None means a quarter of the machine's memory.
    copy : bool, default=True
        As of `ExpYJ`.
    method : {"yeo-johnson", "box-cox"}, default="yeo-johnson"
        "box-cox" is for values > 0, and needs bounds > 0: by default they are 2^-20 and 2^20. There
        is no limit to the upper one. Tighter bounds, above all a larger lower one, make the fit
        cheaper and admit larger |lambda|.
    minimum_values : int, default=0
        The fit ends with an error if a feature has fewer values over all silos.
    submitted : bool, default=False
        Whether silos submit how often each possible value of a feature occurs, once, and only the
        three computing parties are online from then on. The result is the same, and always
        verified. It needs `bounds` and a `resolution` or `digits`; features without are fitted live
        in the same run.
    resolution : None, number, str or Decimal, or one of these per feature, default=None
        The distance between possible values: lower bound + j resolution, such as 0.01 mmol/l.
    digits : None, int or one per feature, default=None
        How many significant digits possible values have, up to 9; with bounds that contain 0, the
        finest step is a `resolution` such as 0.001.
    round : bool or one per feature, default=False
        Count a value that is not possible as the one next to it; otherwise it is an error.

    Attributes
    ----------
    lambdas_, mean_, var_, n_samples_seen_, n_features_in_, feature_names_in_
        As of `ExpYJ`.
    at_bound_ : ndarray of bool of shape (n_features,)
        Where the optimum lies beyond the range of lambda that the bounds admit; lambda is the
        edge of that range.
    converged_ : ndarray of bool of shape (n_features,)
        Where lambda is certain to 1e-9 of max(|lambda|, 1/sqrt(|score'|/n)), or with fewer than 40
        steps to 2^(10 - max_steps) of it. Elsewhere the values vary too little for their bounds, or
        the steps did not suffice, and a warning says so. False for a constant feature if other
        values would look the same.
    transcript_ : Transcript
        Everything that was revealed; `transcript_.audit()` checks it.
    cost_ : Cost
        What the fit took: `rounds` of messages (None with engine "mpyc"), `bytes_sent` by each
        party to each of its peers, `bytes_received` by each party, `seconds_local` for the
        exact sums of all silos and `seconds_secure` for everything else. What is submitted counts
        as sent by a silo to the three, without seals and header, which take 2 kB.

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
        result_bits: int = MOST_BITS,
        verified: bool = False,
        cache_bytes: int | None = None,
        copy: bool = True,
        method: str = "yeo-johnson",
        minimum_values: int = 0,
        submitted: bool = False,
        resolution: Any = None,
        digits: Any = None,
        round: Any = False,
    ) -> None:
        self.engine = engine
        self.max_steps = max_steps
        self.levels_per_exchange = levels_per_exchange
        self.bounds = bounds
        self.standardize = standardize
        self.result_bits = result_bits
        self.verified = verified
        self.cache_bytes = cache_bytes
        self.copy = copy
        self.method = method
        self.minimum_values = minimum_values
        self.submitted = submitted
        self.resolution = resolution
        self.digits = digits
        self.round = round

    def _methods(self) -> Methods:
        self._check_method()
        return {self.method: ()}

    def _learn(self, features: Index) -> None:
        asked, result = self.transcript_.agreement.asked, self.transcript_.result
        assert result is not None
        places = np.flatnonzero(asked.domain.scale[asked.fitted] == SCALES[self.method])
        places = places[np.searchsorted(asked.column[asked.fitted[places]], features)]
        domain = asked.domain.take(asked.fitted[places])
        self._set_result(result.take(places), domain)
        if self.converged_.all():
            return
        resolved, narrowed = (part[places] for part in self.transcript_.certainty())
        constant = (self.var_ == 0) & (self.lambdas_ == 1)
        self._warn_not_converged(
            ~resolved & constant,
            "all values count as equal, but some that differ in their last digits would as well: "
            "their logarithm is the same float64. Subtract a constant",
        )
        self._warn_not_converged(
            ~resolved & ~constant,
            "the values vary too little for their bounds, so that lambda is not certain. Agree on "
            "bounds closer to the values, change the unit, or subtract a constant",
        )
        wanted = int(steps_wanted(domain).max())
        more = min(max(wanted, self.max_steps + 20), MOST_STEPS)
        self._warn_not_converged(
            resolved & ~narrowed,
            f"{self.max_steps} steps are too few to find lambda. Set max_steps to {more}, or "
            "change the unit",
        )

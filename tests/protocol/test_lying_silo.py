"""What verification does not prevent: made-up sums of a silo (security-details.md, section 5)."""

from __future__ import annotations

import json

import numpy as np
from scipy import stats

from securefedyj.numerics.sums import ArraySilo, Sums
from securefedyj.protocol.program import secure_fed_yj
from securefedyj.protocol.reveals import Verdict
from securefedyj.report.plausibility import implausible
from tests.federated_data import agreement
from tests.simulation import THREE, simulate

ROWS = dict(zip(THREE.silos, np.random.default_rng(8).lognormal(size=(3, 60, 1)), strict=True))
AGREED = agreement(
    1, parties=THREE.parties, committee=THREE.committee, engine="replicated", verified=True,
    max_steps=30, result_bits=24,
)  # fmt: skip


def silo_of(rows):
    return ArraySilo(rows, AGREED.domain, list(AGREED.features))


class Liar:
    """Has other rows at every lambda but one."""

    def __init__(self, truthful_at):
        self._true, self._false = silo_of(ROWS["ana"]), silo_of(ROWS["ana"] ** 0.5)
        self._truthful_at = truthful_at
        self.count = self._true.count
        self.lied = 0

    def phi_sum(self, features, limbs):
        return self._false.phi_sum(features, limbs)

    def sums(self, feature, lmbda, encoding, limbs):
        honest = lmbda == self._truthful_at
        self.lied += int(np.sum(~honest))
        both = (silo.sums(feature, lmbda, encoding, limbs) for silo in (self._true, self._false))
        return Sums(*(np.where(honest, true, false) for true, false in zip(*both, strict=True)))


def fit(ana):
    async def one(engine, name):
        return await secure_fed_yj(engine, ana if name == "ana" else silo_of(ROWS[name]), AGREED)

    transcripts = [transcript.with_result() for transcript in simulate(one)]
    assert len({json.dumps(list(transcript.to_lines())) for transcript in transcripts}) == 1
    return transcripts[0]


def test_a_lie_at_every_lambda_but_the_last_is_accepted_and_looks_plausible():
    honest = fit(silo_of(ROWS["ana"])).result.lmbda[0]
    (led_to,) = fit(Liar(np.nan)).result.lmbda  # where the lies lead; a silo can compute it
    liar = Liar(led_to)
    transcript = fit(liar)
    result = transcript.result
    assert liar.lied > 30
    assert result.lmbda[0] == led_to
    assert abs(led_to - honest) > 0.05
    assert [verdict.holds for verdict in transcript.all(Verdict)] == [True]
    assert transcript.audit().passed
    y = stats.yeojohnson(np.vstack(list(ROWS.values()))[:, 0], led_to)
    np.testing.assert_allclose([result.mean[0], result.var[0]], [y.mean(), y.var()], rtol=1e-6)
    assert not any(
        implausible(ROWS[name], transcript.agreement, result).any() for name in ("bob", "cem")
    )

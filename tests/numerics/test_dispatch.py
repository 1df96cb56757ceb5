"""What a federated fit finds has the same bits whatever the processor can do.

`transform` promises less, to the last two digits, and the pooled fit no more than to be near the
oracle: they use NumPy's own exp and log1p, whose last bits differ between processors.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from securefedyj import SecureFedYJ
from securefedyj.numerics import wide
from securefedyj.numerics.encoding import Domain, choose_encoding
from securefedyj.numerics.sums import ArraySilo
from tests import reduced_dispatch

ROOT = Path(__file__).parents[2]


def table() -> np.ndarray:
    """Both signs, one sign, far from 0, mostly 0, and values missing."""
    # Uniform numbers and products: other distributions and powers are made by logarithms.
    u = np.random.default_rng(10).random((400, 5))
    X = u * [8.0, 2.5, -5.0, 1.0, 60.0] - [4.0, 0.0, 0.0, 0.0, -1950.0]
    for _ in range(3):
        X[:, 1] *= X[:, 1]
    X[u[:, 3] < 0.9, 3] = 0.0
    X[::17, 2] = np.nan
    return X


def federated() -> list[str]:
    """The transcript of a fit, and sums at lambdas of all kinds, as text that shows every bit."""
    X = table()
    fitted = SecureFedYJ(engine="clear").fit(np.array_split(X, 3))
    shown = [json.dumps(line) for line in fitted.transcript_.to_lines()]
    domain = Domain.from_bounds((-2e3, 3e3), X.shape[1])
    silo = ArraySilo(X, domain, list("abcde"))
    feature = np.arange(X.shape[1])
    for lmbda in (-20.0, -1.0, -0.5, -1e-3, 0.0, 0.03, 0.7, 1.0, 2.0, 2.5, 3.0, 20.0):
        lambdas = np.full(len(feature), lmbda)
        encoding = choose_encoding(domain, silo.count, lambdas)
        limbs = int(encoding.limbs.max())
        for part in (*silo.sums(feature, lambdas, encoding, limbs), silo.phi_sum(feature, limbs)):
            shown.append(f"{lmbda}: {list(map(hex, wide.to_ints(part)))}")
    return shown


def transformed() -> list[list[float]]:
    """What `transform` makes of columns without missing values, by the same parameters."""
    X = table()[:, [0, 1, 3]]
    return SecureFedYJ(engine="clear").fit([X]).transform(X).T.tolist()


@pytest.fixture(scope="module")
def elsewhere() -> dict:
    """What this module computes in a process with the other dispatch: reduced, or full."""
    if reduced_dispatch.DISABLE in os.environ:
        environment = reduced_dispatch.full_environment()
    elif reduced_dispatch.dispatched():
        environment = reduced_dispatch.environment()
    else:
        pytest.skip("NumPy has nothing to choose on this processor")
    path = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
    run = subprocess.run(
        [sys.executable, "-m", "tests.numerics.test_dispatch"],
        cwd=ROOT,
        env={**environment, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    assert "ImportWarning" not in run.stderr
    found = json.loads(run.stdout)
    assert found["dispatched"] != reduced_dispatch.dispatched()
    return found


def test_federated_bits_are_the_same_on_every_processor(elsewhere: dict) -> None:
    assert elsewhere["federated"] == federated()


# The estimator warns by an estimate of its own, which is no part of the result.
@pytest.mark.filterwarnings("ignore:.* vary too little:UserWarning")
def test_federated_fit_computes_without_numpys_transcendental_functions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also where both dispatches happen to agree: other functions change no bit of the result."""
    expected = federated()
    for name in ("exp", "exp2", "expm1", "log", "log2", "log1p", "power", "tanh", "sinh"):
        monkeypatch.setattr(np, name, lambda x, *_, **__: np.full_like(x, 0.5, dtype=float))
    assert federated() == expected


def test_transform_is_the_same_to_the_last_two_digits_on_every_processor(elsewhere: dict) -> None:
    np.testing.assert_allclose(elsewhere["transformed"], transformed(), rtol=1e-14, atol=1e-14)


if __name__ == "__main__":
    here = {
        "dispatched": reduced_dispatch.dispatched(),
        "federated": federated(),
        "transformed": transformed(),
    }
    print(json.dumps(here))

"""Masked arrays: what the mask hides is missing, wherever a table is taken."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
import pytest

from securefedyj import ExpYJ, SecureFedYJ, parameters
from securefedyj.numerics.passes import read
from securefedyj.tables.source import as_array, as_source


def masked_table(dtype: Any) -> tuple[Any, Any]:
    """A table with outliers below the mask, and the same with NaN there."""
    values = (100 * np.random.default_rng(3).lognormal(size=(60, 2))).astype(dtype)
    mask = np.zeros(values.shape, dtype=bool)
    mask[::7, 0] = mask[3, 1] = True
    values[mask] = 30_000
    missing = values.astype(dtype if np.issubdtype(dtype, np.floating) else np.float64)
    missing[mask] = np.nan
    return np.ma.array(values, mask=mask), missing


DTYPES = pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])


@DTYPES
def test_a_pooled_fit(dtype):
    masked, missing = masked_table(dtype)
    fitted, expected = ExpYJ().fit(masked), ExpYJ().fit(missing)
    assert fitted.lambdas_.tolist() == expected.lambdas_.tolist()
    assert fitted.n_samples_seen_.tolist() == [51, 59]
    Z = fitted.transform(masked)
    assert not isinstance(Z, np.ma.MaskedArray)
    np.testing.assert_array_equal(Z, expected.transform(missing), strict=True)
    hidden = np.ma.array(Z, mask=np.isnan(Z) | (np.arange(60) == 5)[:, None])
    back = fitted.inverse_transform(hidden)
    np.testing.assert_array_equal(np.isnan(back), hidden.mask)
    assert fitted.log_likelihood(masked).tolist() == fitted.log_likelihood(missing).tolist()


@DTYPES
def test_a_federated_fit_and_what_is_loaded_of_it(dtype, tmp_path):
    masked, missing = masked_table(dtype)
    fits = [SecureFedYJ(engine="clear").fit([X[:20], X[20:40], X[40:]]) for X in (masked, missing)]
    assert fits[0].transcript_.to_text() == fits[1].transcript_.to_text()
    parameters.save(fits[0].transcript_, tmp_path / "parameters.json")
    frozen = parameters.load(tmp_path / "parameters.json")
    for fitted in (fits[0], frozen):
        np.testing.assert_array_equal(fitted.transform(masked), fits[1].transform(missing))


def test_rows_that_are_masked_one_by_one():
    masked, missing = masked_table(np.float64)
    assert ExpYJ().fit(list(masked)).lambdas_.tolist() == ExpYJ().fit(missing).lambdas_.tolist()


@pytest.mark.parametrize("kind", ["array", "blocks", "dask"])
def test_sources(kind):
    masked, missing = masked_table(np.float64)

    class Blocks:
        names, rows = ("0", "1"), 60

        def blocks(self, columns):
            yield masked[:30, list(columns)]
            yield masked[30:, list(columns)]

    if kind == "dask":
        fitted = ExpYJ().fit(da.from_array(masked, chunks=(20, 1)))
        assert fitted.lambdas_.tolist() == ExpYJ().fit(missing).lambdas_.tolist()
        return
    source = as_source(masked) if kind == "array" else Blocks()
    np.testing.assert_array_equal(as_array(source), missing)
    np.testing.assert_array_equal(np.concatenate(list(read(source, [1, 0]))), missing[:, [1, 0]])

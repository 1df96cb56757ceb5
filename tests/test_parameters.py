"""parameters.json: what is loaded transforms as the run did, and nothing else is loaded."""

from __future__ import annotations

import copy
import hashlib
import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import securefedyj
from securefedyj import SecureFedYJ, parameters
from securefedyj.parameters import Parameters, ParametersError
from securefedyj.protocol.transcript import Transcript


def fitted_on_awkward_features(**options) -> tuple[SecureFedYJ, pd.DataFrame]:
    """Ordinary, negative, nearly constant with a far optimum, constant, and empty features."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "skewed": rng.lognormal(size=60),
            "negative": -rng.lognormal(size=60) * 100,
            "rare": (np.arange(60) == 7).astype(float),
            "constant": np.full(60, 3.5),
            "empty": np.full(60, np.nan),
            "größe <b>": rng.normal(size=60),
        }
    )
    X.iloc[::7, 0] = np.nan
    fitted = SecureFedYJ(engine="clear", **options).fit([X[:20], X[20:30], X[30:]])
    return fitted, X


@pytest.fixture(scope="module", params=[True, False], ids=["standardized", "plain"])
def run(request):
    return fitted_on_awkward_features(standardize=request.param)


@pytest.fixture(scope="module")
def right():
    fitted, _ = fitted_on_awkward_features(max_steps=6)
    return Parameters.of(fitted.transcript_).to_json()


@pytest.fixture
def data(right):
    """The content of a right file, to be spoiled."""
    return copy.deepcopy(right)


def bits(values: np.ndarray) -> bytes:
    return np.ascontiguousarray(values).tobytes()


def test_loaded_transformer_gives_the_same_bits(run, tmp_path):
    fitted, X = run
    path = tmp_path / "parameters.json"
    parameters.save(fitted.transcript_, path, standardize=fitted.standardize)
    loaded = securefedyj.load(path)
    Z = fitted.transform(X)
    assert bits(loaded.transform(X)) == bits(Z)
    assert bits(loaded.inverse_transform(Z)) == bits(fitted.inverse_transform(Z))
    for name in ("lambdas_", "mean_", "var_", "at_bound_", "n_samples_seen_"):
        assert bits(getattr(loaded, name)) == bits(getattr(fitted, name))
    assert list(loaded.feature_names_in_) == list(X.columns)


def test_loaded_transformer_goes_to_scikit_learn_as_the_fitted_one(tmp_path):
    X = pd.DataFrame(np.random.default_rng(1).lognormal(size=(50, 2)), columns=["a", "b"])
    fitted = SecureFedYJ(engine="clear").fit([X])
    parameters.save(fitted.transcript_, tmp_path / "p.json")
    ours, theirs = securefedyj.load(tmp_path / "p.json").to_sklearn(), fitted.to_sklearn()
    assert bits(ours.transform(X)) == bits(theirs.transform(X))
    Z = theirs.transform(X)
    assert bits(ours.inverse_transform(Z)) == bits(theirs.inverse_transform(Z))


def test_run_on_arrays_is_loaded_without_names(tmp_path):
    X = np.random.default_rng(1).lognormal(size=(50, 2))
    fitted = SecureFedYJ(engine="clear").fit([X])
    parameters.save(fitted.transcript_, tmp_path / "p.json")
    loaded = securefedyj.load(tmp_path / "p.json")
    assert not hasattr(loaded, "feature_names_in_")
    assert bits(loaded.transform(X)) == bits(fitted.transform(X))


def test_digest_is_that_of_the_transcript_file(run, tmp_path):
    transcript = run[0].transcript_
    transcript.write(tmp_path / "transcript.jsonl")
    digest = hashlib.sha256((tmp_path / "transcript.jsonl").read_bytes()).hexdigest()
    assert Parameters.of(transcript).transcript_sha256 == digest


def test_run_without_result_is_not_saved(run, tmp_path):
    transcript = copy.copy(run[0].transcript_)
    transcript.result = None
    with pytest.raises(ValueError, match="is not complete"):
        parameters.save(transcript, tmp_path / "p.json")
    assert list(tmp_path.iterdir()) == []


def test_failed_write_leaves_the_old_file(run, tmp_path, monkeypatch):
    path = tmp_path / "p.json"
    path.write_text("old")

    def full(handle: int) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        parameters.save(run[0].transcript_, path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_file_keeps_the_permissions_of_the_old_one(run, tmp_path):
    path = tmp_path / "p.json"
    path.touch()
    path.chmod(0o640)
    parameters.save(run[0].transcript_, path)
    assert path.stat().st_mode & 0o777 == 0o640


def _in_feature(name, value):
    def change(data):
        data["features"][0][name] = value

    return change


WRONG = {
    "another version": (lambda d: d.update(version=5), "version 5, and this release reads"),
    "another format": (lambda d: d.update(format="x"), "not a parameters.json of securefedyj"),
    "missing field": (lambda d: d.pop("standardize"), "the file lacks 'standardize'"),
    "unknown field": (lambda d: d.update(extra=1), "the file has an unknown field 'extra'"),
    "other protocol": (lambda d: d["agreement"].update(version=99), "protocol version 99"),
    "no engine": (lambda d: d["agreement"].pop("engine"), "the agreement lacks 'engine'"),
    "more in it": (
        lambda d: d["agreement"].update(more=1),
        "the agreement has an unknown field 'more'",
    ),
    "feature lost": (lambda d: d["features"].pop(), "a list of 6 objects"),
    "no width": (lambda d: d["features"][0].pop("width"), "feature 'skewed' lacks 'width'"),
    "swapped": (lambda d: d["features"].reverse(), "is called"),
    "text for a number": (_in_feature("lambda", "1"), "lambda must be a number, not '1'"),
    "too large": (_in_feature("var", 10**400), "feature 'skewed': var number out of range"),
    "infinite": (_in_feature("mean", float("inf")), "mean must be a number <= 1.79"),
    "flag": (_in_feature("constant", 1), "constant must be true or false"),
    "negative n": (_in_feature("n", -1), "n must be a whole number >= 0, not -1"),
    "negative width": (_in_feature("width", -1.0), "width must be a number >= 0.0, not -1.0"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_file_is_refused_with_a_reason(case, data):
    change, reason = WRONG[case]
    change(data)
    with pytest.raises(ParametersError, match=reason):
        Parameters.from_json(data)


def as_before(data, version):
    """What an earlier release wrote: each version has a few fields more than the one before."""
    for name in ("result_bits", "helpers", "verified"):
        del data["agreement"][name]
    data["agreement"]["version"] = version
    data["version"] = version
    if version == 1:
        for feature in data["features"]:
            del feature["center_low"], feature["converged"]
    return data


@pytest.mark.parametrize("version", [1, 2])
def test_files_of_earlier_versions_are_read(data, right, version):
    found, now = Parameters.from_json(as_before(data, version)), Parameters.from_json(right)
    assert found.agreement == replace(now.agreement, domain=found.agreement.domain)
    assert found.agreement.result_bits == 44
    for ours, theirs in zip(found.result[:4], now.result[:4], strict=True):
        assert bits(ours) == bits(theirs)
    low = found.result.standardization.center_low
    assert bits(low) == bits(now.result.standardization.center_low * (version > 1))
    assert found.to_json()["version"] == 3


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("field", ["result_bits", "helpers", "verified"])
def test_files_of_earlier_versions_have_no_later_fields(data, version, field):
    whole = as_before(data, version)
    whole["agreement"][field] = {"result_bits": 24, "helpers": [], "verified": False}[field]
    with pytest.raises(ParametersError):
        Parameters.from_json(whole)


def test_a_file_of_protocol_version_3_is_read_and_transforms():
    """What release 0.2 left of a verified run."""
    folder = Path(__file__).parent / "data" / "version_3"
    content = json.loads((folder / "parameters.json").read_text())
    loaded = securefedyj.load(folder / "parameters.json")
    assert (loaded.agreement_.version, loaded.agreement_.verified) == (3, True)
    assert Parameters.from_json(content).to_json() == content
    transcript = Transcript.read(folder / "transcript.jsonl")
    assert Parameters.of(transcript).to_json() == content
    X = pd.DataFrame({"lactate": [0.5, 3.0], "change": [-2.0, 0.0]})
    Y = np.column_stack(
        [stats.yeojohnson(X[name], lmbda) for name, lmbda in zip(X, loaded.lambdas_, strict=True)]
    )
    expected = (Y - loaded.mean_) / np.sqrt(loaded.var_)
    np.testing.assert_allclose(loaded.transform(X), expected, rtol=1e-9)


@pytest.mark.parametrize("result_bits", [8, 24, 44])
def test_the_precision_stands_in_the_file_and_in_what_is_loaded(tmp_path, result_bits):
    fitted, X = fitted_on_awkward_features(max_steps=30, result_bits=result_bits)
    parameters.save(fitted.transcript_, tmp_path / "p.json")
    stored = json.loads((tmp_path / "p.json").read_text())["agreement"]
    assert (stored["result_bits"], stored["max_steps"]) == (result_bits, 30)
    loaded = securefedyj.load(tmp_path / "p.json")
    assert loaded.agreement_.to_bytes() == fitted.transcript_.agreement.to_bytes()
    assert bits(loaded.transform(X)) == bits(fitted.transform(X))


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"[1]", b"{", b"a,b\n1,2\n", b"[" * 100000])
def test_file_that_is_something_else_is_named(content, tmp_path):
    path = tmp_path / "p.json"
    path.write_bytes(content)
    with pytest.raises(ParametersError, match=r"p\.json: this is not"):
        securefedyj.load(path)


def test_folder_of_a_run_is_told_from_its_file(tmp_path):
    with pytest.raises(ParametersError, match=r"a folder; give its parameters\.json"):
        securefedyj.load(tmp_path)


def test_nan_in_the_file_is_refused(data, tmp_path):
    data["features"][0]["mean"] = float("nan")
    (tmp_path / "p.json").write_text(json.dumps(data))
    with pytest.raises(ParametersError, match="NaN is not a number"):
        securefedyj.load(tmp_path / "p.json")

"""What a run leaves: whole, never in the place of another result, and private where it must be."""

from __future__ import annotations

import dataclasses
import os
import stat
from pathlib import Path

import pytest

from securefedyj import parameters
from securefedyj.protocol.cost import Cost
from securefedyj.report import page
from securefedyj.report.results import ResultError, write_results
from tests.refusals import refused
from tests.report.runs import data, fit

COST = Cost.of_all(3, {"a": {"b": 10}, "b": {"a": 10}}, 0.1, 0.2)


@pytest.fixture(scope="module")
def run():
    return fit(data()[:, :2], ("x", "y"), ("a", "b"))


@pytest.fixture(scope="module")
def other():
    return fit(data()[:, :2] + 1, ("x", "y"), ("a", "b"))


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_result_is_what_save_and_the_transcript_write(run, tmp_path):
    (tmp_path / "a").mkdir()
    paths = write_results(run, None, "a", tmp_path / "a")
    assert list(paths) == ["parameters", "transcript", "provenance"]
    assert all(path.exists() for path in paths.values())
    parameters.save(run, tmp_path / "p.json")
    run.write(tmp_path / "t.jsonl")
    assert paths["parameters"].read_bytes() == (tmp_path / "p.json").read_bytes()
    assert paths["transcript"].read_bytes() == (tmp_path / "t.jsonl").read_bytes()


def test_same_result_again_is_fine_and_touches_nothing(run, tmp_path):
    write_results(run, COST, "a", tmp_path)
    before = {path: path.stat().st_ino for path in tmp_path.iterdir()}
    write_results(run, None, "a", tmp_path)
    assert {path: path.stat().st_ino for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("missing", ["transcript.jsonl", "parameters.json", ""])
def test_another_result_is_never_replaced(missing, run, other, tmp_path):
    write_results(run, None, "a", tmp_path)
    if missing:
        (tmp_path / missing).unlink()
    before = contents(tmp_path)
    with refused("SFY-REP-009", ResultError):
        write_results(other, COST, "a", tmp_path)
    assert contents(tmp_path) == before


def test_one_changed_bit_is_another_result(run, tmp_path):
    write_results(run, None, "a", tmp_path)
    before = contents(tmp_path)
    mean = run.result.mean.copy()
    mean[0] += 2.0**-50
    changed = dataclasses.replace(run, result=run.result._replace(mean=mean))
    with refused("SFY-REP-009", ResultError):
        write_results(changed, None, "a", tmp_path)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("fails_at", [1, 2])
def test_full_disk_leaves_no_part_of_a_result(fails_at, run, tmp_path, monkeypatch):
    write, written = Path.write_bytes, []

    def full(path: Path, content: bytes) -> int:
        written.append(path)
        if len(written) == fails_at:
            write(path, content[:10])
            raise OSError(28, "No space left on device")
        return write(path, content)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space left on device") as caught:
        write_results(run, None, "a", tmp_path)
    assert Path(caught.value.filename).parent == tmp_path
    assert contents(tmp_path) == {}


def test_parameters_come_after_the_transcript(run, tmp_path, monkeypatch):
    replace, order = os.replace, []

    def note(source: Path, target: Path) -> None:
        order.append(Path(target).name)
        replace(source, target)

    monkeypatch.setattr(os, "replace", note)
    write_results(run, None, "a", tmp_path)
    assert order == ["transcript.jsonl", "parameters.json", "provenance.json"]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_what_is_the_partys_own_is_readable_by_its_owner_alone(run, tmp_path):
    """Also where a file was there that others could read."""
    (tmp_path / "cost.json").touch(0o644)
    (tmp_path / "any").touch()
    write_results(run, COST, "a", tmp_path, Path("rows.csv"))
    assert mode(tmp_path / "cost.json") == mode(tmp_path / "provenance.json") == 0o600
    for name in ("parameters.json", "transcript.jsonl"):
        assert mode(tmp_path / name) == mode(tmp_path / "any")


def test_report_with_rows_is_readable_by_its_owner_alone(run, tmp_path):
    path = tmp_path / "report.html"
    path.write_text("an older one")
    path.chmod(0o644)
    page.write(path, run, data()[:20, :2])
    assert mode(path) == 0o600
    page.write(tmp_path / "new.html", run, data()[:20, :2])
    assert mode(tmp_path / "new.html") == 0o600


def test_report_without_rows_is_like_any_file(run, tmp_path):
    (tmp_path / "any").touch()
    page.write(tmp_path / "report.html", run)
    assert mode(tmp_path / "report.html") == mode(tmp_path / "any")

"""A silo outside the committee submits at the desk, and fetches the result there later."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from securefedyj.network import local
from securefedyj.network.consortium import Feature
from tests.cli.test_desk import Person, desk, person
from tests.patience import PATIENCE, wait_until

__all__ = ["desk", "person"]  # fixtures
MEMBERS = ("east", "south", "west")
COMMAND = ("-m", "securefedyj")


@pytest.mark.processes
def test_a_silo_submits_and_fetches_the_result(person: Person, tmp_path):
    rows = np.rint(np.random.default_rng(4).normal(140, 4, size=(120, 1)))
    silos = ("north", *MEMBERS)
    tables = {name: rows[30 * j :][:30] for j, name in enumerate(silos)}
    features = [Feature("sodium", 100.0, 180.0, resolution="1")]
    consortium = local.prepare(
        tmp_path, tables, features, name="salt", committee=MEMBERS, submitted=True, max_steps=8
    )
    chosen = {"consortium": "consortium.toml", "data": "north.csv", "certificate": "north.pem",
              "key": "north.key", "output": "desk", "ledger": "ledger.jsonl"}  # fmt: skip
    person.post("check", **{name: str(tmp_path / file) for name, file in chosen.items()})
    page = person.watch()
    assert 'value="submit"' in page
    assert 'value="result"' in page
    assert 'value="join"' not in page
    assert "Submitted: each silo sends one file" in page
    assert "sent the counts once" in page
    assert person.post("start", what="join").headers["Location"] == f"/{person.site.token}/"

    with local.Processes(tmp_path) as running:
        file = str(tmp_path / "consortium.toml")
        running.start("hub", *COMMAND, "hub", file, "--key", str(tmp_path / "hub.key"),
                      "--certificate", str(tmp_path / "hub.pem"), "--mailbox",
                      str(tmp_path / "mail"), "--listen",
                      consortium.agreed_hub().address)  # fmt: skip
        wait_until(lambda: " listening " in running.log("hub"), lambda: running.log("hub"))
        person.post("start", what="submit")
        page = person.watch()
        assert "Done." in page
        assert "The hub has it." in page
        assert (tmp_path / "desk" / "north.submission").exists()
        for name in MEMBERS:
            own = tmp_path / name
            running.start(f"{name}.submit", *COMMAND, "submit", file, "--key", f"{own}.key",
                          "--certificate", f"{own}.pem", "--data", f"{own}.csv",
                          "--ledger", f"{own}.ledger.jsonl")  # fmt: skip
        for name in MEMBERS:
            assert running.running.pop(f"{name}.submit").wait(PATIENCE) == 0, running.log(
                f"{name}.submit"
            )
            (tmp_path / f"{name}.csv").unlink()  # start_party would give it
        for name in MEMBERS:
            running.start_party(name)
        person.post("start", what="result")
        codes = running.wait(PATIENCE)
        assert set(codes.values()) == {0}, [running.log(name) for name in MEMBERS]
        page = person.watch()
    assert "Done." in page
    assert re.search(r'href="report"', page)
    # It had no connection to another party.
    assert json.loads((tmp_path / "desk" / "provenance.json").read_text())["connections"] == ""
    report = person.get("report").text
    assert "sent the counts once" in report
    assert "computed sums" not in report
    results = [tmp_path / folder / "parameters.json" for folder in ("desk", "east")]
    assert results[0].read_bytes() == results[1].read_bytes()

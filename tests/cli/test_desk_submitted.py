"""A silo outside the committee submits at the desk."""

from __future__ import annotations

import numpy as np
import pytest

from securefedyj.network import local
from securefedyj.network.consortium import Feature
from tests.cli.test_desk import Person, person
from tests.patience import wait_until

__all__ = ["person"]  # a fixture
MEMBERS = ("east", "south", "west")
COMMAND = ("-m", "securefedyj.cli")


@pytest.mark.processes
def test_a_silo_submits(person: Person, tmp_path):
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

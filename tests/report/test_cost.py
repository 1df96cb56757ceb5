"""The table of costs: from a run, from files of either form, and from a forecast."""

from __future__ import annotations

import json

import pytest

from securefedyj.errors import InputError
from securefedyj.network.forecast import Forecast
from securefedyj.protocol.cost import Cost
from securefedyj.report.results import CostColumn, read_cost, read_plan
from tests.refusals import refused


def test_cost_stands_beside_the_plan(page, tmp_path):
    table = page[page.index("What it cost") :]
    assert table.index("<th>plan</th>") < table.index("<th>this run</th>")
    assert "<td>sent by the party that sends most</td><td>2.0 kB</td><td>1.0 kB</td>" in table
    assert "<td>sent by &lt;i&gt;</td><td>–</td><td>1.0 kB</td>" in table
    path = tmp_path / "cost.json"
    sent = {"a": {"b": 1, "c": 2}, "b": {"a": 7}}
    run = {"rounds": 3, "bytes_sent": sent, "seconds_local": 1.0, "seconds_secure": 2.0}
    path.write_text(json.dumps(run))
    parts = {"sums of own rows": 1.0, "secure computation": 2.0}
    assert read_cost(path) == CostColumn(3, {"a": 3, "b": 7}, 7, 3.0, {}, parts)
    run = {"party": "a", "bytes_sent": 5, "bytes_received": 6, "seconds_waiting": 4}
    path.write_text(json.dumps(run))
    parts = {"waiting for others": 4.0}
    assert read_cost(path) == CostColumn(None, {"a": 5}, None, 4.0, {"a": 6}, parts)
    path.write_text(json.dumps({"bytes_sent": 5}))
    assert read_cost(path) == CostColumn(None, {"this party": 5}, None, None)
    path.write_text('{"levels": [{"levels": 4, "rounds": 9, "megabytes": 0.5, "seconds": 2}]}')
    assert read_plan(path, 4) == CostColumn(9, {}, 500_000, 2.0)
    with refused("SFY-REP-001"):
        read_plan(path, 3)


@pytest.mark.parametrize("content", ["[]", "{}", "x", '{"bytes_sent": "x"}', '{"levels": [3]}'])
def test_file_that_is_no_cost_is_named(content, tmp_path):
    (tmp_path / "c.json").write_text(content)
    readers = {"SFY-REP-003": read_cost, "SFY-REP-004": lambda path: read_plan(path, 4)}
    for code, read in readers.items():
        with refused("SFY-REP-005" if content == "x" else code) as error:
            read(tmp_path / "c.json")
        assert "c.json" in str(error.value)


@pytest.mark.parametrize(
    ("content", "wrong"),
    [
        ('{"bytes_sent": 5, "seconds": NaN}', "NaN"),
        ('{"bytes_sent": 5, "bytes_sent": 6}', "'bytes_sent'"),
        ('{"bytes_sent": true}', "bytes_sent"),
        ('{"bytes_sent": {"a": {"b": "1"}}}', "bytes_sent"),
        ('{"bytes_sent": 5, "rounds": "many"}', "rounds"),
        ('{"bytes_sent": 5, "rounds": true}', "rounds"),
        ('{"bytes_sent": 5, "seconds": "1"}', "seconds"),
        ('{"bytes_sent": 5, "seconds_local": null}', "seconds_local"),
        ('{"bytes_sent": 5, "seconds": 1e999}', "seconds"),
        (f'{{"bytes_sent": 5, "seconds": 1{"0" * 400}}}', "seconds"),
        ('{"bytes_sent": 1e999}', "bytes_sent"),
        ('{"bytes_sent": 9223372036854775808}', "bytes_sent"),
        ('{"bytes_sent": -5}', "bytes_sent"),
    ],
)
def test_cost_is_read_strictly(content, wrong, tmp_path):
    (tmp_path / "c.json").write_text(content)
    with pytest.raises(InputError) as error:
        read_cost(tmp_path / "c.json")
    assert error.value.code in ("SFY-REP-003", "SFY-REP-005")
    assert wrong in str(error.value).rpartition("c.json")[2]


def test_cost_of_a_run_is_the_one_that_it_writes(tmp_path):
    cost = Cost(3, {"a": {"b": 1, "c": 2}}, 1.0, 2.0, 4.0, {"a": 6})
    (tmp_path / "cost.json").write_text(json.dumps(cost.to_json("a")))
    parts = {"sums of own rows": 1.0, "secure computation": 2.0, "waiting for others": 4.0}
    assert read_cost(tmp_path / "cost.json") == CostColumn(3, {"a": 3}, None, 7.0, {"a": 6}, parts)


def test_forecast_is_the_plan_that_it_prints(tmp_path):
    forecast = Forecast(4, 9, 0.5, 2.0, computing=1.0, relaying=0.5)
    (tmp_path / "plan.json").write_text(json.dumps({"levels": [forecast._asdict()]}))
    assert CostColumn.of_forecast(forecast) == read_plan(tmp_path / "plan.json", 4)

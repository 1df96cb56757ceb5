"""The table of costs: from a run, from files of either form, and from a forecast."""

from __future__ import annotations

import json

import pytest

from securefedyj.network.forecast import Forecast
from securefedyj.protocol.cost import Cost
from securefedyj.report.cost import Column, of_forecast, read_cost, read_plan


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
    assert read_cost(path) == Column(3, {"a": 3, "b": 7}, 7, 3.0, {}, parts)
    run = {"party": "a", "bytes_sent": 5, "bytes_received": 6, "seconds_waiting": 4}
    path.write_text(json.dumps(run))
    parts = {"waiting for others": 4.0}
    assert read_cost(path) == Column(None, {"a": 5}, None, 4.0, {"a": 6}, parts)
    path.write_text(json.dumps({"bytes_sent": 5}))
    assert read_cost(path) == Column(None, {"this party": 5}, None, None)
    path.write_text('{"levels": [{"levels": 4, "rounds": 9, "megabytes": 0.5, "seconds": 2}]}')
    assert read_plan(path, 4) == Column(9, {}, 500_000, 2.0)
    with pytest.raises(ValueError, match="does not say what 3 levels cost"):
        read_plan(path, 3)


@pytest.mark.parametrize("content", ["[]", "{}", "x", '{"bytes_sent": "x"}', '{"levels": [3]}'])
def test_file_that_is_no_cost_is_named(content, tmp_path):
    (tmp_path / "c.json").write_text(content)
    for read in (read_cost, lambda path: read_plan(path, 4)):
        with pytest.raises(ValueError, match=r"c\.json: this"):
            read(tmp_path / "c.json")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ('{"bytes_sent": 5, "seconds": NaN}', "NaN is not a number that JSON knows"),
        ('{"bytes_sent": 5, "bytes_sent": 6}', "'bytes_sent' is there more than once"),
        ('{"bytes_sent": true}', "not the cost of a run"),
        ('{"bytes_sent": {"a": {"b": "1"}}}', "not the cost of a run"),
        ('{"bytes_sent": 5, "rounds": "many"}', "not the cost of a run"),
        ('{"bytes_sent": 5, "seconds": "1"}', "not the cost of a run"),
        ('{"bytes_sent": 1e999}', "not the cost of a run"),
        ('{"bytes_sent": -5}', "not the cost of a run"),
    ],
)
def test_cost_is_read_strictly(content, reason, tmp_path):
    (tmp_path / "c.json").write_text(content)
    with pytest.raises(ValueError, match=rf"c\.json: .*{reason}"):
        read_cost(tmp_path / "c.json")


def test_cost_of_a_run_is_the_one_that_it_writes(tmp_path):
    cost = Cost(3, {"a": {"b": 1, "c": 2}}, 1.0, 2.0, 4.0, {"a": 6})
    (tmp_path / "cost.json").write_text(json.dumps(cost.to_json("a")))
    parts = {"sums of own rows": 1.0, "secure computation": 2.0, "waiting for others": 4.0}
    assert read_cost(tmp_path / "cost.json") == Column(3, {"a": 3}, None, 7.0, {"a": 6}, parts)


def test_forecast_is_the_plan_that_it_prints(tmp_path):
    forecast = Forecast(4, 9, 0.5, 2.0, computing=1.0, relaying=0.5)
    (tmp_path / "plan.json").write_text(json.dumps({"levels": [forecast._asdict()]}))
    assert of_forecast(forecast) == read_plan(tmp_path / "plan.json", 4)

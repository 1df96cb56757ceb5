"""The lines over which the network is measured."""

from __future__ import annotations

import pytest

from benchmarks.line import Lines, NotPermitted, check_permitted
from benchmarks.network import measure_line

try:
    check_permitted()
except NotPermitted as error:
    pytest.skip(str(error), allow_module_level=True)


@pytest.mark.processes
def test_a_line_is_no_faster_than_it_says(tmp_path):
    with Lines(tmp_path, delay=0.02, bytes_per_second=1e6) as lines:
        measured = [measure_line(lines, size=200_000) for _ in range(2)]  # with new processes
    for line in measured:
        # Packets may leave 0.1 ms early. A busy machine makes a line slower, and never faster.
        assert line["delay_ms"] >= 19.8
        assert line["mbit_per_second"] <= 1.01 * 8

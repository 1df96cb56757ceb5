"""What a run leaves in a party's folder: parameters, transcript, cost and report.

Each file appears complete or not at all. docs/parameters.md describes them.
"""

from __future__ import annotations

import json
from pathlib import Path

from securefedyj import parameters
from securefedyj.files import write_atomically
from securefedyj.network.consortium import Consortium
from securefedyj.network.crossing import Crossing
from securefedyj.network.forecast import DELAY_MS, MBIT, bytes_per_second, forecast
from securefedyj.numerics.arrays import Array
from securefedyj.protocol.cost import Cost
from securefedyj.protocol.transcript import Transcript
from securefedyj.report import page
from securefedyj.report.cost import Column, of_forecast

PARAMETERS, TRANSCRIPT, COST, REPORT = (
    "parameters.json", "transcript.jsonl", "cost.json", "report.html",
)  # fmt: skip


def write_results(
    transcript: Transcript, cost: Cost | None, party: str, folder: Path
) -> dict[str, Path]:
    """Write what everybody may know, and the party's own cost if it is known.

    Returns the paths by what they hold.
    """
    paths = {"parameters": folder / PARAMETERS, "transcript": folder / TRANSCRIPT}
    parameters.save(transcript, paths["parameters"])
    transcript.write(paths["transcript"])
    if cost is not None:
        paths["cost"] = folder / COST
        content = json.dumps(cost.to_json(party), indent=2) + "\n"
        write_atomically(paths["cost"], content.encode())
    return paths


def write_report(
    consortium: Consortium, transcript: Transcript, table: Array | None, folder: Path
) -> None:
    """Write report.html with the cost of the run beside the plan, and plots of a silo's own rows.

    The cost is read from the folder, where `write_results` has put it.
    """
    cost = {f"plan for {DELAY_MS:g} ms, {MBIT:g} Mbit/s": _planned(consortium, transcript)}
    if (folder / COST).exists():
        cost["this run"] = page.read_cost(folder / COST)
    page.write(folder / REPORT, transcript, table, cost)


def _planned(consortium: Consortium, transcript: Transcript) -> Column:
    """What `plan` would have said, had it known the number of rows; but for the time at the hub.

    Measuring that takes a hub with keys, which is not for a party to start on the way.
    """
    outlook = forecast(
        consortium,
        rows=max(1, int(transcript.counts().max()) // len(consortium.silos)),
        delay=DELAY_MS / 1e3,
        bytes_per_second=bytes_per_second(MBIT),
        levels=[consortium.levels_per_exchange],
        crossing=Crossing(0.0, 0.0),
    )
    (plan,) = outlook.forecasts
    return of_forecast(plan)

"""What a run leaves in a party's folder: parameters, transcript, cost, provenance and report.

Each file appears complete or not at all, and a result that is there is never replaced.
docs/parameters.md describes them.
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path

from securefedyj.errors import InputError
from securefedyj.files import replacing, write_atomically
from securefedyj.network.consortium import ENGINE, Consortium
from securefedyj.network.crossing import Crossing
from securefedyj.network.forecast import DELAY_MS, MBIT, bytes_per_second, forecast
from securefedyj.numerics.arrays import Array
from securefedyj.parameters import Parameters, digest_of
from securefedyj.protocol.cost import Cost
from securefedyj.protocol.transcript import Transcript
from securefedyj.report import page, provenance
from securefedyj.report.cost import Column, of_forecast, read_cost
from securefedyj.report.provenance import Provenance

PARAMETERS, TRANSCRIPT, COST, PROVENANCE, REPORT = (
    "parameters.json", "transcript.jsonl", "cost.json", "provenance.json", "report.html",
)  # fmt: skip


class ResultError(InputError):
    """A result that would take the place of another one."""


def write_results(
    transcript: Transcript, cost: Cost | None, party: str, folder: Path, table: Path | None = None
) -> dict[str, Path]:
    """Write what everybody may know, and what is the party's own: its cost, if that is known, and
    provenance.json, with the name of its table.

    What all parties have alike has the usual rights of new files, since others here will use it;
    the party's own files are for their owner alone. Returns the paths by what they hold.

    Raises
    ------
    ResultError
        If the folder has another result. It stays as it is, and nothing is written.
    """
    paths = {"parameters": folder / PARAMETERS, "transcript": folder / TRANSCRIPT}
    # The parameters come last: where they are, the transcript is, too.
    contents = {
        paths["transcript"]: transcript.to_text().encode(),
        paths["parameters"]: Parameters.of(transcript).to_bytes(),
    }
    _write_new({path: data for path, data in contents.items() if not _is_there(path, data)})
    if cost is not None:
        paths["cost"] = folder / COST
        content = json.dumps(cost.to_json(party), indent=2) + "\n"
        write_atomically(paths["cost"], content.encode(), private=True)
    if _provenance(transcript, folder) is None:  # else it has the date when the result was new
        provenance.of_run(transcript, party, table, folder).write(folder / PROVENANCE)
    paths["provenance"] = folder / PROVENANCE
    return paths


def _provenance(transcript: Transcript, folder: Path) -> Provenance | None:
    """What is known of this result there, and not of another that was there before."""
    try:
        known = provenance.read(folder / PROVENANCE)
    except (FileNotFoundError, ValueError):
        return None
    return known if known.transcript_sha256 == digest_of(transcript) else None


def _is_there(path: Path, content: bytes) -> bool:
    """Whether the file has this content already; with another one it must not be touched."""
    try:
        found = path.read_bytes()
    except FileNotFoundError:
        return False
    if found != content:
        raise ResultError(
            "SFY-REP-009",
            f"{path} holds another result, which is not replaced, and nothing was written. Compare "
            "it with the files of the other parties; to get the result of this run, move it away "
            "and give the same command again.",
        )
    return True


def _write_new(contents: dict[Path, bytes]) -> None:
    """Write all files, or none if one of them cannot be written."""
    with ExitStack() as names:
        # They get their names when the stack is left, the last one that was entered first.
        for path, content in reversed(contents.items()):
            temporary = names.enter_context(replacing(path))
            try:
                temporary.write_bytes(content)
            except OSError as error:  # such as a full disk
                raise OSError(f"cannot write {path}: {error.strerror}") from error


def write_report(
    consortium: Consortium,
    transcript: Transcript,
    sample: Array | None,
    rows: int | None,
    folder: Path,
) -> None:
    """Write report.html with the cost of the run beside the plan, and plots of a silo's own rows.

    Of many rows a sample is drawn, and the page says how many there are.

    Cost and provenance are read from the folder, where `write_results` has put them.
    """
    cost = {}
    if consortium.engine == ENGINE:  # no other can be planned
        cost[f"plan for {DELAY_MS:g} ms, {MBIT:g} Mbit/s"] = _planned(consortium, transcript)
    if (folder / COST).exists():
        cost["this run"] = read_cost(folder / COST)
    where = _provenance(transcript, folder)
    page.write(folder / REPORT, transcript, sample, cost, rows=rows, provenance=where)


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

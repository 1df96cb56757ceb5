"""What is done with a silo's ledger: warn before a run, note what became of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from securefedyj.network.consortium import Consortium
from securefedyj.network.ledger import (
    BEGAN,
    FAILED,
    FINISHED,
    Ledger,
    LedgerError,
    RunEntry,
    RunTerms,
    default_path,
)
from securefedyj.network.repeats import note_on_result, note_on_unfinished, warnings
from securefedyj.network.session.journal import FILE as STATE
from securefedyj.numerics.passes import Source
from securefedyj.tables.digest import column_digests


def warnings_before(consortium: Consortium, table: Source, path: Path | None) -> list[str]:
    """What earlier runs and this one reveal together; no file is made."""
    ledger = Ledger(path or default_path())
    run = _run(ledger, consortium, "", table, "", "")
    note = note_on_unfinished(ledger, run, consortium.max_interruptions)
    return warnings(ledger, run) + [note] * bool(note)


class LedgerRun:
    """A silo's run in its ledger."""

    def __init__(
        self, consortium: Consortium, party: str, table: Source, output: Path, path: Path | None
    ) -> None:
        self._ledger = Ledger(path or default_path())
        self._ledger.prepare()
        self._most = consortium.max_interruptions
        folder = str(output.resolve())
        # Without a state there is nothing to resume, and this is another run.
        identity = (
            self._ledger.id_of(consortium.digest(), folder)
            if (output / STATE).exists()
            else self._ledger.new_id()
        )
        self._run = _run(self._ledger, consortium, party, table, identity, folder)

    def warnings(self) -> list[str]:
        """What the silo should know before the run."""
        note = note_on_unfinished(self._ledger, self._run, self._most)
        return warnings(self._ledger, self._run) + [note] * bool(note)

    @property
    def unfinished(self) -> int:
        """How many earlier runs over the same values did not finish."""
        return len(self._ledger.unfinished(self._run))

    def began(self) -> None:
        self._ledger.note(BEGAN, self._run)

    def finished(self, result: str, say: Callable[[str], None]) -> str:
        """Note the result's digest; return what to say if an earlier run contradicts it."""
        self._end(FINISHED, say, result)
        return note_on_result(self._ledger, self._run, result)

    def failed(self, say: Callable[[str], None]) -> None:
        self._end(FAILED, say)

    def _end(self, event: str, say: Callable[[str], None], result: str = "") -> None:
        """Note the end of a run that has begun; if the file cannot be written, only say so."""
        if not self._ledger.is_open(self._run):
            return
        try:
            self._ledger.note(event, self._run, result=result)
        except LedgerError as error:
            say(str(error))


def _run(
    ledger: Ledger, consortium: Consortium, party: str, table: Source, identity: str, folder: str
) -> RunEntry:
    features = tuple(feature.name for feature in consortium.features)
    digests = column_digests(table, features, ledger.key) if ledger.key else {}
    return RunEntry(
        id=identity,
        digest=consortium.digest(),
        consortium=consortium.name,
        date="",
        party=party,
        parties=tuple(one.name for one in consortium.parties),
        silos=tuple(one.name for one in consortium.silos),
        features=features,
        folder=folder,
        columns=tuple(digests.get(name, "") for name in features),
        terms=RunTerms(
            consortium.max_steps,
            consortium.result_bits,
            consortium.verified,
            tuple(float(feature.lower) for feature in consortium.features),
            tuple(float(feature.upper) for feature in consortium.features),
        ),
    )

"""What the pages of `securefedyj desk` start, with the functions of the commands."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from securefedyj.cli import check
from securefedyj.cli.display import TOO_LARGE, sentence_of
from securefedyj.cli.rehearse import seen
from securefedyj.joining.call import finished
from securefedyj.joining.fetching import ResultRun
from securefedyj.joining.options import JoinOptions
from securefedyj.joining.own import OwnPart
from securefedyj.joining.run import Cancelled, JoinRun
from securefedyj.joining.submit import SubmitRun
from securefedyj.network.consortium import ENGINE, Consortium, PartyEntry
from securefedyj.network.forecast import (
    DELAY_MS,
    MBIT,
    Forecast,
    bytes_per_second,
    forecast,
)
from securefedyj.network.identity import read_certificate
from securefedyj.network.session.events import Progress
from securefedyj.network.submission import note_on_submission
from securefedyj.network.transport.framing import SUBMISSION
from securefedyj.protocol.audit import opened
from securefedyj.protocol.secrecy import secrecy_of
from securefedyj.report.results import REPORT
from securefedyj.tables.cells import MISSING

_PARTS: dict[str, Callable[..., OwnPart]] = {
    "join": JoinRun,
    "submit": SubmitRun,
    "result": ResultRun,
}


class Job:
    """Work in a thread, which a page watches."""

    def __init__(self, what: str, work: Callable[[Job], None]) -> None:
        self.what, self._work = what, work
        self.said: list[tuple[str, str]] = []
        """Sentences, each with its weight."""
        self.progress: Progress | None = None
        self.rows = ""
        self.running, self.stopping, self.failure = True, False, ""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def say(self, sentence: str) -> None:
        weight = "warning" if sentence.startswith("Warning: ") else "note"
        if (weight, sentence) not in self.said[-1:]:  # such as failures to reach the hub
            self.said.append((weight, sentence))

    def show(self, progress: Progress) -> None:
        self.progress = progress

    def count(self, done: str, count: int, total: int | None) -> None:
        self.rows = f"{count:,}{'' if total is None else f' of {total:,}'} rows {done}"

    def end(self) -> None:
        """Leave a run as after Ctrl-C; a check has nobody to notify."""
        self.stopping = True
        if self.what != "check":
            self._thread.join()

    def _run(self) -> None:
        try:
            self._work(self)
        except Cancelled:
            self.failure = "You have stopped this. The button below resumes it."
        except (OSError, ValueError) as error:
            self.failure = sentence_of(error)
        except (MemoryError, RecursionError, OverflowError):
            self.failure = TOO_LARGE
        except BaseException:
            self.failure = "This is a bug. The window in which you started the desk shows where."
            raise
        finally:
            self.running = False


class Examination(NamedTuple):
    """A party that may take part: what it has chosen, and what it should know before."""

    options: JoinOptions
    consortium: Consortium
    party: PartyEntry
    can: tuple[str, ...]
    """What this party does in the run, in order."""
    examined: check.Examined | None
    """None without a table."""
    plan: Forecast | None
    """None where there is no forecast."""

    @property
    def report(self) -> Path:
        return self.options.output / REPORT

    def next(self, job: Job) -> tuple[str, ...]:
        """What may be started after some work."""
        if job.failure or job.what in ("check", "connect"):
            return self.can
        later = self.can[self.can.index(job.what) + 1 :]
        return tuple(what for what in later if what != "connect")

    def revealed(self) -> dict[str, Any]:
        """What the page says about secrecy."""
        agreement, silos = self.consortium.agreement(), len(self.consortium.silos)
        secrecy = secrecy_of(agreement)
        return {
            "opened": opened(agreement),
            "what_left": secrecy.what_left,
            "collusion": secrecy.collusion(self.consortium.committee, silos),
            "submission": note_on_submission(self.consortium),
        }


def examined_before(options: JoinOptions) -> Examination:
    """Check what a party has chosen; an error says what could not take part."""
    consortium, examined = options.agreed(), None
    party = consortium.party_with(read_certificate(options.certificate))
    online = party.name in consortium.agreement().online
    can = ("submit",) * (consortium.submitted and party.role == "silo")
    can += ("join",) if online else ("result",)
    for what in can:
        part_of(what, options)
    if consortium.hub is not None:
        can += ("connect",)
    if options.data is not None:
        reading = ((*MISSING, *options.missing), options.dialect)
        given = (options.data, reading, options.ledger)
        examined = check.examine(consortium, *given, without=options.without)
    plan = None
    if consortium.engine == ENGINE:  # no other has forecasts
        rows = 1 if examined is None else max(1, examined.checked.rows)
        (plan,) = forecast(
            consortium,
            rows=rows,
            delay=DELAY_MS / 1e3,
            bytes_per_second=bytes_per_second(MBIT),
            levels=(consortium.levels_per_exchange,),
        ).forecasts
    return Examination(options, consortium, party, can, examined, plan)


def take_part(ready: Examination, what: str, job: Job) -> None:
    """Do what a button starts."""
    if what == "connect":
        options = ready.options
        _, sentences = seen(ready.consortium, options.key, options.certificate, options.proxy)
        for sentence in sentences:
            job.say(sentence)
        return
    callbacks: dict[str, Any] = {"say": job.say, "warn": job.say, "rows": job.count}
    if what == "join":
        callbacks["progress"] = job.show
    part = part_of(what, ready.options, **callbacks)
    ready.options.output.mkdir(parents=True, exist_ok=True)
    asyncio.run(finished(part, part.take_part(), lambda: job.stopping))
    if part.no_report:
        job.say(part.no_report)


def part_of(what: str, options: JoinOptions, **callbacks: Any) -> OwnPart:
    """This party's part in what one of the buttons starts."""
    if what == "submit":
        party = options.agreed().party_with(read_certificate(options.certificate))
        options = replace(options, output=options.output / f"{party.name}.{SUBMISSION}")
    return _PARTS[what](options, **callbacks)

"""A silo submits: it counts its rows, and sends one sealed file to the members."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from securefedyj.errors import InputError
from securefedyj.files import hidden_beside, sync, write_atomically
from securefedyj.joining.own import OwnPart
from securefedyj.network.keys import PrivateKeys
from securefedyj.network.ledger import Ledger, LedgerError, RunSubmitted, default_path
from securefedyj.network.session.participant import Worker
from securefedyj.network.submission import make, read
from securefedyj.network.transport.framing import SUBMISSION
from securefedyj.network.transport.proxy import proxy_to
from securefedyj.numerics.arrays import Integers
from securefedyj.numerics.sums import refuse_outside
from securefedyj.numerics.tally import tally_of
from securefedyj.printable import in_words, printable
from securefedyj.tables.files import HERE, point_findings
from securefedyj.tables.silo_table import SiloTable


@dataclass(repr=False)
class SubmitRun(OwnPart):
    """A silo's submission: made once for an agreed file, kept, and sent as often as asked for."""

    send: bool = True
    """To the hub's mailbox; otherwise the file goes to where the options say, by other ways."""

    def __post_init__(self) -> None:
        super().__post_init__()
        consortium, name = self.consortium, self.party.name
        if not consortium.submitted or self.party.role != "silo":
            raise InputError(
                "SFY-SUB-010",
                f"{name!r} has nothing to submit: "
                + (
                    "the agreed file says submitted = false, so all silos `join`."
                    if not consortium.submitted
                    else "it has no data in this run."
                ),
            )
        PrivateKeys.read(self._identity.key, self.party.public)  # before the table is read
        if not self._output.name:
            self._output = Path(f"{name}.{SUBMISSION}")
        self.send = self.send and consortium.hub is not None
        if self.send:
            proxy_to(consortium.agreed_hub(), self.options.proxy)  # before the table is read
        else:
            self.say("Nothing is sent: give the file to all members.")
        self._made = False

    async def take_part(self) -> Path:
        """Make the file unless there is one, and send it; return where it is."""
        worker, name = Worker(), self.party.name
        try:
            path = await worker.run(self._file)
            self._made = True
            if self.send:
                await self._courier().put(SUBMISSION, path.read_bytes())
                self.say("The hub has it.")
            online = name in self.consortium.agreement().online
            then = "`securefedyj join` takes part in" if online else "`securefedyj result` fetches"
            self.say(f"Next, {then} the {'run' if online else 'result'}.")
            return path
        finally:
            self._left = True
            worker.end()

    def on_leaving(self, again: str) -> str:
        """What to tell a user who has stopped us; `again` is what resumes."""
        return f"Stopped. Rerun the {again} to {'send the submission' if self._made else 'submit'}."

    def _file(self) -> Path:
        """The submission of this silo: the one that it has made, or a new one."""
        ledger = Ledger(self.options.ledger or default_path())
        made = ledger.submission(self.consortium.digest(), self.party.name)
        path = self._new() if made is None else self._kept(made)
        if made is not None and self.options.output.name and path != self._output.resolve():
            data, copy = path.read_bytes(), self._output
            if not copy.exists() or copy.read_bytes() != data:
                write_atomically(_free(copy), data)
            path = copy
        return path

    def _kept(self, made: RunSubmitted) -> Path:
        """The file that was made earlier."""
        path = Path(made.file)
        # If this machine has failed after the note, the file may not have its name yet.
        unnamed = (one for one in path.parent.glob(".*") if one.name.endswith(f".{path.name}"))
        for there in (path, *unnamed):
            if there.is_file() and hashlib.sha256(there.read_bytes()).hexdigest() == made.sha256:
                if there != path:
                    os.replace(there, _free(path))
                self.say(
                    f"{self.party.name} has submitted for this agreed file on {made.date[:10]}, "
                    "and every submission is final. A correction needs a new agreed file."
                )
                return path
        raise LedgerError(
            "SFY-SUB-011",
            f"{self.party.name} has submitted for this agreed file on {made.date[:10]}, and "
            f"{printable(str(path))} is not that submission any more. Put it back, from a backup "
            "or a member. Another one is not made: from two, two members could compute the "
            "difference. A correction needs a new agreed file.",
        )

    def _new(self) -> Path:
        path = _free(self._output.resolve())
        own = self.own_table()
        if own is None:
            raise InputError("SFY-SUB-013", "A first submission needs --data.")
        record, counts = self._warned(own, path.parent, over=False), self._counts(own)
        assert record is not None
        self._check_wanted()
        data = make(self.consortium, self.party.name, self._identity.key, counts)
        read(data, self.consortium)  # an own key that does not fit makes a file that nobody takes
        unnamed = hidden_beside(path)
        try:
            unnamed.write_bytes(data)
            sync(unnamed)
            sync(path.parent)
            record.submitted(path, hashlib.sha256(data).hexdigest())
        except BaseException:
            unnamed.unlink(missing_ok=True)
            raise
        os.replace(unnamed, path)  # where this fails, `_kept` still finds what was noted
        names = in_words(self.consortium.committee)
        self.say(f"Wrote {printable(path.name)}: {len(data):,} bytes, sealed for {names}.")
        return path

    def _counts(self, own: SiloTable) -> Integers:
        """How often each agreed point occurs in the rows."""
        agreement, names = self.consortium.agreement(), self._features
        tally = tally_of(own.source, agreement.points, agreement.domain)
        refuse_outside(tally.outside, agreement.domain, names)
        path = self._path if self.reader is HERE else None
        dialect = self.options.dialect
        for finding in point_findings(tally, names, agreement.rounded, path, dialect):
            if finding.stops:
                raise InputError(
                    "SFY-SUB-015",
                    f"Column {printable(str(finding.feature))}: {finding.text}. Nothing was sent. "
                    "Correct the values, or agree on a finer resolution or on round = true; "
                    "`securefedyj check --data` shows all columns.",
                )
            self.say(f"Column {printable(str(finding.feature))}: {finding.text}.")
        counts: Integers = np.concatenate(tally.counts)
        return counts


def _free(path: Path) -> Path:
    """A path where nothing is."""
    if path.exists():
        raise InputError(
            "SFY-SUB-012",
            f"{path} exists and is not overwritten; move it away, or choose another --output.",
        )
    return path

"""A whole consortium on this machine: every party runs the real program."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence

import numpy as np

from securefedyj.engines.registry import facts_of
from securefedyj.errors import InputError
from securefedyj.numerics.arrays import Integers
from securefedyj.numerics.streamed import default_cache_bytes
from securefedyj.numerics.sums import refuse_outside
from securefedyj.numerics.tally import tally_of
from securefedyj.party.messages import SESSION_BYTES
from securefedyj.protocol.agreement import Agreement
from securefedyj.protocol.cost import Cost
from securefedyj.protocol.program import run_party
from securefedyj.protocol.silos import Table, timed_silo
from securefedyj.protocol.submissions import Submissions, held_by, masked, share
from securefedyj.protocol.transcript import Transcript
from securefedyj.tables.source import as_source


def simulate(
    agreement: Agreement, tables: Sequence[Table | None], cache_bytes: int | None = None
) -> tuple[Transcript, Cost]:
    """Run all parties of an agreement, each with its own table or None.

    Together they keep arranged rows up to `cache_bytes`, by default a quarter of the memory.
    """
    room = default_cache_bytes() if cache_bytes is None else cache_bytes
    room //= max(1, sum(table is not None for table in tables))
    facts = facts_of(agreement.engine)
    facts.check_ready()
    session, online = secrets.token_bytes(SESSION_BYTES), agreement.online
    names = agreement.parties
    rows = dict(zip(names, tables, strict=True))
    sent = {name: dict.fromkeys([one for one in names if one != name], 0) for name in names}
    held, submitting = dict[str, Submissions](), 0.0
    if agreement.submitted:
        start = time.perf_counter()
        held = _submit(agreement, rows, sent)
        submitting = time.perf_counter() - start
    parties = [
        facts.party(
            name,
            online,
            fit_table(name, agreement, rows[name], room, held.get(name)),
            session=session,
            parameters=agreement.to_bytes(),
        )
        for name in online
    ]
    start = time.perf_counter()
    outcomes = facts.run(parties)
    seconds = time.perf_counter() - start
    local = (max if facts.in_parallel else sum)(seconds for _, seconds in outcomes)
    # In parallel, rounds depend on which message comes first.
    rounds = None if facts.in_parallel else max(party.rounds for party in parties)
    for party in parties:
        for peer, size in party.bytes_sent.items():
            sent[party.name][peer] += size
    cost = Cost.of_all(rounds, sent, local + submitting, seconds - local)
    return outcomes[0][0].with_result(), cost


async def fit_table(
    name: str,
    agreement: Agreement,
    table: Table | None,
    cache_bytes: int | None = None,
    submissions: Submissions | None = None,
) -> tuple[Transcript, float]:
    """One party, which looks at its data only when all agree.

    Returns the transcript, still without the result, and the seconds spent on the local sums.
    """
    silo = None if agreement.given.all() else timed_silo(agreement, table, cache_bytes)
    transcript = await run_party(name, agreement, silo, submissions=submissions)
    return transcript, silo.prepared + silo.seconds if silo else 0.0


def _submit(
    agreement: Agreement, tables: Mapping[str, Table | None], sent: dict[str, dict[str, int]]
) -> dict[str, Submissions]:
    """What each member holds once all silos have submitted; files, seals and masks are left out."""
    shares, members = [], agreement.committee
    for name in agreement.silos:
        shares.append(share(masked(counts_of(agreement, tables[name]), (), ())))
        for i, part in enumerate(shares[-1]):
            for member in {members[i], members[i - 1]} - {name}:
                sent[name][member] += len(part)
    return held_by(agreement, shares, secrets.token_bytes(32))


def counts_of(agreement: Agreement, table: Table | None) -> Integers:
    """How often each point occurs in the rows of a silo; refuses values that are none."""
    points, names = agreement.points, list(agreement.features)
    if table is None:
        return np.zeros(sum(map(len, points)), dtype=np.int64)
    tally = tally_of(as_source(table), points, agreement.domain)
    refuse_outside(tally.outside, agreement.domain, names)
    for j, first in enumerate(tally.first):
        if first and not (agreement.rounded and agreement.rounded[j]):
            raise InputError(
                "SFY-RUN-017",
                f"{int(tally.moved[j])} value(s) of feature {names[j]!r} are not among its points; "
                f"the first is {first.value!r} in row {first.row}. Correct the values, agree on a "
                "finer resolution, or on round = true.",
            )
    counts: Integers = np.concatenate(tally.counts)
    return counts

"""What a submitted run costs its members, by what they do, and that it does not grow with rows.

`python -m benchmarks.submitted` runs three members in this process on made-up counts, with 1,000
and 1,000,000 rows by turns, then a live run over the same values. It ends with exit code 1 if
something takes more than its limit. Milliseconds are those of the processor, of all three members
together; bytes are those that the member sends who sends most.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import time
from collections import defaultdict
from dataclasses import replace

import numpy as np

from securefedyj.engines.registry import facts_of
from securefedyj.party import inprocess
from securefedyj.party.machine import Party
from securefedyj.party.messages import SESSION_BYTES
from securefedyj.protocol.agreement import Agreement, bounds_of
from securefedyj.protocol.program import run_party, secure_fed_yj
from securefedyj.protocol.reveals import Possible, Step, Variation
from securefedyj.protocol.schedule import Schedule
from securefedyj.protocol.simulation import simulate
from securefedyj.protocol.state import OpeningLog
from securefedyj.protocol.submissions import Submissions, held_by, masked, share
from securefedyj.protocol.transcript import Transcript

ROWS = (1_000, 1_000_000)
LIMITS = {"search": (10.0, 100.0), "claims": (20.0, 300.0)}
"""Milliseconds and kB a feature of 1,000 points."""
STAGES = {Variation: "search", Step: "search", Possible: "claims"}

Costs = dict[str, tuple[float, float]]


class Watch(OpeningLog):
    """Adds up what one party's exchanges take, by stage."""

    def __init__(self) -> None:
        self.parties: list[Party[Transcript]] = []
        self.stage, self.last = "", (0.0, [0])
        self.seconds: dict[str, float] = defaultdict(float)
        self.sent: dict[str, list[int]] = {}

    def exchange(self, transcript: Transcript | None) -> None:
        """The next stage begins, or all is over."""
        sent = [sum(party.bytes_sent.values()) for party in self.parties]
        now = time.process_time()
        if self.stage:
            self.seconds[self.stage] += now - self.last[0]
            before = self.sent.get(self.stage, [0] * len(sent))
            more = zip(before, sent, self.last[1], strict=True)
            self.sent[self.stage] = [a + b - c for a, b, c in more]
        due = Schedule.of(transcript).due if transcript is not None else None
        self.stage, self.last = STAGES.get(due.kind, "rest") if due else "", (now, sent)


def agreed(features: int, points: int, steps: int) -> Agreement:
    names, parties = tuple(map(str, range(features))), ("a", "b", "c")
    return Agreement(
        features=names,
        domain=bounds_of((0.0, (points - 1) / 10), names),
        resolution=("0.1",) * features,
        submitted=True,
        parties=parties,
        committee=parties,
        max_steps=steps,
    )


def histograms(agreement: Agreement, rows: int) -> np.ndarray:
    """Skewed counts of each feature, of all silos together."""
    rng = np.random.default_rng(7)
    weights = [np.exp(-(((np.log1p(own) - 2) / 0.8) ** 2)) for own in agreement.points]
    return np.stack([rng.multinomial(rows, own / own.sum()) for own in weights])


def measure(agreement: Agreement, counts: np.ndarray) -> tuple[Costs, Transcript]:
    """One run of the members."""
    held = held_by(agreement, [share(masked(counts.ravel(), (), ()))], secrets.token_bytes(32))
    watch = Watch()

    async def member(name: str, submissions: Submissions) -> Transcript:
        if name != agreement.committee[0]:
            return await run_party(name, agreement, None, submissions=submissions)
        engine = await facts_of(agreement.engine).connect(
            name, agreement.online, agreement.committee, ()
        )
        found = await secure_fed_yj(engine, None, agreement, None, watch, None, submissions)
        watch.exchange(None)
        return found

    session, parameters = secrets.token_bytes(SESSION_BYTES), agreement.to_bytes()
    watch.parties = [
        Party(name, agreement.online, member(name, own), session=session, parameters=parameters)
        for name, own in held.items()
    ]
    transcript, *_ = inprocess.run(watch.parties)
    size = len(agreement.features)
    costs = {
        stage: (seconds / size * 1e3, max(watch.sent[stage]) / size / 1e3)
        for stage, seconds in watch.seconds.items()
    }
    return costs, transcript.with_result()


def least(one: Costs, other: Costs) -> Costs:
    """The shorter of two runs."""
    return {stage: min(own, other.get(stage, own)) for stage, own in one.items()}


def live(agreement: Agreement, counts: np.ndarray) -> tuple[float, Transcript]:
    """Seconds of a live run over the same values, at three silos, and what it finds."""
    columns = [np.repeat(points, own) for points, own in zip(agreement.points, counts, strict=True)]
    tables = np.array_split(np.column_stack(columns), 3)
    start = time.process_time()
    transcript, _ = simulate(replace(agreement, submitted=False), tables)
    return time.process_time() - start, transcript


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--features", type=int, default=100)
    parser.add_argument("--points", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    agreement = agreed(options.features, options.points, options.steps)
    counts = {rows: histograms(agreement, rows) for rows in ROWS}
    best: dict[int, Costs] = {rows: {} for rows in ROWS}
    found: dict[int, Transcript] = {}
    for _ in range(options.turns):
        for rows in ROWS:
            costs, found[rows] = measure(agreement, counts[rows])
            best[rows] = least(costs, best[rows])
    wrong = []
    for rows, costs in best.items():
        for stage, (milliseconds, kilobytes) in sorted(costs.items()):
            print(
                f"{rows:>9,} rows, {stage:<6} {milliseconds:>6.2f} ms and {kilobytes:>6.1f} kB a "
                "feature"
            )
            for value, most in zip((milliseconds, kilobytes), LIMITS.get(stage, ()), strict=False):
                if value > most:
                    wrong.append(f"{stage}: {value:.1f}, at most {most:g}")
    few, many = (sum(own[0] for own in best[rows].values()) for rows in ROWS)
    print(f"{ROWS[1]:,} rows take {many / few:.2f} of the time of {ROWS[0]:,}.")
    seconds, transcript = live(agreement, counts[ROWS[0]])
    submitted = few * options.features / 1e3
    print(
        f"Live, with {ROWS[0]:,} rows: {seconds:.2f} s; submitted {submitted / seconds:.2f} of it."
    )
    one, other = found[ROWS[0]].result, transcript.result
    if one is None or other is None or not np.array_equal(one.lmbda, other.lmbda):
        wrong.append("another result than that of a live run")
    print("\n".join(wrong) if wrong else "All within their limits.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

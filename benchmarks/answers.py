"""How long a silo takes to answer, as a peer sees it: for five tables of equal size.

    python -m benchmarks.answers

From the arrival of the last message that a silo waits for to the departure of its inputs, in the
first exchange of the search (15 lambdas, the same for all tables). Time must depend on the number
of rows alone: how many values are zero is the number of cases of a diagnosis. The tables take
turns, and the shortest time of each counts. The peer is the fastest table: the last line prints
the ratio of the slowest one to it.
"""

from __future__ import annotations

import argparse
import secrets
import time
from typing import Any

from benchmarks.sums import tables
from securefedyj import kernel
from securefedyj.numerics.arrays import Array
from securefedyj.numerics.encoding import Domain
from securefedyj.party import inprocess
from securefedyj.party.machine import Party
from securefedyj.party.messages import SESSION_BYTES, Kind, Message
from securefedyj.protocol.agreement import Agreement
from securefedyj.protocol.simulation import fit_table

NAMES = ("a", "b", "c")
AGREEMENT = Agreement(
    features=("x",), domain=Domain.from_bounds((-1e6, 1e6), 1), parties=NAMES, committee=NAMES,
    max_steps=4, minimum_values=0, verified=False,
)  # fmt: skip


class Watched(Party):
    """A party that notes how long it takes until its inputs of each exchange are on their way."""

    def __init__(self, *arguments, **options) -> None:
        super().__init__(*arguments, **options)
        self.seconds: list[float] = []

    def receive(self, message: Message) -> list[Message]:
        start = time.perf_counter()
        answer = super().receive(message)
        if any(Kind.INPUT in sent.kind for sent in answer):
            self.seconds.append(time.perf_counter() - start)
        return answer


def seconds(values: Array) -> float:
    """Of the answer in the first exchange of the search; the one before has the counts."""
    session, small = secrets.token_bytes(SESSION_BYTES), values[:10, None]
    options: dict[str, Any] = {"session": session, "parameters": b""}
    watched = Watched("a", NAMES, fit_table("a", AGREEMENT, values[:, None]), **options)
    others = [Party(name, NAMES, fit_table(name, AGREEMENT, small), **options) for name in "bc"]
    inprocess.run([watched, *others])
    return watched.seconds[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--turns", type=int, default=9)
    turns = parser.parse_args().turns
    rows = tables()
    best = dict.fromkeys(rows, float("inf"))
    for _ in range(turns):
        for name, values in rows.items():
            best[name] = min(best[name], seconds(values))
    print(f"{kernel.described()}; {len(values):,} rows")
    for name, value in best.items():
        print(f"{name:>24} {1e3 * value:8.2f} ms")
    print(f"slowest / fastest: {max(best.values()) / min(best.values()):.2f}")


if __name__ == "__main__":
    main()

"""Fit random features and check every fit by the oracle.

    python -m benchmarks.fuzz --features 20000 --seed 7
    python -m benchmarks.fuzz --minutes 10 --family narrow --family ties --fit federated
    python -m benchmarks.fuzz --method box-cox --features 5000

A feature is wrong if lambda is off by more than 1e-9 of max(|lambda|, 1/sqrt(|score'|/n)), a
transformed value by more than 1e-9 of max(1, |z|), or the mean or the variance of all of them by
more than 1e-9. So is a constant feature whose lambda is not 1 or whose transformed values are not
0. The exit code is 1 if a feature is wrong and `converged_` does not say so; the first ones are
printed as code that shows them again, with as few values as do.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import sys
from collections.abc import Sequence

from threadpoolctl import threadpool_limits

# Functions of a module of that name: other processes would not find those of `__main__`.
from benchmarks.fuzz.campaign import Report, check, tasks
from benchmarks.fuzz.cases import FITS, METHODS


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.fuzz",
        description="Fit random features and check every fit by an oracle of hundreds of bits.",
    )
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop after so long")
    parser.add_argument("--features", type=int, default=20_000, help="of each fit, at most")
    parser.add_argument("--large", type=int, default=40, help="pooled features of 70,000 rows up")
    parser.add_argument("--seed", type=int, default=0, help="other features with every seed")
    parser.add_argument("--family", action="append", help="only this one; may be given again")
    parser.add_argument("--method", choices=METHODS, default=METHODS[0])
    parser.add_argument("--fit", choices=["pooled", "federated"], help="only this one")
    parser.add_argument(
        "--processes", type=int, default=os.cpu_count() or 1, help="side by side; as many as cores"
    )
    options = parser.parse_args(arguments)
    known = {name for families in FITS.values() for name in families}
    if unknown := [name for name in options.family or () if name not in known]:
        parser.error(f"no family {unknown[0]!r}; there are {', '.join(sorted(known))}")
    report = Report()
    todo = tasks(options)
    if options.processes == 1:
        report.take(map(check, todo))
    else:
        context = multiprocessing.get_context("spawn")
        with context.Pool(options.processes, threadpool_limits, (1,)) as pool:
            report.take(pool.imap(check, todo))
    print(report.table())
    print(report.summary())
    return 1 if report.wrong else 0


if __name__ == "__main__":
    sys.exit(main())

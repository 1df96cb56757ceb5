"""Three, five and ten parties as processes over a hub on loopback: the bits of the in-process fit.

    python -m benchmarks.loopback --features 30 1000

Exits with 1 if any party has any other bit.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from benchmarks.network import example, in_process, run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parties", type=int, nargs="+", default=[3, 5, 10])
    parser.add_argument("--features", type=int, nargs="+", default=[30, 1000])
    parser.add_argument("--levels", type=int, default=4)
    options = parser.parse_args()
    for features in options.features:
        expected = in_process(example(features))
        for parties in options.parties:
            with tempfile.TemporaryDirectory(prefix="loopback-") as name:
                result = run(
                    example(features, parties), options.levels, expected, Path(name) / "run"
                )
            print(
                f"{features} features, {parties} parties: the same bits at every party; "
                f"{result['seconds']:.1f} s, {result['rounds']} rounds, at most "
                f"{result['megabytes']:.1f} MB sent by a party",
                flush=True,
            )


if __name__ == "__main__":
    main()

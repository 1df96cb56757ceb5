"""Wrong gates and products by the thousand: is any of them accepted?

`python -m tests.engines.wrong_results --tries 10000` tries so many of each: a single bit or any
number, at a random member and place; of gates also with a proof that absorbs the error, of products
with what might hide it. It ends with exit code 1 at the first that was accepted.
"""

from __future__ import annotations

import argparse
import secrets
import sys
from collections.abc import Callable
from unittest import mock

from securefedyj.engines.replicated.shares import Member
from securefedyj.errors import Unverified
from tests.engines import test_gates, test_products


def wrong_gate() -> bool:
    """Whether a wrong gate is accepted."""
    trio, prover = test_gates.wrong_trio()
    return test_gates.accepted(trio, prover)


def wrong_product() -> bool:
    """Whether a wrong product is accepted."""
    error = test_products.wrong_reshare(
        secrets.randbelow(3), secrets.randbelow(2), *test_products.errors()
    )
    with mock.patch.object(Member, "reshare", error):
        try:
            test_products.run()
        except Unverified:
            return False
    return True


def try_often(what: str, accepted: Callable[[], bool], tries: int) -> None:
    for number in range(1, tries + 1):
        if accepted():
            print(f"a wrong {what} was accepted, at try {number}")
            sys.exit(1)
        if number % 1000 == 0:
            print(f"{number} {what}s", file=sys.stderr, flush=True)
    print(f"{tries} wrong {what}s, none accepted", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tries", type=int, default=10_000, help="of gates, and of products")
    tries = parser.parse_args().tries
    try_often("gate", wrong_gate, tries)
    try_often("product", wrong_product, tries)


if __name__ == "__main__":
    main()

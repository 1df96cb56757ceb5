"""`python -m experiments`: the paper's figures and tables again, and a page of all.

Exit codes: 0 done, 1 an error told in one sentence, 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

OK, FAILED, INTERRUPTED = 0, 1, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the items that are asked for; the exit code is returned."""
    options = _parser().parse_args(arguments)
    try:
        _run(options)
    except KeyboardInterrupt:
        return INTERRUPTED
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        return _failed(f'{package} is missing: pip install "securefedyj[paper]"')
    except (OSError, ValueError) as error:
        return _failed(str(error))
    return OK


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m experiments",
        description="Compute the paper's figures and tables again; write them and a page of all.",
    )
    parser.add_argument(
        "items", nargs="*", metavar="ITEM", help="number or name of an item (default: all)"
    )
    parser.add_argument(
        "--data",
        type=Path,
        metavar="FOLDER",
        help="datasets that come with no package (default: the variable SECUREFEDYJ_DATA)",
    )
    parser.add_argument("--quick", action="store_true", help="fewer features, draws and points")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("out/paper"),
        metavar="FOLDER",
        help="where paper.html, figures and data are saved (default: %(default)s)",
    )
    return parser


def _run(options: argparse.Namespace) -> None:
    # The items need the extra `paper`: here, so that `main` can say so.
    from experiments import datasets, runner
    from experiments.item import Settings

    names = runner.identify(options.items)
    settings = Settings(quick=options.quick, data=datasets.folder(options.data))
    runner.run(names, settings, options.output)


def _failed(sentence: str) -> int:
    print(f"experiments: {sentence}", file=sys.stderr)
    return FAILED


if __name__ == "__main__":
    sys.exit(main())

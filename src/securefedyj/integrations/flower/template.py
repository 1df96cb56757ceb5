"""The folder that `flwr run` wants: it has no code, and of the agreed file only the digest.

python -m securefedyj.integrations.flower.template consortium.toml fit
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from securefedyj.files import write_atomically
from securefedyj.integrations.job import named
from securefedyj.network.consortium import Consortium

FILE = "pyproject.toml"


def project(
    digest: str,
    parties: Sequence[str],
    server: str = "securefedyj.integrations.flower.server",
    client: str = "securefedyj.integrations.flower.client",
) -> str:
    """The description of a run, with the modules of its apps."""
    text = files(__package__).joinpath("template.toml").read_text(encoding="utf-8")
    return text.format(digest=digest, parties=", ".join(parties), server=server, client=client)


def write(consortium: Consortium, folder: Path) -> Path:
    """Write the file of a folder that `flwr run` starts; return its path."""
    if (folder / FILE).exists():
        raise FileExistsError(
            f"{folder / FILE} exists; nothing is replaced: choose another folder."
        )
    folder.mkdir(parents=True, exist_ok=True)
    text = project(named(consortium), consortium.party_names)
    write_atomically(folder / FILE, text.encode())
    return folder / FILE


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Write the folder of a run, for `flwr run`.")
    parser.add_argument("consortium", type=Path, metavar="FILE", help="a consortium.toml")
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="gets a pyproject.toml")
    options = parser.parse_args(arguments)
    try:
        path = write(Consortium.read(options.consortium), options.folder)
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    print(f"Wrote {path}. Start the run: flwr run {options.folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

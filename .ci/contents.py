"""Check what wheel and sdist hold: the package and nothing else; all that the repository has."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

PACKAGE = "src/securefedyj/"
KERNEL = "securefedyj/_kernel.abi3.so"


def main(folder: Path) -> None:
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    git = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True)
    tracked = {name for name in git.stdout.splitlines() if Path(name).exists()}
    ours = {name.removeprefix("src/") for name in tracked if name.startswith(PACKAGE)}

    held = {entry.filename for entry in zipfile.ZipFile(wheel).infolist() if not entry.is_dir()}
    packaged = {name for name in held if ".dist-info/" not in name}
    tell("the wheel lacks", (ours | {KERNEL}) - packaged)
    tell("the wheel should not have", packaged - ours - {KERNEL})
    if "-cp311-abi3-" not in wheel.name:
        sys.exit(f"{wheel.name} is not for every version of Python from 3.11 on")
    tell("the wheel lacks", {"LICENSE"} - {Path(name).name for name in held})

    with tarfile.open(sdist) as archive:
        files = [member.name for member in archive.getmembers() if member.isfile()]
        unpacked = {name.partition("/")[2] for name in files}
    tell("the sdist lacks", tracked - unpacked)
    tell("the sdist should not have", {name for name in unpacked - tracked if not generated(name)})
    print(f"{wheel.name}: {len(held)} files; {sdist.name}: {len(unpacked)} files")


def generated(name: str) -> bool:
    """Whether setuptools has added it."""
    return name in ("PKG-INFO", "setup.cfg") or ".egg-info" in name


def tell(what: str, names: set[str]) -> None:
    if names:
        sys.exit(f"{what} {', '.join(sorted(names))}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

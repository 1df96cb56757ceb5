"""Check what wheel and sdist hold: the package and nothing else; all that the repository has."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

PACKAGE = "src/securefedyj/"


def main(folder: Path) -> None:
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    git = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True)
    tracked = {name for name in git.stdout.splitlines() if Path(name).exists()}
    ours = {name.removeprefix("src/") for name in tracked if name.startswith(PACKAGE)}

    held = set(zipfile.ZipFile(wheel).namelist())
    packaged = {name for name in held if ".dist-info/" not in name}
    tell("the wheel lacks", ours - packaged)
    tell("the wheel should not have", packaged - ours)
    tell("the wheel lacks", {"LICENSE"} - {Path(name).name for name in held})

    with tarfile.open(sdist) as archive:
        unpacked = {name.partition("/")[2] for name in archive.getnames()}
    tell("the sdist lacks", tracked - unpacked)
    tell("the sdist should not have", unpacked - tracked - {"PKG-INFO"})
    print(f"{wheel.name}: {len(held)} files; {sdist.name}: {len(unpacked)} files")


def tell(what: str, names: set[str]) -> None:
    if names:
        sys.exit(f"{what} {', '.join(sorted(names))}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

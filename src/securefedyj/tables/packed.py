"""Text files, plain or compressed: how their names end says which."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from securefedyj.tables.cells import TableError

PACKED = ("", ".gz", ".bz2", ".zst")
_FIRST_BYTES = re.compile(
    rb"(?P<gz>\x1f\x8b)|(?P<bz2>BZh[1-9]1AY&SY)|(?P<zst>\x28\xb5\x2f\xfd)", re.DOTALL
)
_LEVEL = 6  # of gzip's 9; higher levels take long for little


@contextmanager
def opened(where: Path | str, opener: Callable[[], Any]) -> Iterator[Any]:
    """The bytes of a CSV file, decompressed; errors name it."""
    try:
        with opener() as file:
            yield file
    except UnicodeError:
        raise TableError(
            "SFY-TAB-003",
            f"{where}: some bytes do not fit the encoding; give another --encoding, or save the "
            "table as UTF-8",
        ) from None
    except (EOFError, OSError, zlib.error) as error:
        if getattr(error, "errno", None) is not None:  # of the system, not of a decompressor
            raise
        raise TableError(
            "SFY-TAB-004", f"{where}: the compressed file is damaged: {error}; copy it again"
        ) from None
    except csv.Error as error:
        raise TableError(
            "SFY-TAB-005", f"{where}: this is not CSV: {error}; is a quote missing?"
        ) from None


def unpacking(path: Path | str) -> Any:
    """The bytes of a file, decompressed; its first bytes count for more than its name."""
    with open(path, "rb") as file:
        found = _FIRST_BYTES.match(file.read(10))
    match f".{found.lastgroup}" if found else Path(path).suffix.lower():
        case ".gz":
            return gzip.open(path, "rb")
        case ".bz2":
            return bz2.open(path, "rb")
        case ".zst":
            raw: Any = pa.CompressedInputStream(pa.OSFile(str(path)), "zstd")
            return io.BufferedReader(raw)
        case _:
            return open(path, "rb")


@contextmanager
def packing(path: Path) -> Iterator[IO[bytes]]:
    """A new file, compressed while it is written; the same table gives the same bytes."""
    with open(path, "wb") as file:
        packed: Any
        match path.suffix.lower():
            case ".gz":  # neither name nor time goes into the file
                packed = gzip.GzipFile("", "wb", _LEVEL, file, mtime=0)
            case ".bz2":
                packed = bz2.BZ2File(file, "wb")
            case ".zst":
                packed = pa.CompressedOutputStream(file, "zstd")
            case _:
                yield file
                return
        with packed:
            yield packed

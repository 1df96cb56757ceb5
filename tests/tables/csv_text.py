"""CSV files for tests."""

from __future__ import annotations

from pathlib import Path


def csv_of(folder: Path, text: str, name: str = "t.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path

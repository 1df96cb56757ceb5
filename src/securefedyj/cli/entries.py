"""Parties and features as they are given on the command line, or in a table."""

from __future__ import annotations

import csv
from pathlib import Path

from securefedyj.errors import InputError
from securefedyj.network.consortium import Feature, PartyEntry
from securefedyj.network.identity import fingerprint, read_certificate


def party_of(entry: str, role: str = "silo") -> PartyEntry:
    """A party, from NAME=CERT.pem."""
    name, equals, path = entry.partition("=")
    if not equals:
        raise InputError(
            "SFY-CLI-006", f"{entry!r} must be NAME=CERT.pem, such as north=north.pem."
        )
    pem = read_certificate(Path(path))
    return PartyEntry(name, role, fingerprint(pem), pem)


def feature_of(entry: str) -> Feature:
    """A feature, from NAME:LOWER:UPPER."""
    try:
        name, lower, upper = entry.rsplit(":", 2)
        return Feature(name, float(lower), float(upper))
    except ValueError:
        raise InputError(
            "SFY-CLI-007", f"{entry!r} must be NAME:LOWER:UPPER, such as lactate:0:40."
        ) from None


def features_of(path: Path) -> list[Feature]:
    """The features of a table with the columns name, lower, upper, separated as Excel does."""
    with open(path, newline="", encoding="utf-8-sig") as file:
        first = file.readline()
        file.seek(0)
        rows = csv.DictReader(file, delimiter=max(",;\t", key=first.count))
        missing = {"name", "lower", "upper"} - set(rows.fieldnames or ())
        if missing:
            raise InputError(
                "SFY-CLI-008", f"{path}, line 1: there is no column {sorted(missing)[0]!r}."
            )
        return [_feature_of(row, path, rows.line_num) for row in rows]


def _feature_of(row: dict[str, str], path: Path, line: int) -> Feature:
    try:
        lower, upper = float(row["lower"]), float(row["upper"])
    except (TypeError, ValueError):
        raise InputError(
            "SFY-CLI-009",
            f"{path}, line {line}: lower and upper must be numbers, with a decimal point.",
        ) from None
    return Feature(row["name"], lower, upper, row.get("unit") or "", row.get("note") or "")

"""The mistakes that people make, and the files with which they make them."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
import openpyxl
import pandas as pd

from securefedyj import SecureFedYJ, save
from securefedyj.network import local
from securefedyj.network.consortium import Feature
from securefedyj.tables.files import write_table

FEATURES = [Feature("age", 0.0, 120.0), Feature("lactate", 0.0, 40.0)]
ANA = "--key ana.key --certificate ana.pem"
JOIN = f"join consortium.toml {ANA} --ledger ledger.jsonl --wait 0.5 --timeout 2"


SILOS = "--silo ana=ana.pem --silo bob=bob.pem --silo cem=cem.pem"


class Mistake(NamedTuple):
    """What is typed, the code of the error, and words of its cause and of its remedy."""

    typed: str
    code: str
    cause: str
    remedy: str
    exits: int = 1


CHECK = "check consortium.toml --ledger ledger.jsonl --data"
TABLES = {
    "no such table": Mistake(f"{CHECK} nowhere.csv", "SFY-OS-ENOENT", "no such file", "check the"),
    "a URL": Mistake(f"{CHECK} https://h.org/t.csv", "SFY-TAB-050", "network", "download it"),
    "a folder without tables": Mistake(f"{CHECK} empty", "SFY-TAB-028", "no table", "another"),
    "an old workbook": Mistake(f"{CHECK} old.xls", "SFY-TAB-016", ".xls", "save it as"),
    "several sheets": Mistake(f"{CHECK} two.xlsx", "SFY-TAB-048", "several sheets", "--sheet"),
    "merged cells": Mistake(f"{CHECK} merged.xlsx", "SFY-TAB-046", "A1:B1", "Unmerge"),
    "a title above the table": Mistake(f"{CHECK} title.xlsx", "SFY-TAB-049", "row", "remove"),
    "text named .xlsx": Mistake(
        f"{CHECK} text.xlsx", "SFY-TAB-047", "not an Excel", "name it .csv"
    ),
    "another program's file": Mistake(f"{CHECK} t.rds", "SFY-TAB-034", "must end in", "Export"),
    "a cut Parquet file": Mistake(f"{CHECK} cut.parquet", "SFY-TAB-036", "not a Parquet", "copy"),
    "a cut gzip file": Mistake(f"{CHECK} cut.csv.gz", "SFY-TAB-004", "damaged", "copy"),
    "an empty file": Mistake(f"{CHECK} empty.csv", "SFY-TAB-015", "empty", "must name the columns"),
    "UTF-16 without a mark": Mistake(f"{CHECK} utf16.csv", "SFY-TAB-017", "UTF-16", "--encoding"),
    "Windows-1252": Mistake(f"{CHECK} cp1252.csv", "SFY-TAB-014", "not UTF-8", "--encoding"),
    "an open quote": Mistake(f"{CHECK} quote.csv", "SFY-TAB-006", "a quote is open", "close it"),
    "text in a column": Mistake(
        f"{JOIN} --output o --data text.csv", "SFY-TAB-100", "'old'", "--missing"
    ),
    "a decimal comma": Mistake(
        f"{JOIN} --output o --data comma.csv", "SFY-TAB-100", "'1,5'", "--decimal ,"
    ),
    "a limit of detection": Mistake(
        f"{JOIN} --output o --data limit.csv", "SFY-TAB-100", "'<0.5'", "--below-limit"
    ),
    "a date": Mistake(
        f"{JOIN} --output o --data dates.csv", "SFY-TAB-100", "'2026-01-01'", "compute"
    ),
    "a column of another name": Mistake(
        f"{JOIN} --output o --data names.csv", "SFY-TAB-027", "'age'", "perhaps 'Age'"
    ),
    "another unit": Mistake(
        f"{JOIN} --output o --data outside.csv", "SFY-NUM-009", "age", "check --data"
    ),
    "a draft that is there": Mistake(
        "features ana.csv --output consortium.toml", "SFY-CLI-010", "exists", "move it"
    ),
    "a draft of texts": Mistake(
        "features words.csv", "SFY-CLI-011", "no column of numbers", "docs/tables.md"
    ),
}
FILES = {
    "half of a file": Mistake(
        "check half.toml", "SFY-CON-026", "not a TOML", "Give the whole file"
    ),
    "parameters for an agreed file": Mistake(
        "check parameters.json", "SFY-CON-026", "not a TOML", "Give the whole file"
    ),
    "an agreed file in UTF-16": Mistake(
        "check utf16.toml", "SFY-CON-026", "UTF-8", "Give the whole file"
    ),
    "a site file for an agreed file": Mistake(
        "check site/securefedyj.toml", "SFY-CON-023", "not an agreed", "give"
    ),
    "a path of Windows": Mistake(
        "join --site site/windows.toml", "SFY-SITE-003", "not a TOML", "single quotes"
    ),
    "an unknown key": Mistake(
        "join --site site/unknown.toml", "SFY-SITE-005", "'datum'", "may have"
    ),
    "a new file that is there": Mistake(
        "new consortium.toml --name n --feature age:0:120 " + SILOS,
        "SFY-CLI-016",
        "exists",
        "move",
    ),
    "features as Excel writes them": Mistake(
        "new n.toml --name n --features cp1252.csv", "SFY-CLI-030", "UTF-8", "save it"
    ),
    "bounds of one number": Mistake(
        "new n.toml --name n --feature age:120", "SFY-CLI-007", "'age:120'", "NAME:LOWER:UPPER"
    ),
    "two parties": Mistake(
        "new n.toml --name n --silo ana=ana.pem --silo bob=bob.pem --feature age:0:120",
        "SFY-CON-004",
        "at least 3",
        "Add a party",
    ),
    "keys made twice": Mistake("keygen ana", "SFY-KEY-010", "exists", "Move it"),
    "the key of another party": Mistake(
        "join consortium.toml --key bob.key --certificate ana.pem --data ana.csv --output o",
        "SFY-NET-031",
        "not the key",
        "keygen",
    ),
    "the certificate of nobody": Mistake(
        "join consortium.toml --key hub.key --certificate hub.pem --data ana.csv --output o",
        "SFY-CON-022",
        "No party",
        "Use the key",
    ),
    "a key for everybody": Mistake(
        "join consortium.toml --key open.key --certificate ana.pem --data ana.csv --output o",
        "SFY-KEY-011",
        "others",
        "chmod",
    ),
    "no key": Mistake(
        "join consortium.toml --key none.key --certificate ana.pem --data ana.csv --output o",
        "SFY-OS-ENOENT",
        "no such file",
        "check the",
    ),
    "a key for a certificate": Mistake(
        "join consortium.toml --key ana.key --certificate ana.key --data ana.csv --output o",
        "SFY-KEY-003",
        "not a certificate",
        "swapped?",
    ),
}
RUNS = {
    "a silo without data": Mistake(f"{JOIN} --output o", "SFY-JOIN-004", "is a silo", "--data"),
    "a folder of another result": Mistake(
        f"{JOIN} --output full --data ana.csv",
        "SFY-JOIN-007",
        "cannot be resumed",
        "choose another",
    ),
    "a file for a folder": Mistake(
        f"{JOIN} --output ana.csv --data ana.csv", "SFY-OS-EEXIST", "exists", "another name"
    ),
    "nothing can be written": Mistake(
        f"{JOIN} --output /proc/o --data ana.csv", "SFY-OS-ENOENT", "/proc/o", "check the"
    ),
    "a wrong column to leave out": Mistake(
        f"{JOIN} --output o --data ana.csv --without Age",
        "SFY-CON-060",
        "'Age'",
        "the features are",
    ),
    "no hub": Mistake(
        f"{JOIN} --output o --data ana.csv",
        "SFY-JOIN-052",
        "connection refused",
        "Ask its operator",
    ),
    "a dead proxy": Mistake(
        f"{JOIN} --output p --data ana.csv --proxy http://127.0.0.1:9",
        "SFY-JOIN-052",
        "proxy at 127.0.0.1:9",
        "Ask",
    ),
    "no HTTP proxy": Mistake(
        f"{JOIN} --output p --data ana.csv --proxy socks5://127.0.0.1:9",
        "SFY-NET-025",
        "SOCKS",
        "http://",
    ),
    "a password in a list of processes": Mistake(
        f"{JOIN} --output p --data ana.csv --proxy http://a:b@127.0.0.1:9",
        "SFY-NET-024",
        "password",
        "environment",
    ),
    "no seconds": Mistake(
        f"{JOIN} --output o --data ana.csv --wait 0", "SFY-JOIN-001", "--wait", "> 0"
    ),
    "a port in use": Mistake(
        "hub consortium.toml --key hub.key --certificate hub.pem --listen 127.0.0.1:{taken}",
        "SFY-NET-038",
        "in use",
        "--listen",
    ),
    "the hub of others": Mistake(
        "hub consortium.toml --key ana.key --certificate ana.pem",
        "SFY-HUB-005",
        "not the hub's",
        "Give the certificate",
    ),
    "no agreed file in a folder": Mistake(
        "hub empty --key hub.key --certificate hub.pem", "SFY-CLI-012", "no agreed", "--listen"
    ),
    "options left out": Mistake("join consortium.toml", "", "required: --key", "usage:", 2),
    "an option that is none": Mistake(f"{CHECK} ana.csv --tabel a", "", "--tabel", "usage:", 2),
    "transcript for parameters": Mistake(
        "transform transcript.jsonl ana.csv --output t.csv",
        "SFY-PAR-009",
        "transcript.jsonl",
        "parameters.json",
    ),
    "parameters for a transcript": Mistake(
        "audit parameters.json", "SFY-RUN-010", "parameters.json", "transcript.jsonl"
    ),
    "half of a transcript": Mistake(
        "audit half.jsonl", "SFY-RUN-010", "half.jsonl", "all parties have the same"
    ),
    "half of the parameters": Mistake(
        "transform half.json ana.csv --output t.csv",
        "SFY-PAR-009",
        "half.json",
        "all parties have the same",
    ),
    "a folder for parameters": Mistake(
        "transform empty ana.csv --output t.csv",
        "SFY-PAR-008",
        "folder",
        "give its parameters.json",
    ),
    "a table that is there": Mistake(
        "transform parameters.json ana.csv --output bob.csv", "SFY-TAB-038", "exists", "--force"
    ),
    "a table onto itself": Mistake(
        "transform parameters.json ana.csv --output ana.csv --force",
        "SFY-TAB-037",
        "is the table",
        "another name",
    ),
    "values that no silo had": Mistake(
        "transform parameters.json outside.csv --output t.csv",
        "SFY-TAB-001",
        "outside",
        "--outside",
    ),
    "a report into a folder": Mistake(
        "report transcript.jsonl --output empty", "SFY-OS-EISDIR", "folder", "give a file"
    ),
}
MISTAKES = TABLES | FILES | RUNS


def make_files(folder: Path) -> None:
    """What the mistakes need."""
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.uniform(20, 90, 60), rng.lognormal(size=60)])
    names = [feature.name for feature in FEATURES]
    tables = {"ana": rows[:30], "bob": rows[30:], "cem": None}
    local.prepare(folder, tables, FEATURES)
    for empty in ("empty", "full", "site"):
        (folder / empty).mkdir()
    (folder / "full" / "parameters.json").touch()
    (folder / "old.xls").write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1")
    for name, title, merged, sheets in (
        ("two", False, False, 2), ("merged", False, True, 1), ("title", True, False, 1)
    ):  # fmt: skip
        book = openpyxl.Workbook()
        sheet = book.active
        for row in [["Export"]] * title + [names, *rows[:9].tolist()]:
            sheet.append(row)
        if merged:
            sheet.merge_cells("A1:B1")
        if sheets > 1:
            book.create_sheet("notes")["A1"] = "a"
        book.save(folder / f"{name}.xlsx")
    (folder / "t.rds").write_bytes(b"RDX3")
    write_table(folder / "whole.parquet", names, rows)
    whole = (folder / "whole.parquet").read_bytes()
    (folder / "cut.parquet").write_bytes(whole[: len(whole) // 2])
    packed = gzip.compress((folder / "ana.csv").read_bytes())
    (folder / "cut.csv.gz").write_bytes(packed[: len(packed) // 2])
    texts = {
        "text.xlsx": "age,lactate\n50,1\n",
        "empty.csv": "",
        "quote.csv": 'age,lactate\n50,"1\n60,2\n',
        "text.csv": "age,lactate\nold,1\n",
        "comma.csv": "age;lactate\n50;1,5\n",
        "limit.csv": "age,lactate\n50,<0.5\n",
        "dates.csv": "age,lactate\n2026-01-01,1\n",
        "names.csv": "Age,lactate\n50,1\n",
        "outside.csv": "age,lactate\n500,1\n",
        "words.csv": "ward\nicu\n",
        "site/securefedyj.toml": 'key = "../ana.key"\n',
        "site/windows.toml": 'data = "C:\\data\\rows.csv"\n',
        "site/unknown.toml": 'datum = "rows.csv"\n',
        "half.json": "",
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    header = "Größe,lactate\n50,1\n"
    (folder / "cp1252.csv").write_bytes(header.encode("cp1252"))
    (folder / "utf16.csv").write_bytes("age,lactate\n50,1\n".encode("utf-16-le"))
    agreed = (folder / "consortium.toml").read_text()
    (folder / "half.toml").write_text(agreed[: agreed.index("BEGIN") + 9])
    (folder / "utf16.toml").write_bytes(agreed.encode("utf-16"))
    (folder / "open.key").write_bytes((folder / "ana.key").read_bytes())
    os.chmod(folder / "open.key", 0o644)
    frame = pd.DataFrame(rows, columns=names)
    fitted = SecureFedYJ(bounds=(0, 128), engine="clear").fit([frame])
    fitted.transcript_.write(folder / "transcript.jsonl")
    save(fitted, folder / "parameters.json")
    for name, half in (("transcript.jsonl", "half.jsonl"), ("parameters.json", "half.json")):
        text = (folder / name).read_text()
        (folder / half).write_text(text[: len(text) // 2])

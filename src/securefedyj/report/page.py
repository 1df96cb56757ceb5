"""The report of a run: one HTML file that stands alone and needs no network."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

from securefedyj import __version__
from securefedyj.errors import InputError
from securefedyj.files import write_atomically
from securefedyj.numerics.arrays import Array
from securefedyj.parameters import digest_of
from securefedyj.protocol.audit import Audit
from securefedyj.protocol.result import Result
from securefedyj.protocol.transcript import Transcript
from securefedyj.report import cards, features, statement
from securefedyj.report.cost import Column
from securefedyj.report.cost import table as cost_table
from securefedyj.report.findings import findings
from securefedyj.report.markup import count_range, name_list, text
from securefedyj.report.own import OwnRows
from securefedyj.report.provenance import Provenance

PLOTS = 30
_VERIFICATION = {
    None: "none: one party that cheats could have falsified the result",
    False: "agreed on, but the transcript does not tell that it succeeded",
    True: "agreed on; the verdict was opened as 1, and whoever took part has checked it",
}


def write(
    path: Path | str,
    transcript: Transcript,
    values: Array | None = None,
    cost: Mapping[str, Column] | None = None,
    plots: int = PLOTS,
    rows: int | None = None,
    provenance: Provenance | None = None,
) -> None:
    """Write the report, whole or not at all; for its owner alone if it tells what others do not."""
    content = render(transcript, values, cost, plots, rows, provenance).encode()
    write_atomically(path, content, private=values is not None or provenance is not None)


def render(
    transcript: Transcript,
    values: Array | None = None,
    cost: Mapping[str, Column] | None = None,
    plots: int = PLOTS,
    rows: int | None = None,
    provenance: Provenance | None = None,
) -> str:
    """The page as text.

    Parameters
    ----------
    transcript : Transcript
        Of a finished run.
    values : array of shape (n_rows, n_features), optional
        The silo's own rows, features in the order of the agreement. They are drawn.
    cost : mapping of Column, optional
        The columns of the table of costs (`securefedyj.report.cost`), by their headings.
    plots : int
        At most this many features are drawn.
    rows : int, optional
        How many rows the silo has, if the values are a sample of them.
    provenance : Provenance, optional
        Who has written the result down, when, and from which table.
    """
    if transcript.result is None:
        raise InputError(
            "SFY-REP-006", "the transcript has no result: the run did not come to its end"
        )
    if provenance is not None and provenance.transcript_sha256 != digest_of(transcript):
        raise InputError("SFY-REP-007", "the provenance is that of another transcript")
    audit, result = transcript.audit(), transcript.result
    own = None if values is None else OwnRows(values, result, rows)
    found = findings(transcript, result, own)
    drawn = cards.chosen(result, found, own, plots)
    aside = " and ".join(["the cost"] * bool(cost) + ["who wrote it"] * (provenance is not None))
    sections = [
        _heading(transcript, provenance),
        *statement.notices(transcript, audit, own, aside),
        _summary(transcript, result, audit),
        features.noteworthy(transcript, found),
        features.table(transcript, result, found, own, drawn),
        cards.section(transcript, result, found, own, drawn),
        statement.revealed(transcript, audit),
        cost_table(cost),
        _where_from(transcript, provenance),
        statement.statement(transcript, result, audit, provenance),
    ]
    return _page("\n".join(sections))


def _heading(transcript: Transcript, provenance: Provenance | None) -> str:
    origin = transcript.origin
    run = "a run" if origin is None else f"run <bdi>{text(origin.name)}</bdi>"
    if provenance is not None:
        run += f" on {text(provenance.finished[:10])}"
    return (
        "<h1>One Yeo-Johnson transformation per feature, fitted together</h1>\n"
        f'<p class="quiet">Report of {run}, made from its transcript by securefedyj '
        f"{__version__}.</p>"
    )


def _summary(transcript: Transcript, result: Result, audit: Audit) -> str:
    agreement = transcript.agreement
    tiles = {
        "features": f"{transcript.n_features:,}",
        "values per feature": count_range(result.n),
        "parties": str(len(agreement.parties)),
        "at the edge": str(int(result.at_bound.sum())),
        "constant": str(int(result.constant.sum())),
        "audit": "passed" if audit.passed else "FAILED",
    }
    parts = [
        "<p>Each party with data holds rows of the same table, and may not show them to others. "
        "Together they fitted one transformation for each feature, which makes its distribution "
        "as close to a normal one as this family of transformations can, as if all rows were in "
        "one place. The fit is given by three numbers per feature: λ, which says how strongly "
        "the feature is bent, and the mean and variance of the transformed feature.</p>",
        '<dl class="tiles">',
        *(f"<div><dt>{key}</dt><dd>{value}</dd></div>" for key, value in tiles.items()),
        "</dl>",
        '<dl class="facts">',
        f"<dt>Parties</dt><dd>{name_list(agreement.parties)}</dd>",
        f"<dt>Without data</dt><dd>{name_list(agreement.helpers)}</dd>" * bool(agreement.helpers),
        f"<dt>Computed by</dt><dd>{name_list(agreement.committee)} "
        f"(engine <code>{text(agreement.engine)}</code>)</dd>",
        f"<dt>Search</dt><dd>at most {agreement.max_steps} steps</dd>",
        f"<dt>Mean and variance</dt><dd>to {agreement.result_bits} bits</dd>",
        f"<dt>Verification</dt><dd>{_VERIFICATION[audit.verdict]}</dd>",
        "</dl>",
    ]
    return "\n".join(parts)


def _where_from(transcript: Transcript, provenance: Provenance | None) -> str:
    """What ties the page to a run, and where it is known to the party that took part in it."""
    facts = []
    if transcript.origin is not None:
        facts += [
            ("Consortium", f"<bdi>{text(transcript.origin.name)}</bdi>"),
            ("Agreed file", f"digest <code>{text(transcript.origin.digest)}</code>"),
        ]
    facts += [("Transcript", f"SHA-256 <code>{digest_of(transcript)}</code>")]
    if provenance is not None:
        by = f" ({text(provenance.user)})" if provenance.user else ""
        facts += [
            ("Result written by", f"<bdi>{text(provenance.party)}</bdi>{by}"),
            ("on", text(provenance.finished.replace("T", " ").replace("+00:00", " UTC"))),
            ("with", f"securefedyj {text(provenance.release)}"),
        ]
        if provenance.table:
            facts += [("Table", f"<bdi>{text(provenance.table)}</bdi>")]
        if provenance.rows_digest:
            key = "its key is in state.jsonl"
            facts += [("Rows", f"keyed digest <code>{text(provenance.rows_digest)}</code>, {key}")]
    listed = "".join(f"<dt>{what}</dt><dd>{value}</dd>" for what, value in facts)
    return f'<h2>Where this comes from</h2>\n<dl class="facts">{listed}</dl>'


def _page(body: str) -> str:
    style, script = (
        files("securefedyj.report").joinpath("assets", name).read_text(encoding="utf-8")
        for name in ("report.css", "report.js")
    )
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>SecureFedYJ report</title>
<style>
{style}</style>
</head>
<body>
{body}
<script>{script}</script>
</body>
</html>
"""

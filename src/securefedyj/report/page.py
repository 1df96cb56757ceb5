"""The report of a run: one HTML file that stands alone and needs no network."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

from securefedyj import __version__
from securefedyj.files import replacing
from securefedyj.numerics.arrays import Array
from securefedyj.parameters import Parameters
from securefedyj.protocol.audit import Audit
from securefedyj.protocol.result import Result
from securefedyj.protocol.transcript import Transcript
from securefedyj.report import cards, features, statement
from securefedyj.report.cost import Column, read_cost, read_plan
from securefedyj.report.cost import table as cost_table
from securefedyj.report.markup import count_range, name_list, text

__all__ = ["PLOTS", "read_cost", "read_plan", "render", "write"]

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
) -> None:
    """Write the report, whole or not at all; with a silo's rows, for its owner's eyes alone."""
    content = render(transcript, values, cost, plots, rows).encode()
    with replacing(path) as temporary:
        if values is not None:  # also where a report was there that others could read
            temporary.chmod(0o600)
        try:
            temporary.write_bytes(content)
        except OSError as error:  # such as a full disk
            raise OSError(f"cannot write {path}: {error.strerror}") from error


def render(
    transcript: Transcript,
    values: Array | None = None,
    cost: Mapping[str, Column] | None = None,
    plots: int = PLOTS,
    rows: int | None = None,
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
    """
    if transcript.result is None:
        raise ValueError("the transcript has no result: the run did not come to its end")
    audit, result = transcript.audit(), transcript.result
    sections = [
        _heading(),
        *statement.notices(transcript, audit, values, bool(cost), rows),
        _summary(transcript, result, audit),
        features.noteworthy(transcript, result),
        features.table(transcript, result),
        cards.section(transcript, result, values, plots),
        statement.revealed(transcript, audit),
        cost_table(cost),
        statement.statement(transcript, result, audit),
    ]
    return _page("\n".join(sections))


def _heading() -> str:
    return (
        "<h1>One Yeo-Johnson transformation per feature, fitted together</h1>\n"
        f'<p class="quiet">Report of a run of securefedyj {__version__}, made from its '
        "transcript.</p>"
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
        "<dt>Transcript</dt><dd>SHA-256 "
        f"<code>{Parameters.of(transcript).transcript_sha256}</code></dd>",
        "</dl>",
    ]
    return "\n".join(parts)


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

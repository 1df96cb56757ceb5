"""The report of a run: one HTML file that stands alone and needs no network.

All text that comes from a file (names of features and parties, findings) passes through
`_text`, which escapes it; the page's own policy forbids any script but its own besides.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import skew

from securefedyj import __version__
from securefedyj.engines.registry import facts_of
from securefedyj.files import write_atomically
from securefedyj.numerics.arrays import Array
from securefedyj.parameters import Parameters
from securefedyj.protocol.audit import OPENED, Audit
from securefedyj.protocol.result import Result
from securefedyj.protocol.reveals import Step
from securefedyj.protocol.transcript import Transcript
from securefedyj.report import charts
from securefedyj.report.charts import number
from securefedyj.report.charts import text as _text

# With fewer values, exact means and variances come close to telling the values themselves.
FEW_VALUES = 10
PLOTS = 30
_LISTED = 12  # names in a sentence


@dataclass(frozen=True)
class Cost:
    """What a run took, or what a plan says it will take."""

    rounds: int | None
    bytes_sent: dict[str, int]
    """By each party, as far as it is known."""
    most_sent: int | None
    """By the party that sends most."""
    seconds: float | None
    bytes_received: dict[str, int] = field(default_factory=dict)
    seconds_of: dict[str, float] = field(default_factory=dict)
    """The parts of the time, as far as they are known."""


_PARTS = {
    "seconds_local": "sums of own rows",
    "seconds_secure": "secure computation",
    "seconds_waiting": "waiting for others",
}


def write(
    path: Path | str,
    transcript: Transcript,
    values: Array | None = None,
    cost: dict[str, Cost] | None = None,
    plots: int = PLOTS,
) -> None:
    """Write the report, whole or not at all."""
    write_atomically(path, render(transcript, values, cost, plots).encode())


def render(
    transcript: Transcript,
    values: Array | None = None,
    cost: dict[str, Cost] | None = None,
    plots: int = PLOTS,
) -> str:
    """The page as text.

    Parameters
    ----------
    transcript : Transcript
        Of a finished run.
    values : array of shape (n_rows, n_features), optional
        The silo's own rows, features in the order of the agreement. They are drawn.
    cost : dict of Cost, optional
        Columns of the table of costs by their heading.
    plots : int
        So many features are drawn at most.
    """
    if transcript.result is None:
        raise ValueError("the transcript has no result: the run did not come to its end")
    audit = transcript.audit()
    sections = [
        _heading(transcript, audit, values, bool(cost)),
        _worth_a_look(transcript, transcript.result),
        _feature_table(transcript, transcript.result),
        _feature_plots(transcript, transcript.result, values, plots),
        _revealed(transcript, audit),
        _cost_table(cost),
        _statement(transcript, transcript.result, audit),
    ]
    return _page("\n".join(sections))


def read_cost(path: Path | str) -> Cost:
    """The cost of a run, from JSON with the fields of `simulation.Cost` or `network.Cost`.

    Bytes may be given by party and peer, by party, or as one number: that of `party`.
    """
    data = _read_object(path)
    own = str(data.get("party", "this party"))
    try:
        sent = _by_party(data["bytes_sent"], own)
        received = _by_party(data.get("bytes_received", {}), own)
        seconds = [float(data[key]) for key in data if key.startswith("seconds")]
        return Cost(
            data.get("rounds"),
            sent,
            max(sent.values()) if len(sent) > 1 else None,
            sum(seconds) if seconds else None,
            received,
            {words: float(data[key]) for key, words in _PARTS.items() if key in data},
        )
    except (AttributeError, KeyError, TypeError, ValueError):
        raise ValueError(
            f"{path}: this is no cost of a run; it must be an object with the fields rounds, "
            "bytes_sent, and seconds or seconds_local and seconds_secure"
        ) from None


def _by_party(count: Any, own: str) -> dict[str, int]:
    counts = count if isinstance(count, dict) else {own: count}
    return {
        str(party): int(sum(part.values()) if isinstance(part, dict) else part)
        for party, part in counts.items()
    }


def read_plan(path: Path | str, levels_per_exchange: int) -> Cost:
    """What `securefedyj plan --json` said about a run with so many levels."""
    data = _read_object(path)
    try:
        for plan in data["levels"]:
            if plan["levels"] == levels_per_exchange:
                sent = round(1e6 * float(plan["megabytes"]))
                return Cost(int(plan["rounds"]), {}, sent, float(plan["seconds"]))
    except (AttributeError, KeyError, TypeError, ValueError):
        raise ValueError(f"{path}: this is not what `securefedyj plan --json` prints") from None
    raise ValueError(f"{path}: the plan does not say what {levels_per_exchange} levels cost")


def _read_object(path: Path | str) -> dict[str, Any]:
    try:
        data = json.loads(Path(path).read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: this is no JSON file: {error}") from None
    if not isinstance(data, dict):
        raise ValueError(f"{path}: this holds no JSON object")
    return data


# Sections


def _heading(transcript: Transcript, audit: Audit, values: Array | None, with_cost: bool) -> str:
    agreement, result = transcript.agreement, transcript.result
    assert result is not None
    tiles = {
        "features": f"{transcript.n_features:,}",
        "values per feature": _range(result.n),
        "parties": str(len(agreement.parties)),
        "at the edge": str(int(result.at_bound.sum())),
        "constant": str(int(result.constant.sum())),
        "audit": "passed" if audit.passed else "FAILED",
    }
    parts = [
        "<h1>One Yeo-Johnson transformation per feature, fitted together</h1>",
        f'<p class="quiet">Report of a run of securefedyj {__version__}, made from its '
        "transcript.</p>",
        *_notices(transcript, audit, values, with_cost),
        "<p>The parties below hold rows of the same table and may not show them to each other. "
        "Together they fitted one transformation for each feature, which makes its distribution "
        "as close to a normal one as this family of transformations can, as if all rows were in "
        "one place. The fit is given by three numbers per feature: λ, which says how strongly "
        "the feature is bent, and the mean and variance of the transformed feature.</p>",
        '<dl class="tiles">',
        *(f"<div><dt>{key}</dt><dd>{value}</dd></div>" for key, value in tiles.items()),
        "</dl>",
        '<dl class="facts">',
        f"<dt>Parties</dt><dd>{_list(agreement.parties)}</dd>",
        f"<dt>Computed by</dt><dd>{_list(agreement.committee)} "
        f"(engine <code>{_text(agreement.engine)}</code>)</dd>",
        f"<dt>Search</dt><dd>at most {agreement.max_steps} steps</dd>",
        "<dt>Transcript</dt><dd>SHA-256 "
        f"<code>{Parameters.of(transcript).transcript_sha256}</code></dd>",
        "</dl>",
    ]
    return "\n".join(parts)


def _notices(
    transcript: Transcript, audit: Audit, values: Array | None, with_cost: bool
) -> Iterator[str]:
    if values is not None:
        yield _notice(
            "warn",
            "This page shows your own data. Keep it in your organization.",
            f"The histograms and Q-Q plots are drawn from the {len(values):,} rows of your table, "
            "on your machine. They were not sent to anybody, and no other party has them. To share "
            "a report, make one without <code>--data</code>.",
        )
    else:
        yield _notice(
            "good",
            "Every party knows what is on this page" + (", except the cost." * with_cost or "."),
            "It was made from the transcript, without anybody's rows.",
        )
    facts = facts_of(transcript.agreement.engine)
    if not facts.secure:
        yield _notice(
            "warn",
            "This run kept nothing secret.",
            f"Engine <code>{facts.name}</code> is for tests: every party saw the sums of every "
            "silo.",
        )
    if not audit.passed:
        yield _notice(
            "warn",
            "The audit failed.",
            "Something was revealed that does not follow from the result, or the transcript was "
            "changed. See what was revealed, below.",
        )


def _worth_a_look(transcript: Transcript, result: Result) -> str:
    names = np.array(transcript.agreement.features, dtype=object)
    unresolved = np.isin(names, transcript.unresolved())
    few = (result.n < FEW_VALUES) & (result.n > 0)
    findings = [
        (
            "at the edge",
            result.at_bound,
            "The best λ lies beyond the range that the agreed bounds admit, and λ is the edge of "
            "that range. Either the bounds are far wider than the values, and tighter ones would "
            "help; or nearly all values are the same.",
        ),
        (
            "constant",
            result.constant & (result.n > 1),
            "All values at all silos are equal, and the mean tells which value that is.",
        ),
        (
            "unresolved",
            unresolved,
            "The values vary too little for their bounds, and λ may be wrong. Agree on bounds "
            "closer to the values, or change the unit.",
        ),
        (
            f"with fewer than {FEW_VALUES} values",
            few,
            "Exact statistics of so few values can tell the values themselves. Leave such "
            "features out of the next run.",
        ),
        ("without values", result.n == 0, "No silo has any; λ is set to 1."),
    ]
    items = [
        f"<li><strong>{int(chosen.sum()):,} {what}:</strong> {_list(names[chosen].tolist())}. "
        f"{words}</li>"
        for what, chosen, words in findings
        if chosen.any()
    ]
    body = f"<ul>{''.join(items)}</ul>" if items else "<p>No feature stands out.</p>"
    return f"<h2>Worth a look</h2>\n{body}"


def _feature_table(transcript: Transcript, result: Result) -> str:
    rows = "\n".join(
        f"<tr><td><bdi>{_text(name)}</bdi> {_flags(result, j)}</td><td>{int(n)}</td>"
        f"<td>{number(lmbda, 5)}</td><td>{number(mean)}</td><td>{number(var)}</td></tr>"
        for j, (name, n, lmbda, mean, var) in enumerate(
            zip(
                transcript.agreement.features,
                result.n,
                result.lmbda,
                result.mean,
                result.var,
                strict=True,
            )
        )
    )
    tall = " tall" if transcript.n_features > 40 else ""
    return f"""<h2>All features</h2>
<p class="quiet">Mean and variance are those of the transformed feature over all silos, before it is
standardized. The exact numbers are in parameters.json.</p>
<div class="filter" id="filter" hidden>
<input type="search" id="filter-text" placeholder="Filter by name" aria-label="Filter by name">
<label><input type="checkbox" id="filter-flagged"> only with a note</label>
<span class="quiet" id="filter-count" aria-live="polite"></span></div>
<div class="scroll{tall}"><table id="features">
<thead><tr><th>Feature</th><th>n</th><th>λ</th><th>Mean</th><th>Variance</th></tr></thead>
<tbody>
{rows}
</tbody></table></div>"""


def _flags(result: Result, j: int) -> str:
    flags = []
    if result.n[j] == 0:
        flags.append("no values")
    elif result.n[j] < FEW_VALUES:
        flags.append("few values")
    if result.at_bound[j]:
        flags.append("at the edge")
    if result.constant[j] and result.n[j] > 1:
        flags.append("constant")
    return " ".join(f'<span class="flag">{flag}</span>' for flag in flags)


def _feature_plots(transcript: Transcript, result: Result, values: Array | None, plots: int) -> str:
    bent = np.abs(result.lmbda - 1) if values is None else np.abs(_skewness(values))
    chosen = worth_plotting(result, np.nan_to_num(bent), plots)
    searches = _searches(transcript)
    if values is None:
        cards = [_search_card(transcript, result, searches[j], j) for j in chosen]
        title, small = "The search", " small"
    else:
        fitted = Parameters.of(transcript).estimator()
        Z = fitted.transform(_unnamed(fitted, values))
        cards = [
            _data_card(transcript, result, searches[j], j, values[:, j], Z[:, j]) for j in chosen
        ]
        title, small = "Your data before and after", ""
    return "\n".join(
        [
            f"<h2>{title}</h2>",
            _legend(values is not None),
            _which(len(chosen), transcript.n_features, values is not None),
            f'<div class="cards{small}">',
            *cards,
            "</div>",
        ]
    )


def worth_plotting(result: Result, interest: Array, limit: int) -> list[int]:
    """All features if they are few; else the first ones, and of the rest the most interesting."""
    p = len(result.n)
    if p <= limit:
        return list(range(p))
    first = max(1, limit // 3) if limit else 0
    order = np.lexsort((-interest, ~result.at_bound))
    rest = [int(j) for j in order if j >= first and not result.constant[j]]
    return sorted([*range(first), *rest[: limit - first]])


def _legend(with_data: bool) -> str:
    about_search = (
        'The search: at each step the parties opened one sign. <span class="key up">▲</span> λ '
        'must grow, <span class="key down">▼</span> λ must shrink; the dashed line is the result. '
        "Every sign can be recomputed from the result, so the signs tell nothing besides it."
    )
    if not with_data:
        return f"<p>{about_search}</p>"
    return (
        '<div class="notice warn"><p><strong>Local only.</strong> Drawn from your own rows, on '
        "your machine, after the run.</p></div>"
        "<p>Histograms: before, with the normal curve of your own mean and variance; after, with "
        "the standard normal curve, which all silos' rows together come closest to. Yours may lie "
        "beside it, or be narrower or wider, where they differ from those of the others.</p>"
        '<p>Q-Q plot: <span class="key before">●</span> before and <span class="key after">●</span>'
        " after, against the dashed line of a normal distribution.</p>"
        f"<p>{about_search}</p>"
    )


def _which(shown: int, total: int, with_data: bool) -> str:
    if shown == total:
        return ""
    why = "that were most skewed before" if with_data else "whose λ is farthest from 1"
    return (
        f'<p class="quiet">{shown} of {total:,} features are drawn: the first ones, those at the '
        f"edge, and those {why}. More with <code>--plots</code>.</p>"
    )


def _search_card(
    transcript: Transcript, result: Result, search: tuple[Array, NDArray[np.int8]], j: int
) -> str:
    return _card(transcript, result, j, "", [_search_chart(transcript, result, search, j)])


def _data_card(
    transcript: Transcript,
    result: Result,
    search: tuple[Array, NDArray[np.int8]],
    j: int,
    x: Array,
    z: Array,
) -> str:
    name = transcript.agreement.features[j]
    missing = int(np.isnan(x).sum())
    # A table of something else may be transformed to numbers that nobody can draw.
    present = np.abs(z) < 1e100
    x, z = x[present], z[present]
    facts = f" · here {len(x):,} values" + (f", {missing:,} missing" if missing else "")
    figures = []
    deviation = float(x.std()) if len(x) else 0.0
    if deviation > 0 and np.isfinite(deviation):
        before, after = (number(float(skew(v)), 3) if v.std() > 0 else "0" for v in (x, z))
        facts += f" · skewness here {before} → {after}"
        mean = float(x.mean())
        figures = [
            ("before", charts.histogram(x, f"{name} before", "value", (mean, deviation))),
            ("after", charts.histogram(z, f"{name} after", "transformed", (0.0, 1.0))),
            ("Q-Q plot", charts.quantiles((x - mean) / deviation, z, f"Q-Q plot of {name}")),
        ]
    elif len(x):
        facts += f" · constant here, {number(float(x[0]), 6)}"
    figures.append(_search_chart(transcript, result, search, j))
    return _card(transcript, result, j, facts, figures)


def _search_chart(
    transcript: Transcript, result: Result, search: tuple[Array, NDArray[np.int8]], j: int
) -> tuple[str, str]:
    title = f"search of {transcript.agreement.features[j]}"
    return "search", charts.search(*search, float(result.lmbda[j]), title)


def _card(
    transcript: Transcript, result: Result, j: int, facts: str, figures: list[tuple[str, str]]
) -> str:
    drawn = "".join(
        f"<figure><figcaption>{caption}</figcaption>{svg}</figure>" for caption, svg in figures
    )
    return (
        f'<article class="card"><h3><bdi>{_text(transcript.agreement.features[j])}</bdi></h3>'
        f'<div class="quiet">λ {number(result.lmbda[j], 6)} · n {int(result.n[j]):,}{facts} '
        f'{_flags(result, j)}</div><div class="charts">{drawn}</div></article>'
    )


def _revealed(transcript: Transcript, audit: Audit) -> str:
    signs = transcript.signs_opened()
    parties, engine, *words = audit.who_computed()
    outcome = "The audit passed." if audit.passed else "The audit FAILED."
    findings = "".join(f"<li>{_text(finding)}</li>" for finding in audit.findings[:20])
    if len(audit.findings) > 20:
        findings += f"<li>and {len(audit.findings) - 20:,} more</li>"
    return f"""<h2>What was revealed, and to whom</h2>
<p>{_text(parties)} {_text(engine)}</p>
<p>{_text(" ".join(words))}</p>
<p>Opened to every party, and to nobody else, for each feature:</p>
<ul>{"".join(f"<li>{_text(what)}</li>" for what in OPENED)}</ul>
<p>In all, {int(signs.sum()):,} signs were opened, {_range(signs)} per feature.</p>
<p><strong>{outcome}</strong> It recomputes the result from what was revealed, and every sign from
the result. Check it yourself: <code>securefedyj audit transcript.jsonl</code></p>
<ul>{findings}</ul>"""


def _cost_table(cost: dict[str, Cost] | None) -> str:
    if not cost:
        return ""
    senders = dict.fromkeys(party for part in cost.values() for party in part.bytes_sent)
    receivers = dict.fromkeys(party for part in cost.values() for party in part.bytes_received)
    parts = dict.fromkeys(words for part in cost.values() for words in part.seconds_of)
    rows = [
        ("rounds of messages", [_count(c.rounds) for c in cost.values()]),
        ("sent by the party that sends most", [_size(c.most_sent) for c in cost.values()]),
        *(
            (f"sent by {party}", [_size(c.bytes_sent.get(party)) for c in cost.values()])
            for party in senders
        ),
        *(
            (f"received by {party}", [_size(c.bytes_received.get(party)) for c in cost.values()])
            for party in receivers
        ),
        ("time", [_seconds(c.seconds) for c in cost.values()]),
        *(
            (f"time: {words}", [_seconds(c.seconds_of.get(words)) for c in cost.values()])
            for words in parts
        ),
    ]
    body = "".join(
        f"<tr><td>{_text(name)}</td>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
        for name, cells in rows
    )
    head = "".join(f"<th>{_text(name)}</th>" for name in cost)
    return (
        '<h2>What it cost</h2>\n<div class="scroll"><table class="plain">'
        f"<thead><tr><th></th>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _statement(transcript: Transcript, result: Result, audit: Audit) -> str:
    few = int(np.sum((result.n < FEW_VALUES) & (result.n > 0)))
    constant = int(np.sum(result.constant & (result.n > 1)))
    risky = (
        f"In this run {few:,} of {transcript.n_features:,} features had fewer than {FEW_VALUES} "
        f"values in total, and {constant:,} were constant."
    )
    return f"""<h2>Statement for the data-protection officer</h2>
<p><strong>Purpose.</strong> One transformation per feature, for {transcript.n_features:,} features,
so that all parties prepare their data in the same way before they analyse them.</p>
<p><strong>What left the silo.</strong> {_what_left(transcript)}</p>
<p><strong>What every party learned.</strong> For each feature: the number of values over all silos,
whether they vary, λ, and the mean and variance of the transformed feature. These are statistics
over all silos' rows together. They are exact: no noise was added.</p>
<p><strong>What nobody learned from the protocol.</strong> {_what_stayed(transcript)}</p>
<p><strong>Who must not collude.</strong> {_collusion(transcript)} Independently of the engine, all
silos but one together can subtract their own share from the result, and then know the number, mean
and variance of the last one's values.</p>
<p><strong>What the result can tell.</strong> Exact statistics of very few values determine them, a
constant feature tells its constant, and repeated runs over nearly the same rows can be compared.
{risky}</p>
<p><strong>Assumed, not checked.</strong> That all parties ran the program as it is, with true data,
and that the connections between them were encrypted and authenticated.</p>
<p><strong>Records.</strong> The transcript holds everything that was opened; all parties have the
same one. The audit of it {"passed" if audit.passed else "FAILED"}. It shows that what was recorded
as opened follows from the result. It cannot show that parties did not talk to each other
outside of the protocol.</p>"""


def _what_left(transcript: Transcript) -> str:
    facts = facts_of(transcript.agreement.engine)
    sentence = _text(facts.what_left)
    return sentence if facts.secure else f"<strong>{sentence}</strong>"


def _what_stayed(transcript: Transcript) -> str:
    return _text(facts_of(transcript.agreement.engine).what_stayed)


def _collusion(transcript: Transcript) -> str:
    agreement = transcript.agreement
    members = [f"<bdi>{_text(name)}</bdi>" for name in agreement.committee]
    return facts_of(agreement.engine).collusion(members, len(agreement.parties))


# Pieces


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


def _list(names: Sequence[str]) -> str:
    listed = ", ".join(f"<bdi>{_text(name)}</bdi>" for name in names[:_LISTED])
    return listed + (f" and {len(names) - _LISTED:,} more" if len(names) > _LISTED else "")


def _notice(kind: str, title: str, words: str) -> str:
    return f'<div class="notice {kind}"><p><strong>{title}</strong></p><p>{words}</p></div>'


def _range(values: NDArray[Any]) -> str:
    low, high = int(values.min(initial=2**62)), int(values.max(initial=0))
    return f"{high:,}" if low >= high else f"{low:,} to {high:,}"


def _count(count: int | None) -> str:
    return "–" if count is None else f"{int(count):,}"


def _seconds(seconds: float | None) -> str:
    return "–" if seconds is None else f"{seconds:,.1f} s"


def _size(count: int | None) -> str:
    if count is None:
        return "–"
    return f"{count / 1e6:,.2f} MB" if count >= 1e5 else f"{count / 1e3:,.1f} kB"


def _searches(transcript: Transcript) -> list[tuple[Array, NDArray[np.int8]]]:
    """The lambdas that each feature visited, and the signs opened there."""
    shape = (transcript.agreement.max_steps, transcript.n_features)
    points, signs = np.zeros(shape), np.zeros(shape, dtype=np.int8)
    for reveal in transcript.all(Step):
        if 0 <= reveal.step < shape[0]:
            points[reveal.step, reveal.features] = reveal.lmbda
            signs[reveal.step, reveal.features] = reveal.delta
    return [(points[s != 0, j], s[s != 0]) for j, s in enumerate(signs.T)]


def _skewness(values: Array) -> Array:
    """Of each feature; 0 where it is not defined."""
    out = np.zeros(values.shape[1])
    for j, x in enumerate(values.T):
        x = x[~np.isnan(x)]
        if len(x) > 2 and 0 < np.ptp(x) < np.inf:
            out[j] = skew((x - x.mean()) / np.ptp(x))
    return out


def _unnamed(fitted: Any, values: Array) -> Array:
    """The columns were chosen by name; scikit-learn need not ask for names again."""
    if hasattr(fitted, "feature_names_in_"):
        del fitted.feature_names_in_
    return values

"""The page: every item with claim, values, figures and verdict, in one file."""

from __future__ import annotations

import base64
import platform
import re
from html import escape as escape_html
from pathlib import Path
from typing import TYPE_CHECKING

import numpy
import scipy
import sklearn

import securefedyj
from experiments.datasets import TCGA, UCI, available
from experiments.item import Finding, Panel, Settings, Table, Verdict

if TYPE_CHECKING:
    from experiments.runner import Outcome

_CLASSES = {
    Verdict.CONFIRMED: "good",
    Verdict.BETTER: "good",
    Verdict.PARTLY: "part",
    Verdict.DIFFERS: "part",
    Verdict.NOT_CONFIRMED: "bad",
}
_SIGNS = {"good": "✓", "part": "≈", "bad": "✗"}

_STYLE = """
:root { --ink: #1c1e21; --soft: #5b6168; --line: #dfe3e8; --paper: #ffffff; --back: #f5f6f8;
  --good: #00664a; --part: #8a5a00; --bad: #a63f00; --link: #005a8f; }
* { box-sizing: border-box; }
body { margin: 0; font: 16px/1.55 system-ui, "Segoe UI", Roboto, Helvetica, Arial, sans-serif;
  color: var(--ink); background: var(--back); }
main, header { max-width: 1080px; margin: 0 auto; padding: 0 1rem; }
header { padding-top: 2rem; }
h1 { font-size: clamp(1.5rem, 4vw, 2.1rem); line-height: 1.2; margin: 0 0 .6rem; }
h2 { font-size: 1.25rem; line-height: 1.3; margin: 0; }
a { color: var(--link); }
section { background: var(--paper); border: 1px solid var(--line); border-radius: 10px;
  padding: 1.1rem 1.2rem; margin: 1.2rem 0; }
.source { color: var(--soft); font-size: .9rem; margin: .1rem 0 .7rem; }
.verdict { border-left: 5px solid; padding: .45rem .8rem; margin: .8rem 0; background: var(--back);
  border-radius: 0 6px 6px 0; }
.verdict b, .badge { font-weight: 650; }
.good { border-color: var(--good); }
.part { border-color: #e69f00; }
.bad { border-color: #d55e00; }
.good > b, .badge.good { color: var(--good); } .part > b, .badge.part { color: var(--part); }
.bad > b, .badge.bad { color: var(--bad); }
.badge { white-space: nowrap; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .93rem; }
th, td { text-align: left; vertical-align: top; padding: .38rem .7rem .38rem 0;
  border-bottom: 1px solid var(--line); overflow-wrap: break-word; }
th { color: var(--soft); font-weight: 600; }
.values td:first-child { width: 46%; }
.wide table { min-width: 640px; font-size: .85rem; }
.figures { display: grid; gap: 1rem; margin: 1rem 0 .3rem;
  grid-template-columns: repeat(auto-fit, minmax(min(400px, 100%), 1fr)); }
figure { margin: 0; max-width: 640px; }
figure img { width: 100%; height: auto; display: block; }
figcaption { color: var(--soft); font-size: .88rem; margin-top: .2rem; }
.notes { color: var(--soft); font-size: .93rem; padding-left: 1.1rem; margin: .6rem 0 0; }
details { margin-top: .6rem; } summary { cursor: pointer; color: var(--link); }
dl { display: grid; grid-template-columns: minmax(7rem, auto) 1fr; gap: .2rem 1rem;
  margin: .4rem 0; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
footer { color: var(--soft); font-size: .88rem; padding: .5rem 0 2.5rem; }
@media (max-width: 560px) {
  section { padding: .9rem .85rem; border-radius: 0; margin: .8rem -1rem; border-width: 1px 0; }
  .source-column { display: none; }
  .values, .values tbody, .values tr, .values td { display: block; width: 100% !important; }
  .values thead { display: none; }
  .values tr { border-bottom: 1px solid var(--line); padding: .4rem 0; }
  .values td { border: 0; padding: 0; }
  .values td:first-child { font-weight: 600; }
  .values td[data-label]::before { content: attr(data-label) ": "; color: var(--soft); }
}
@media print { body { background: #fff; } section { break-inside: avoid; border: 0; } }
"""


def render(outcomes: list[Outcome], settings: Settings, figures: Path) -> str:
    """The page as HTML; the figures are read from their folder and put into it."""
    parts = [_summary(outcomes, settings), *(_item(outcome, figures) for outcome in outcomes)]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<title>The paper, computed again</title>\n"
        f"<style>{_STYLE}</style>\n</head>\n<body>\n{_header(settings)}\n<main>\n"
        + "\n".join(parts)
        + f"\n<footer>{_footer(outcomes)}</footer>\n</main>\n</body>\n</html>\n"
    )


def escape(text: str) -> str:
    """For HTML, with numbers as they are printed: −0.21 and 2.4·10⁻⁸."""
    text = re.sub(r"(?<=\d)e([+-]\d+)", _power_of_ten, text)
    return escape_html(re.sub(r"(?<![\w.–])-(?=\d)", "−", text))


def _power_of_ten(match: re.Match[str]) -> str:
    return "·10" + str(int(match[1])).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def _header(settings: Settings) -> str:
    quick = (
        "<p><b>This is a quick run</b>: fewer features, draws and points. Its numbers are "
        "computed, but for judging the paper run it in full.</p>"
        if settings.quick
        else ""
    )
    return (
        "<header><h1>SecureFedYJ: the paper, computed again</h1>"
        "<p>Every figure, table and checkable claim of “SecureFedYJ: a safe feature "
        "Gaussianization protocol for Federated Learning” (NeurIPS 2022), beside what this project "
        "finds. Every number of ours on this page was computed by the run that wrote "
        f"it.</p>{quick}</header>"
    )


def _summary(outcomes: list[Outcome], settings: Settings) -> str:
    rows = "".join(
        f'<tr><td>{o.number}</td><td><a href="#{o.name}">{escape(o.item.TITLE)}</a></td>'
        f'<td class="source-column">{escape(o.item.SOURCE.split(";")[0])}</td>'
        f"<td>{_badge(o.finding.verdict)}</td></tr>"
        for o in outcomes
    )
    return (
        "<section><h2>Summary</h2><div "
        'class="scroll"><table><thead><tr><th></th><th>item</th><th class="source-column">in the '
        "paper</th>"
        f"<th>verdict</th></tr></thead><tbody>{rows}</tbody></table></div>{_data(settings)}</section>"
    )


def _data(settings: Settings) -> str:
    tables = available(settings.data, [listed.source for listed in UCI])
    cohorts = available(settings.data, [cohort.file for cohort in TCGA])
    missing = [listed.name for listed in UCI if listed.source not in tables]
    names = [cohort.name for cohort in TCGA if cohort.file in cohorts]
    lines = [
        (
            "always there",
            "iris, wine, digits, breast cancer (scikit-learn); GSE7390 (scikit-survival)",
        ),
        (
            "UCI tables",
            f"{len(tables)} of {len(UCI)}"
            + (f"; not there: {', '.join(missing)}" if missing else ""),
        ),
        (
            "TCGA cohorts",
            f"{len(cohorts)} of {len(TCGA)}"
            + (f": {', '.join(names)}" if names else "; none in this run"),
        ),
    ]
    items = "".join(f"<dt>{escape(a)}</dt><dd>{escape(b)}</dd>" for a, b in lines)
    return f'<h3 style="margin:1rem 0 0;font-size:1rem">Data of this run</h3><dl>{items}</dl>'


def _item(outcome: Outcome, figures: Path) -> str:
    item, finding = outcome.item, outcome.finding
    stem = f"{outcome.number:02d}_{outcome.name}"
    pictures = [_figure(panel, figures / f"{stem}_{panel.name}.svg") for panel in outcome.panels]
    kind = _CLASSES[finding.verdict]
    notes = "".join(f"<li>{escape(note)}</li>" for note in finding.notes)
    return (
        f'<section id="{outcome.name}"><h2>{outcome.number}. {escape(item.TITLE)}</h2>'
        f'<p class="source">{escape(item.SOURCE)}</p>'
        f"<p><b>The paper says:</b> {escape(item.CLAIM)}</p>"
        f'<div class="verdict {kind}"><b>{_SIGNS[kind]} '
        f"{escape(finding.verdict.value.capitalize())}.</b> "
        f"{escape(finding.reason)}</div>"
        f"{_values(finding)}"
        f'<div class="figures">{"".join(pictures)}</div>'
        + (f'<ul class="notes">{notes}</ul>' if notes else "")
        + "".join(map(_table, finding.tables))
        + "</section>"
    )


def _values(finding: Finding) -> str:
    rows = "".join(
        f'<tr><td>{escape(row.quantity)}</td><td data-label="paper">{escape(row.paper)}</td>'
        f'<td data-label="here">{escape(row.ours)}</td></tr>'
        for row in finding.rows
    )
    return (
        '<table class="values"><thead><tr><th>quantity</th><th>the '
        "paper</th><th>here</th></tr></thead>"
        f"<tbody>{rows}</tbody></table>"
    )


def _figure(panel: Panel, path: Path) -> str:
    data = base64.b64encode(path.read_bytes()).decode()
    caption = escape(panel.caption)
    return (
        f'<figure><img alt="{caption}" src="data:image/svg+xml;base64,{data}">'
        f"<figcaption>{caption}</figcaption></figure>"
    )


def _table(table: Table) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in table.header)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape_html(_cell(value))}</td>" for value in row) + "</tr>"
        for row in table.rows
    )
    return (
        f"<details><summary>{escape(table.caption)} ({len(table.rows)} rows)</summary>"
        '<div class="scroll '
        f'wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div></details>'
    )


def _cell(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _badge(verdict: Verdict) -> str:
    kind = _CLASSES[verdict]
    return f'<span class="badge {kind}">{_SIGNS[kind]} {escape(verdict.value)}</span>'


def _footer(outcomes: list[Outcome]) -> str:
    seconds = sum(outcome.seconds for outcome in outcomes)
    return (
        f"securefedyj {securefedyj.__version__}, Python {platform.python_version()}, NumPy "
        f"{numpy.__version__}, SciPy {scipy.__version__}, scikit-learn {sklearn.__version__}. "
        f"Computed in {seconds:.0f} s. The numbers behind every figure are in the folder data "
        "beside this page, the figures in the folder figures."
    )

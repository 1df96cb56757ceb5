"""The report of a run: one HTML file that loads nothing else.

Its HTML and its texts are in the folder templates. All that they insert is escaped, except what
`charts` draws and the page's own style and script.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from numpy.typing import NDArray

from securefedyj import __version__
from securefedyj.engines.registry import facts_of
from securefedyj.errors import InputError
from securefedyj.files import write_atomically
from securefedyj.network.consortium import Consortium
from securefedyj.numerics.arrays import Array
from securefedyj.parameters import digest_of
from securefedyj.printable import printable_lines
from securefedyj.protocol.audit import MOST_LISTED, OPENED, one_could_cheat
from securefedyj.protocol.secrecy import secrecy_of
from securefedyj.protocol.transcript import Transcript
from securefedyj.report import plausibility
from securefedyj.report.charts import number, signed
from securefedyj.report.cost import CostColumn, table
from securefedyj.report.features import WIDEST, Features
from securefedyj.report.notes import STEEP, OwnRows

if TYPE_CHECKING:
    from securefedyj.report.results import Provenance

PLOTS = 30


def write(
    path: Path | str,
    transcript: Transcript,
    values: Array | None = None,
    cost: Mapping[str, CostColumn] | None = None,
    plots: int = PLOTS,
    rows: int | None = None,
    provenance: Provenance | None = None,
) -> None:
    """Write the report; only its owner can read it if it holds what other parties do not have."""
    content = render(transcript, values, cost, plots, rows, provenance).encode()
    write_atomically(path, content, private=values is not None or provenance is not None)


def render(
    transcript: Transcript,
    values: Array | None = None,
    cost: Mapping[str, CostColumn] | None = None,
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
        The silo's own rows to draw, features in the order of the agreement.
    cost : mapping of CostColumn, optional
        The columns of the table of costs, by their headings.
    plots : int
        The maximum number of features to draw.
    rows : int, optional
        The number of the silo's rows, if the values are a sample of them.
    provenance : Provenance, optional
        Who wrote the result, when, and from which table.
    """
    result = transcript.result
    if result is None:
        raise InputError("SFY-REP-006", "the transcript has no result: the run did not finish")
    if provenance is not None and provenance.transcript_sha256 != digest_of(transcript):
        raise InputError("SFY-REP-007", "the provenance belongs to another transcript")
    agreement = transcript.agreement
    own, doubtful = None, list[str]()
    if values is not None:
        own = OwnRows(values, result, rows)
        implausible = plausibility.implausible(values, result).nonzero()[0]
        doubtful = [agreement.features[j] for j in implausible]
    secrecy, name = secrecy_of(agreement.engine), Markup("<bdi>{}</bdi>")
    members = [name.format(printable_lines(member)) for member in agreement.committee]
    template = _environment().get_template("report.html")
    return template.render(
        agreement=agreement,
        origin=transcript.origin,
        digest=digest_of(transcript),
        provenance=provenance,
        result=result,
        own=own,
        implausible=plausibility.warning(doubtful) if doubtful else "",
        facts=facts_of(agreement.engine),
        secrecy=secrecy,
        collusion=Markup(secrecy.collusion(members, len(agreement.silos))),
        audit=transcript.audit(),
        one_could_cheat=one_could_cheat(agreement),
        signs=transcript.signs_opened(),
        bits=transcript.bits_opened(),
        features=Features(transcript, result, own, plots),
        cost=cost or {},
        cost_rows=table(cost or {}),
    )


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("securefedyj.report"),
        autoescape=True,
        # Applied to all that a template inserts, before it is escaped.
        finalize=lambda x: printable_lines(x) if type(x) is str else x,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style, script = (
        files("securefedyj.report").joinpath("assets", name).read_text(encoding="utf-8")
        for name in ("report.css", "report.js")
    )
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    environment.globals |= {
        "style": Markup(style), "script": Markup(script), "script_digest": digest,
        "version": __version__, "opened": OPENED, "most_listed": MOST_LISTED,
        "minimum": Consortium.minimum_values, "steep": STEEP, "widest": WIDEST,
    }  # fmt: skip
    environment.filters |= {"number": number, "signed": signed, "count_range": _count_range}
    environment.filters["count"] = lambda n: f"{int(n):,}"
    return environment


def _count_range(counts: NDArray[Any]) -> str:
    """The lowest and the highest of some counts, or the one that they have in common."""
    low, high = int(counts.min(initial=2**62)), int(counts.max(initial=0))
    return f"{high:,}" if low >= high else f"{low:,} to {high:,}"

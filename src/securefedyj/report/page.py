"""The report of a run: one HTML file that stands alone and needs no network.

The HTML is in the folder templates. All texts in it come out escaped; only what `charts` draws and
the page's own style and script are inserted as they are.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
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
from securefedyj.protocol.audit import MOST_LISTED, OPENED, one_could_cheat
from securefedyj.protocol.secrecy import secrecy_of
from securefedyj.protocol.transcript import Transcript
from securefedyj.report import cost as costs
from securefedyj.report import features, plausibility
from securefedyj.report.charts import printable_text
from securefedyj.report.cost import CostColumn
from securefedyj.report.notes import OwnRows, notes_of

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
    """Write the report, whole or not at all; for its owner alone if it says what others do not."""
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
    agreement, audit = transcript.agreement, transcript.audit()
    own = None if values is None else OwnRows(values, result, rows)
    notes = notes_of(transcript, result, own)
    drawn = features.chosen(result, notes, own, plots)
    implausible = "" if own is None else _implausible(transcript, own.values)
    secrecy = secrecy_of(agreement.engine)
    members = [Markup("<bdi>{}</bdi>").format(printable_text(name)) for name in agreement.committee]
    template = _environment().get_template("report.html")
    return template.render(
        version=__version__,
        agreement=agreement,
        origin=transcript.origin,
        digest=digest_of(transcript),
        provenance=provenance,
        result=result,
        own=own,
        implausible=implausible,
        facts=facts_of(agreement.engine),
        secrecy=secrecy,
        collusion=Markup(secrecy.collusion(members, len(agreement.silos))),
        audit=audit,
        most_listed=MOST_LISTED,
        one_could_cheat=one_could_cheat(agreement),
        opened=OPENED,
        signs=transcript.signs_opened(),
        bits=transcript.bits_opened(),
        few=int(np.sum((result.n < Consortium.minimum_values) & (result.n > 0))),
        minimum=Consortium.minimum_values,
        constant=int(np.sum(result.constant & (result.n > 1))),
        worth_a_look=features.worth_a_look(transcript, notes),
        rows=features.table(transcript, result, notes, own, drawn),
        widest=features.WIDEST,
        cards=features.cards(transcript, result, notes, own, drawn),
        cost=cost or {},
        cost_rows=costs.table(cost or {}),
    )


def _implausible(transcript: Transcript, values: Array) -> str:
    """The warning about implausible lambdas, or nothing."""
    assert transcript.result is not None
    doubtful = np.flatnonzero(plausibility.implausible(values, transcript.result))
    names = [transcript.agreement.features[j] for j in doubtful]
    return plausibility.warning(names) if names else ""


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("securefedyj.report"),
        autoescape=True,
        finalize=_without_control_characters,
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
    }  # fmt: skip
    environment.filters |= {"count": lambda n: f"{int(n):,}", "count_range": _count_range}
    return environment


def _without_control_characters(value: Any) -> Any:
    """Applied to all that a template inserts, before it is escaped."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return printable_text(value)
    return value


def _count_range(counts: NDArray[Any]) -> str:
    """The lowest and the highest of some counts, as words."""
    low, high = int(counts.min(initial=2**62)), int(counts.max(initial=0))
    return f"{high:,}" if low >= high else f"{low:,} to {high:,}"

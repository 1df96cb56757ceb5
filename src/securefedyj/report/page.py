"""The report of a run: one HTML file that loads nothing else.

Its HTML and its texts are in the folder templates. All that they insert is escaped, except what
`charts` draws and the page's own style and script.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from securefedyj import __version__
from securefedyj.engines.registry import facts_of
from securefedyj.errors import InputError
from securefedyj.files import write_atomically
from securefedyj.network.consortium import Consortium
from securefedyj.numerics.arrays import Array
from securefedyj.parameters import digest_of
from securefedyj.printable import printable_lines
from securefedyj.protocol.audit import MOST_LISTED, OF_ONE_ROW, one_could_cheat, opened
from securefedyj.protocol.methods import DEFAULT, METHODS
from securefedyj.protocol.secrecy import secrecy_of
from securefedyj.protocol.transcript import Transcript
from securefedyj.report import plausibility, templates
from securefedyj.report.charts import number, signed
from securefedyj.report.features import STEEP, WIDEST, Features, OwnRows
from securefedyj.report.quantiles import Quantiles

if TYPE_CHECKING:
    from securefedyj.report.results import CostColumn, Provenance

PLOTS = 30
_FILTERS = {
    "number": number,
    "signed": signed,
    "count": "{:,}".format,
    "sha256": lambda text: base64.b64encode(hashlib.sha256(text.encode()).digest()).decode(),
}


def write(
    path: Path | str, transcript: Transcript, values: Array | None = None, **more: Any
) -> None:
    """Write the report; only its owner can read it if it holds what other parties do not have.

    The arguments are those of `render`.
    """
    private = values is not None or more.get("provenance") is not None
    write_atomically(path, render(transcript, values, **more).encode(), private=private)


def render(
    transcript: Transcript,
    values: Array | None = None,
    cost: Mapping[str, CostColumn] | None = None,
    plots: int = PLOTS,
    rows: int | None = None,
    provenance: Provenance | None = None,
    units: Mapping[str, str] | None = None,
) -> str:
    """The page as text.

    `values` are a silo's own rows to draw, with the features in the order of the agreement, or a
    sample of that number of `rows`. `cost` has columns by their headings, `units` those of features
    by their names. At most `plots` features are drawn.
    """
    result, agreement = transcript.result, transcript.agreement
    if result is None:
        raise InputError("SFY-REP-006", "the transcript has no result: the run did not finish")
    if provenance is not None and provenance.transcript_sha256 != digest_of(transcript):
        raise InputError("SFY-REP-007", "the provenance belongs to another transcript")
    own, doubtful, constant = None, list[str](), result.constant & (result.n > 1)
    if values is not None:
        own = OwnRows(values, transcript, rows)
        implausible = plausibility.implausible(values, agreement, result).nonzero()[0]
        doubtful = [agreement.features[j] for j in implausible]
    secrecy, name = secrecy_of(agreement), Markup("<bdi>{}</bdi>")
    members = [name.format(printable_lines(member)) for member in agreement.committee]
    environment = templates(__package__)
    environment.filters |= _FILTERS
    return environment.get_template("report.html").render(
        version=__version__,
        opened=opened(agreement),
        most_listed=MOST_LISTED,
        of_one_row=OF_ONE_ROW,
        minimum=Consortium.minimum_values,
        steep=STEEP,
        widest=WIDEST,
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
        features=Features(transcript, result, own, plots, units or {}),
        quantiles=Quantiles(transcript, values, plots, units or {}),
        fitted=agreement.asked.fitted,
        constants=len(np.unique(agreement.asked.column[agreement.asked.fitted][constant])),
        used=[
            name for name in METHODS if any(name in one for one in agreement.methods or [DEFAULT])
        ],
        n=np.array(transcript.values_of_features()),
        cost=cost or {},
    )

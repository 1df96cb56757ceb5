"""What a site does when a run of Flower asks it to: what `securefedyj join` does."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from pathlib import Path

from securefedyj.integrations.job import Notes, Refused, check_digest, told_to_all
from securefedyj.joining.call import join_async
from securefedyj.joining.site import read_site
from securefedyj.network.consortium import Consortium
from securefedyj.network.identity import read_certificate
from securefedyj.printable import shown
from securefedyj.report.results import PARAMETERS as FILE

RECORD = "securefedyj"
DIGEST, PARTY, PARAMETERS, REASON = "digest", "party", "parameters", "reason"


def answer(asked: Mapping[str, object], file: Path) -> dict[str, str | bytes]:
    """Take part with what the site's own file says; return what goes back to Flower's server.

    That is the name of the party and the result, or a sentence with nothing of the site's data.
    """
    name, folder = "A site", file.parent
    try:
        site = read_site(file)
        folder = site.output
        consortium = site.agreed()
        name = consortium.party_with(read_certificate(site.certificate)).name
        _check(asked, consortium, name)
        arguments = site.arguments() | {"consortium": consortium}  # what was checked
        if (folder / FILE).exists():  # others may have it, too, and not come any more
            arguments["wait"] = min(site.wait, site.timeout)
        asyncio.run(join_async(**arguments, say=Notes(folder).say))
        return {PARTY: name, PARAMETERS: (folder / FILE).read_bytes()}
    except Exception as error:
        with contextlib.suppress(OSError):  # nowhere to write it to
            Notes(folder).say(str(error))
        return {PARTY: name, REASON: told_to_all(error, name)}


def _check(asked: Mapping[str, object], consortium: Consortium, name: str) -> None:
    """Refuse all but the digest of the agreed file: the site knows who it is, and what to do."""
    check_digest(consortium, name, asked.get(DIGEST))
    if asked.get(PARTY, name) != name:
        raise Refused(
            "SFY-FLOWER-012",
            f"{name} refuses this run: the server takes this site for {shown(asked[PARTY])}. A "
            "site is who its own certificate says; nothing was computed.",
        )

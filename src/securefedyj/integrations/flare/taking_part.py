"""What a site does when a job of FLARE asks it to: what `securefedyj join` does, by a bus."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from securefedyj.integrations.flare.carrier import Bus, PacketDialer
from securefedyj.integrations.job import JobRefused, Notes, agreed_by, check_digest, take_part_in
from securefedyj.joining.options import JoinOptions
from securefedyj.joining.site import FILE
from securefedyj.joining.site import read_site as read_file
from securefedyj.network.consortium import Consortium


def read_site(folder: Path, name: str) -> JoinOptions:
    """A site's own file, `securefedyj.toml` in FLARE's folder `local`.

    The sites of FLARE's simulator share `local`, and have their files in `local/NAME`. Paths are
    relative to the folder of the file, or of the file that it links to.
    """
    path = folder / name / FILE
    return read_file((path if path.exists() else folder / FILE).resolve())


def check_job(site: JoinOptions, client: str, digest: object) -> Consortium:
    """What the site has agreed on, if the job is about that; else JobRefused."""
    consortium, party = agreed_by(site)
    check_digest(consortium, party, digest)
    if client != party:
        raise JobRefused(
            "SFY-FLARE-003",
            f"{party} refuses this job: FLARE calls this site {client!r}. Parties and sites must "
            "have the same names; agree on a file with those of FLARE.",
        )
    return consortium


async def take_part(
    site: JoinOptions,
    client: str,
    digest: object,
    bus: Bus,
    notes: Notes,
    cancelled: Callable[[], bool],
) -> bytes:
    """Take part until the result is there and written; return the bytes of parameters.json."""
    consortium = check_job(site, client, digest)
    others = [party.name for party in consortium.parties if party.name != client]
    dialer = PacketDialer(bus, others)
    return await take_part_in(consortium, site, say=notes.say, cancelled=cancelled, dialer=dialer)

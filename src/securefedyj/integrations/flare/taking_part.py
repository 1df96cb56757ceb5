"""What a site does when a job asks it to: what `securefedyj join` does, over another carrier."""

from __future__ import annotations

from collections.abc import Callable

from securefedyj.integrations.flare.carrier import Bus, PacketDialer
from securefedyj.integrations.job import Notes, Refused, check_digest
from securefedyj.joining.call import join_async
from securefedyj.joining.options import JoinOptions
from securefedyj.network.consortium import Consortium
from securefedyj.network.identity import read_certificate
from securefedyj.report.results import PARAMETERS


def check_job(site: JoinOptions, client: str, digest: object) -> Consortium:
    """What the site has agreed on, if the job is about that; Refused if it is not."""
    consortium = site.agreed()
    party = consortium.party_with(read_certificate(site.certificate)).name
    check_digest(consortium, party, digest)
    if client != party:
        raise Refused(
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
    arguments = site.arguments() | {"consortium": consortium}  # what was checked, not read again
    others = [party.name for party in consortium.parties if party.name != client]
    dialer = PacketDialer(bus, others)
    await join_async(**arguments, say=notes.say, cancelled=cancelled, dialer=dialer)
    return (site.output / PARAMETERS).read_bytes()

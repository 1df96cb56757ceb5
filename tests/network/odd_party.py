"""A party with the right key that says to its peers whatever it is told to."""

from __future__ import annotations

import time
from collections.abc import Sequence

from securefedyj.network.consortium import Consortium
from securefedyj.network.identity import Identity
from securefedyj.network.session import records
from securefedyj.network.transport import link as hub_link
from securefedyj.network.transport import tls
from securefedyj.network.transport.framing import FrameType
from securefedyj.party.messages import VERSION


def greeting(consortium: Consortium) -> tls.RawRecord:
    """What a party says first, as it should be."""
    return records.write(records.Greeting(VERSION, consortium.digest(), time.time(), "0.3"))


async def say_to_all(
    consortium: Consortium, name: str, identity: Identity, words: Sequence[tls.RawRecord]
) -> None:
    """Join, and say this on every channel as soon as it stands; until cancelled."""
    link = await hub_link.connect(consortium, name, identity, 5.0)
    channels: dict[str, tls.Channel] = {}
    try:
        while True:
            frame = await link.receive_frame(60.0)
            if frame is None or frame.type not in (FrameType.PRESENT, FrameType.DATA):
                continue
            if frame.type == FrameType.PRESENT:
                known, server_side = consortium.party(frame.name), name < frame.name
                settings = tls.context(identity, [known.certificate], server_side=server_side)
                channels[frame.name] = tls.Channel(
                    frame.name, known.fingerprint, settings, server_side=server_side
                )
                channels[frame.name].begin()
            channel = channels[frame.name]
            stood = channel.established
            list(channel.receive(frame.body))
            if channel.established and not stood:
                for record in words:
                    channel.send(record)
            link.send(frame.name, frame.connection, channel.outgoing())
    finally:
        await link.close(0.5)

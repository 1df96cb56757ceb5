"""The channels of a party to its peers: bytes in, events out; records in, bytes out.

docs/security-details.md, section 6, "Channels".
"""

from __future__ import annotations

from collections.abc import Iterator

from securefedyj.errors import ProtocolError
from securefedyj.network.bounds import largest_record
from securefedyj.network.carrier import Arrival, Carrier, Data, Left, Present, Word
from securefedyj.network.consortium import Consortium
from securefedyj.network.identity import Identity
from securefedyj.network.session import events, records
from securefedyj.network.transport import tls


class Channels:
    """One channel for each peer that is at the hub.

    Of two parties, the one with the later name is the TLS client and speaks first.
    """

    def __init__(self, consortium: Consortium, name: str, identity: Identity) -> None:
        online = consortium.agreement().online
        self._peers = {peer: consortium.party(peer) for peer in online if peer != name}
        self._server_side = {peer: name < peer for peer in self._peers}
        self._settings = {
            peer: tls.context(identity, [known.certificate], server_side=self._server_side[peer])
            for peer, known in self._peers.items()
        }
        self._most = largest_record(consortium.agreement())
        self._carrier: Carrier | None = None
        self._open: dict[str, tuple[int, tls.Channel]] = {}

    def use(self, carrier: Carrier | None) -> None:
        """Close all channels; new ones go through this carrier."""
        self._carrier = carrier
        self._open.clear()

    def take(self, arrival: Arrival | None) -> Iterator[events.AnyEvent]:
        """The events that follow from what the carrier delivers."""
        match arrival:
            case Word():
                yield arrival
            case Present(peer, connection) if peer in self._peers:
                yield arrival
                self.open(peer, connection)
            case Left(peer, connection) if self.leads_to(peer, connection):
                del self._open[peer]
                yield arrival
            case Data(peer, connection, data) if self.leads_to(peer, connection):
                yield from self.receive(peer, data)

    def open(self, peer: str, connection: int) -> None:
        """Begin the handshake with a peer, in place of an earlier channel."""
        fingerprint, side = self._peers[peer].fingerprint, self._server_side[peer]
        channel = tls.Channel(peer, fingerprint, self._settings[peer], server_side=side)
        channel.most = self._most
        self._open[peer] = connection, channel
        channel.begin()
        self._flush(peer)

    def leads_to(self, peer: str, connection: int) -> bool:
        """Whether the channel to a peer is to this connection of it."""
        return peer in self._open and self._open[peer][0] == connection

    def receive(self, peer: str, data: bytes) -> Iterator[events.Event]:
        """The events that follow from a piece of the stream from a peer."""
        _, channel = self._open[peer]
        stood = channel.established
        try:
            arrived = list(channel.receive(data))
            self._flush(peer)
            yield events.Heard(peer)
            if channel.established and not stood:
                yield events.ChannelStands(peer)
            for record in arrived:
                yield events.RecordArrived(peer, records.read(peer, record))
        except ProtocolError as error:
            self._flush(peer)  # TLS tells the other end what is wrong
            yield events.ChannelBroke(peer, str(error))

    def send(self, peer: str, record: records.AnyRecord) -> None:
        self._open[peer][1].send(records.write(record))
        self._flush(peer)

    def _flush(self, peer: str) -> None:
        connection, channel = self._open[peer]
        if self._carrier is not None and (data := channel.outgoing()):
            self._carrier.send(peer, connection, data)

"""What a party has to say to its user and to its peers, in order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from securefedyj.network.session.events import Output, Say, Send
from securefedyj.network.session.peers import Peer
from securefedyj.network.session.records import AnyRecord, Delivery
from securefedyj.party.messages import Message


class Speaker:
    """Collects it.

    Attributes
    ----------
    peers
        Everybody else, by name.
    output
        What is to be done because of the present event.
    """

    def __init__(self, peers: Mapping[str, Peer]) -> None:
        self.peers = peers
        self.output: list[Output] = []

    def say(self, sentence: str) -> None:
        self.output.append(Say(sentence))

    def send(self, peer: Peer, record: AnyRecord) -> None:
        self.output.append(Send(peer.name, record))

    def tell_all(self, record: AnyRecord) -> None:
        for peer in self.peers.values():
            if peer.connected:
                self.send(peer, record)

    def send_messages(self, messages: Iterable[Message]) -> None:
        """Send messages of a session to those who can be reached."""
        for message in messages:
            peer = self.peers[message.recipient]
            if peer.connected:
                self.send(peer, Delivery(message))

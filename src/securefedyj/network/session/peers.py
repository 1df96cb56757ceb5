"""What a party knows of one of its peers."""

from __future__ import annotations

from securefedyj.errors import ProtocolError
from securefedyj.network.errors import JoinError
from securefedyj.network.session.records import (
    AnyRecord,
    Begin,
    Greeting,
    Handover,
    Leave,
    OtherVersion,
    Ready,
)
from securefedyj.network.session.states import PEER_TRANSITIONS, PeerSignal, PeerState, successor

MOST_READY = 100  # that lead to no session; each is answered to all, who might not read as fast
CLOCKS_APART = 300.0  # seconds; more, and logs and certificates mean different things


class Peer:
    """One peer; most of what is known of it goes with its channel.

    Attributes
    ----------
    done
        The digest of its result, if it has ever said DONE.
    kept
        Whether it has ever said KEPT.
    announced
        Whether the user knows that it is going.
    failed
        Whether it goes for an error, as it says, and the user knows that.
    warned
        Whether the user knows that nothing is heard from it.
    false
        Whether it has handed on what was not true; then nothing more is taken from it.
    heard, absent_since
        When it was last heard, and when it went.
    ready, begin, handover
        What it said last for a session that has not started yet.
    """

    def __init__(self, name: str, now: float) -> None:
        self.name = name
        self.done = ""
        self.kept = False
        self.absent_since = self.heard = now
        self._forget()

    def _forget(self) -> None:
        self.state = PeerState.ABSENT
        self.announced = self.failed = self.warned = self.false = False
        self._times_ready = 0  # since the last session
        self.ready: Ready | None = None
        self.begin: Begin | None = None
        self.handover: Handover | None = None

    @property
    def connected(self) -> bool:
        """Whether its channel stands, so that it can be told something."""
        return self.state not in (PeerState.ABSENT, PeerState.PRESENT)

    @property
    def here(self) -> bool:
        """Whether it can take part in a session."""
        return self.connected and self.state is not PeerState.LEAVING

    def arrive(self, now: float) -> None:
        self._move(PeerSignal.ARRIVED)
        self.heard = now

    def connect(self) -> None:
        self._move(PeerSignal.CHANNEL_STANDS)

    def hear(self, now: float) -> None:
        self._move(PeerSignal.HEARD)
        self.heard, self.warned = now, False

    def speak(self, record: AnyRecord) -> None:
        """Note that it says something, which must be a greeting at first."""
        signal = PeerSignal.SPEAKS
        if isinstance(record, Greeting | OtherVersion):
            signal = PeerSignal.GREETS
        elif isinstance(record, Leave):
            signal = PeerSignal.TAKES_LEAVE
        if self.state is PeerState.CONNECTED and signal is not PeerSignal.GREETS:
            raise ProtocolError("SFY-JOIN-042", f"Party {self.name} did not begin with a greeting.")
        self._move(signal)

    def say_ready(self, ready: Ready) -> None:
        """Note that it is ready, which must lead to a session at some time."""
        self.ready = ready
        self._times_ready += 1
        if self._times_ready > MOST_READY:
            raise ProtocolError(
                "SFY-JOIN-043", f"Party {self.name} said {MOST_READY} times that it is ready."
            )

    def lose(self, now: float) -> None:
        """Forget the channel. Who was never connected since the last time is absent since then."""
        if self.connected:
            self.absent_since = now
        self._move(PeerSignal.LOST)
        self._forget()

    def start(self) -> None:
        """Its READY and BEGIN have led to a session; the next one needs new ones.

        What it hands on may have come before, while we waited for the BEGIN of others.
        """
        self.ready = self.begin = None
        self._times_ready = 0

    def _move(self, signal: PeerSignal) -> None:
        self.state = successor(PEER_TRANSITIONS, self.state, signal)


def check_greeting(peer: str, greeting: Greeting, digest: str, clock: float) -> None:
    """Refuse a peer that has another agreed file than we, or another idea of the time."""
    if greeting.digest != digest:
        raise JoinError(
            "SFY-JOIN-040",
            f"Party {peer} has another agreed file: its digest begins "
            f"{greeting.digest[:16]!r}, ours {digest[:16]!r}. Use the same "
            "consortium.toml everywhere (`securefedyj check` shows the digest).",
        )
    apart = greeting.clock - clock
    if abs(apart) > CLOCKS_APART:
        raise JoinError(
            "SFY-JOIN-041",
            f"The clock of party {peer} is {abs(apart) / 60:.0f} minutes "
            f"{'ahead of' if apart > 0 else 'behind'} ours; set both, by NTP if possible.",
        )

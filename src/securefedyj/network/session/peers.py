"""What a party knows of its peers, whether all have one result, and how long it waits for them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from securefedyj.errors import ProtocolError
from securefedyj.network.carrier import Left, Present
from securefedyj.network.errors import EndOfRun, JoinError, NotVerified
from securefedyj.network.session import events, records
from securefedyj.network.session.memory import NEW_RUN, Memory, Outcome, digest_of
from securefedyj.network.session.states import PEER_TRANSITIONS, PeerEvent, PeerState, successor
from securefedyj.party.messages import Message
from securefedyj.printable import in_words, parties_in_words

# Unless the user says otherwise, in seconds:
TIMEOUT = 60.0  # of silence, after which a party counts as lost
WAIT = 600.0  # to wait for parties to come, or to come back

# Of the timeout: all parties warn before the first of them reconnects, which ends the session.
WARNING = 0.7
TELL_AFTER = 0.5  # seconds until the user learns whom we wait for
JUST_NOW = 5.0  # seconds; after that, the sentence says how much of the wait is left

MOST_READY = 100  # that lead to no session; each is answered to all, who may read more slowly
HUB = "the hub"
CLOCKS_APART = 300.0  # seconds; beyond that, logs and certificates cannot be compared


class Peer:
    """One peer; most of what is known of it goes with its channel."""

    def __init__(self, name: str, now: float) -> None:
        self.name = name
        self.done = ""  # the digest of its result, if it has ever said DONE
        self.kept = False  # whether it has ever said KEPT
        self.absent_since = self.heard = now
        self._forget()

    def _forget(self) -> None:
        self.state = PeerState.ABSENT
        # What the user knows: that it leaves; that it leaves with an error; that it is silent.
        self.announced = self.failed = self.warned = False
        self.false = False  # whether it has handed over what was not true: take nothing more of it
        self._times_ready = 0  # since the last session
        # What it said last for a session that has not started yet.
        self.ready: records.Ready | None = None
        self.begin: records.Begin | None = None
        self.handover: records.Handover | None = None

    @property
    def connected(self) -> bool:
        """Whether its channel stands, so that it can receive records."""
        return self.state not in (PeerState.ABSENT, PeerState.PRESENT)

    @property
    def here(self) -> bool:
        """Whether it can take part in a session."""
        return self.connected and self.state is not PeerState.LEAVING

    def show(self, sign: type[Present | events.ChannelStands | events.Heard], now: float) -> None:
        """Note a sign that it is there."""
        self._move(sign)
        self.heard, self.warned = now, False

    def speak(self, record: records.AnyRecord) -> None:
        """Note that it has sent a record; the first one must be a greeting."""
        named = isinstance(record, records.Greeting | records.OtherVersion | records.Leave)
        kind = type(record) if named else events.RecordArrived
        if self.state is PeerState.CONNECTED and kind not in PEER_TRANSITIONS[self.state]:
            raise ProtocolError("SFY-JOIN-042", f"Party {self.name} did not begin with a greeting.")
        self._move(kind)

    def say_ready(self, ready: records.Ready) -> None:
        """Note that it is ready, which must lead to a session at some point."""
        self.ready = ready
        self._times_ready += 1
        if self._times_ready > MOST_READY:
            raise ProtocolError(
                "SFY-JOIN-043", f"Party {self.name} said {MOST_READY} times that it is ready."
            )

    def lose(self, now: float) -> None:
        """Forget the channel. A peer that was not connected has been absent since before."""
        if self.connected:
            self.absent_since = now
        self._move(Left)
        self._forget()

    def start(self) -> None:
        """Its READY and BEGIN have led to a session; the next one needs new ones.

        Its HANDOVER stays: it may have come while we waited for the BEGIN of others.
        """
        self.ready = self.begin = None
        self._times_ready = 0

    def _move(self, event: type[PeerEvent]) -> None:
        self.state = successor(PEER_TRANSITIONS, self.state, event)


def check_greeting(peer: str, greeting: records.Greeting, digest: str, clock: float) -> None:
    """Refuse a peer with another agreed file, or with a clock that differs too much."""
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


class Conclusion:
    """Our outcome, as soon as it is known, compared with those of the peers."""

    def __init__(self, memory: Memory, peers: Collection[Peer]) -> None:
        self._memory, self._peers = memory, peers
        self.outcome: Outcome | None = None
        self.digest = ""
        self._error: EndOfRun | None = None
        if memory.finished:
            self.reach()

    def reach(self) -> list[Message]:
        """Compute the outcome from what was revealed, a step without messages for the peers."""
        try:
            self.outcome = self._memory.outcome()
            self.digest = digest_of(self._memory, self.outcome)
        except EndOfRun as error:
            self._error = error
        return []

    def check(self) -> None:
        """Refuse an outcome that does not pass the audit, or that differs from a peer's."""
        if self._error is not None:
            raise self._error
        if self._memory.confirmed:  # the result stays, whatever a peer says later
            return
        for peer in self._peers:
            if self.digest and peer.done not in ("", self.digest):
                raise EndOfRun(
                    "SFY-JOIN-036",
                    f"Party {peer.name} has a different result: some party does not follow "
                    f"the protocol. No result is written. {NEW_RUN}",
                )

    def hear_end(self, peer: str, *, unverified: bool) -> None:
        """End the run as a peer has; a party with all of the result still waits for the others."""
        if self.outcome is not None:
            return
        if unverified:
            raise NotVerified
        raise EndOfRun(
            "SFY-JOIN-035",
            f"Party {peer} has ended this run for good; the reason is shown there. {NEW_RUN}",
        )

    @property
    def all_done(self) -> bool:
        """Whether all have the same result, and ours is still to be written."""
        self.check()
        known = bool(self.digest) and not self._memory.confirmed
        return known and all(peer.done for peer in self._peers)

    @property
    def all_kept(self) -> bool:
        """Whether all have written it."""
        return bool(self._memory.confirmed) and all(peer.kept for peer in self._peers)


class Patience:
    """How long we have waited, and what the user should know about it.

    No peer may be silent for longer than the timeout, not counting the time of our own
    computations. Without progress we wait for peers no longer than `wait`.
    """

    def __init__(self, peers: Iterable[Peer], timeout: float, wait: float, now: float) -> None:
        self._peers = tuple(peers)
        self._timeout, self._wait = timeout, wait
        self.waiting_since: float | None = now  # None after progress: the wait starts over
        self.idle_since = now  # until then we have computed, and have read nothing
        self.kept_at: float | None = None  # when our result was written
        self.shown: tuple[str, ...] = ()  # the peers that the user knows we wait for
        self.remind = False  # whether to say that again

    # Silence.

    def silence(self, hub_heard: float | None, where: str, now: float) -> tuple[str, str] | None:
        """Who was silent for too long, after a sentence: the hub, or a peer without a result."""
        long = f"for {self._timeout:g} seconds"
        if hub_heard is not None and self._silence(hub_heard, now) > self._timeout:
            return f"Nothing was heard from the hub {long}.", HUB
        for peer in self._silent(self._timeout, now):
            return f"Nothing was heard from party {peer.name} {long}{where}.", peer.name
        return None

    def session_is_stuck(self, now: float) -> bool:
        """Whether our program has received nothing for too long, though all are there."""
        return now - self.idle_since > self._wait + self._timeout

    def silence_summary(self, names: Sequence[str], where: str) -> str:
        """A sentence about peers that are there while a session is stuck."""
        who = f"{parties_in_words(names)} {'is' if len(names) == 1 else 'are'}"
        return (
            f"{who} there, and sent nothing of this session for more than {self._wait:g} seconds"
            f"{where}: stopped. Start again to resume; if sums take longer there, "
            "give all parties a longer wait."
        )

    def warnings(self, where: str, now: float) -> Iterator[str]:
        """Sentences about the peers that were silent for long, each once."""
        for peer in self._silent(WARNING * self._timeout, now):
            if not peer.warned:
                peer.warned = True
                silence = f"{self._silence(peer.heard, now):.1f} seconds"
                yield f"Nothing was heard from party {peer.name} for {silence}{where}."

    def _silent(self, seconds: float, now: float) -> Iterator[Peer]:
        """The peers without a result that were silent for longer than this."""
        for peer in self._peers:
            there = peer.state is not PeerState.ABSENT and not peer.kept
            if there and self._silence(peer.heard, now) > seconds:
                yield peer

    def _silence(self, heard: float, now: float) -> float:
        """Seconds in which we could have heard something and did not."""
        return now - max(heard, self.idle_since)

    # Waiting.

    def exhausted(self, now: float) -> bool:
        """Whether we have waited for too long; once the result is written, that is the timeout."""
        since, longest = self._waited(now)
        return since > longest

    def news(self, now: float, *, opened: bool, confirmed: bool) -> str | None:
        """Whom we wait for and why, if the user does not know it yet."""
        missing = _names(
            peer for peer in self._peers if not peer.connected and not (opened and peer.kept)
        )
        since, longest = self._waited(now)
        if not missing or since <= TELL_AFTER:
            return None
        known, self.shown = missing == self.shown, missing
        again, self.remind = self.remind, False
        if known and not again:
            return None
        purpose = " to have the result, too" if confirmed else " to compare the result" * opened
        left = f"{longest:g}" if since < JUST_NOW else f"{max(longest - since, 0):.0f} more"
        waiting = "Still waiting for" if known else "Waiting for"
        end = " seconds. You can stop, and start again to resume." if again else " seconds."
        return f"{waiting} {in_words(missing)}{purpose}, up to {left}{end}"

    def blame(self, now: float) -> str:
        """Who did not come; others may have given up a moment before us."""
        absent = [peer for peer in self._peers if not peer.connected]
        long_ago = now - self._wait / 2
        names = _names(peer for peer in absent if peer.absent_since < long_ago) or _names(absent)
        if not names:
            return "No session could be brought to progress"
        return f"{parties_in_words(names)} did not come"

    def _waited(self, now: float) -> tuple[float, float]:
        """For how long we have waited, and the longest that we wait."""
        if self.kept_at is not None:
            return now - self.kept_at, self._timeout
        if self.waiting_since is None:
            self.waiting_since = now
        return now - self.waiting_since, self._wait


def _names(peers: Iterable[Peer]) -> tuple[str, ...]:
    return tuple(peer.name for peer in peers)

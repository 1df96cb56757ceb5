"""How long a party waits for others to come, and for how long they may be silent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from securefedyj.network.session.peers import Peer
from securefedyj.network.session.states import PeerState
from securefedyj.printable import in_words, parties_in_words

# Unless the user says otherwise, in seconds:
TIMEOUT = 60.0  # of silence, after which a party counts as lost
WAIT = 600.0  # to wait for parties to come, or to come back

# Of the timeout: all warn before the first of them begins anew, which ends it for all.
WARNING = 0.7
TELL_AFTER = 0.5  # seconds until the user is told whom we wait for
JUST_NOW = 5.0  # seconds; after them, what is left of a wait is told


class Patience:
    """Remembers since when we wait, and says what the user should know about it.

    Parameters
    ----------
    peers
        All peers.
    timeout
        Seconds for which nobody may be silent. Those of our own computing do not count.
    wait
        Seconds to wait for peers without any progress.
    now
        By a clock that is never set, as everywhere here.
    """

    def __init__(self, peers: Iterable[Peer], timeout: float, wait: float, now: float) -> None:
        self._peers = tuple(peers)
        self._timeout, self._wait = timeout, wait
        self._waiting_since: float | None = now
        self._idle_since = now
        self._kept_at: float | None = None
        self._told: tuple[str, ...] = ()  # whom the user knows that we wait for
        self._reminded = False  # whether that is to be said again

    def progress(self) -> None:
        """Something was revealed, so waiting starts anew."""
        self._waiting_since = None

    def start(self) -> None:
        """A session has started; whoever is missing after it is news."""
        self._told = ()

    def remind(self) -> None:
        """The user has been told why somebody may not come: say again that we wait."""
        self._reminded = True

    def rest(self, now: float) -> None:
        """We have computed until now, and read nothing meanwhile."""
        self._idle_since = now

    def keep(self, now: float) -> None:
        """The result is written; from now on we wait only for others to write theirs."""
        self._kept_at = now

    # Silence.

    def hub_is_silent(self, heard: float, now: float) -> str | None:
        if self._silence(heard, now) <= self._timeout:
            return None
        return f"Nothing was heard from the hub for {self._timeout:g} seconds."

    def peer_is_silent(self, where: str, now: float) -> tuple[str, str] | None:
        """A sentence on a peer that was silent for too long, and its name.

        Who has the result need not be heard.
        """
        for peer in self._audible():
            if self._silence(peer.heard, now) > self._timeout:
                what = f"Nothing was heard from party {peer.name} for"
                return f"{what} {self._timeout:g} seconds{where}.", peer.name
        return None

    def session_is_stuck(self, now: float) -> bool:
        """Whether our program has got nothing for longer than we wait, though all are there."""
        return now - self._idle_since > self._wait + self._timeout

    def tale_of_silence(self, names: Sequence[str], where: str) -> str:
        """Of peers that are there while a session is stuck."""
        who = f"{parties_in_words(names)} {'is' if len(names) == 1 else 'are'}"
        return (
            f"{who} there, and sent nothing of this session for more than {self._wait:g} seconds"
            f"{where}: stopped. The same command goes on from there; if sums take longer there, "
            "give all parties a longer --wait."
        )

    def warnings(self, where: str, now: float) -> Iterator[str]:
        """Name the peers that were silent for long, each once."""
        for peer in self._audible():
            silent = self._silence(peer.heard, now)
            if silent > WARNING * self._timeout and not peer.warned:
                peer.warned = True
                what = f"Nothing was heard from party {peer.name} for"
                yield f"{what} {silent:.1f} seconds{where}."

    def _audible(self) -> Iterator[Peer]:
        for peer in self._peers:
            if peer.state is not PeerState.ABSENT and not peer.kept:
                yield peer

    def _silence(self, heard: float, now: float) -> float:
        """For how many seconds nothing was heard that we could have heard."""
        return now - max(heard, self._idle_since)

    # Waiting.

    def exhausted(self, now: float) -> bool:
        """Whether we have waited for too long; with the result just written, that is sooner."""
        if self._kept_at is not None:
            return now - self._kept_at > self._timeout
        return self._waited(now) > self._wait

    def news(self, now: float, *, opened: bool, confirmed: bool) -> str | None:
        """Whom we wait for and what for, if the user does not know; at the end, for fewer."""
        missing = _names(
            peer for peer in self._peers if not peer.connected and not (opened and peer.kept)
        )
        if not missing or self._waited(now) <= TELL_AFTER:
            return None
        known, self._told = missing == self._told, missing
        again, self._reminded = self._reminded, False
        if known and not again:
            return None
        whom = f"{in_words(missing)}, up to"
        if confirmed:
            whom = f"{in_words(missing)} to have the result, too, up to"
        elif opened:
            whom = f"{in_words(missing)} to compare the result, up to"
        longest = self._wait if self._kept_at is None else self._timeout
        since = self._waited(now) if self._kept_at is None else now - self._kept_at
        left = f"{longest:g}" if since < JUST_NOW else f"{max(longest - since, 0):.0f} more"
        waiting = "Still waiting for" if known else "Waiting for"
        end = " seconds. Ctrl-C stops; the same command goes on later." if again else " seconds."
        return f"{waiting} {whom} {left}{end}"

    def blame(self, now: float) -> str:
        """Who did not come; others may have lost their patience a moment before us."""
        absent = [peer for peer in self._peers if not peer.connected]
        long_ago = now - self._wait / 2
        names = _names(peer for peer in absent if peer.absent_since < long_ago) or _names(absent)
        if not names:
            return "No session could be brought to progress"
        return f"{parties_in_words(names)} did not come"

    def _waited(self, now: float) -> float:
        if self._waiting_since is None:
            self._waiting_since = now
        return now - self._waiting_since


def _names(peers: Iterable[Peer]) -> tuple[str, ...]:
    return tuple(peer.name for peer in peers)

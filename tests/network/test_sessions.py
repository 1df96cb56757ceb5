"""The sessions of a party follow their tables and nothing else. There is no socket in here."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Callable

import pytest

from securefedyj.errors import Unverified
from securefedyj.network.carrier import Left, Present, Word
from securefedyj.network.errors import (
    EndOfRun,
    IllegalTransition,
    JoinError,
    NotVerified,
    OutOfPatience,
)
from securefedyj.network.session import events, records, run
from securefedyj.network.session.events import SessionCosts
from securefedyj.network.session.memory import NEW_RUN
from securefedyj.network.session.peers import Patience
from securefedyj.network.session.records import NO_SESSION, AnyRecord
from securefedyj.network.session.states import (
    LEGAL_EVENTS,
    PEER_TRANSITIONS,
    TRANSITIONS,
    PeerState,
    Signal,
    State,
    successor,
)
from securefedyj.party.messages import VERSION, Kind, Message
from securefedyj.protocol.reveals import Counts, Step, to_line
from securefedyj.protocol.schedule import TooFewValues
from securefedyj.protocol.transcript import Transcript
from tests.network.machines import (
    AGREEMENT,
    BEGINNINGS,
    DIGEST,
    NAMES,
    OPENINGS,
    Machine,
    Solo,
    Trio,
    close_programs,
    memory,
    whole,
)

ENDS = (State.OVER, State.FAILED)
COMPUTING = (State.COMPUTING, State.SETTLING)


@pytest.fixture(autouse=True)
def _no_program_is_left_over():
    yield
    close_programs()


# The tables by themselves.


@pytest.mark.parametrize(("state", "signal"), list(itertools.product(State, Signal)))
def test_a_signal_leads_where_the_table_says_or_nowhere(state, signal):
    if signal in TRANSITIONS[state]:
        assert successor(TRANSITIONS, state, signal) is TRANSITIONS[state][signal]
    else:
        sentence = f"^{signal.name} cannot happen in state {state.name}; please report this.$"
        with pytest.raises(IllegalTransition, match=sentence):
            successor(TRANSITIONS, state, signal)


# In an order that all processes of a test run share.
PEER_EVENTS = list(dict.fromkeys(event for row in PEER_TRANSITIONS.values() for event in row))


@pytest.mark.parametrize(("state", "signal"), list(itertools.product(PeerState, PEER_EVENTS)))
def test_so_does_the_table_of_peers(state, signal):
    if signal in PEER_TRANSITIONS[state]:
        assert successor(PEER_TRANSITIONS, state, signal) is PEER_TRANSITIONS[state][signal]
    else:
        with pytest.raises(IllegalTransition, match=f"{signal.__name__} cannot happen in state"):
            successor(PEER_TRANSITIONS, state, signal)


def reachable(start: State) -> set[State]:
    found, new = {start}, {start}
    while new:
        new = {after for state in new for after in TRANSITIONS[state].values()} - found
        found |= new
    return found


def test_every_state_can_be_reached_and_left_but_for_the_ends():
    assert set(TRANSITIONS) == set(LEGAL_EVENTS) == set(State)
    assert reachable(State.GATHERING) == set(State)
    for state in State:
        assert (state in ENDS) == (TRANSITIONS[state] == {})
        assert state is State.OVER or State.FAILED in reachable(state)
    assert set(Signal) == {signal for row in TRANSITIONS.values() for signal in row}
    assert set(PeerState) == set(PEER_TRANSITIONS)


# Every line of the table, as it comes about.


def later(solo: Solo) -> None:
    """Until the patience is over."""
    solo.happen(events.TimePassed())
    solo.now += 101
    solo.happen(events.TimePassed())


def disagree(solo: Solo) -> None:
    """An error that ends the run, for whoever is not computing."""
    solo.hear("bob", records.OtherVersion(VERSION + 1))


def be_ready(solo: Solo) -> None:
    for peer in ("bob", "cem"):
        solo.hear(peer, solo.ready(peer))


def begin(solo: Solo) -> None:
    for peer in ("bob", "cem"):
        solo.hear(peer, solo.last(records.Begin))


def ask_again(solo: Solo) -> None:
    """A peer without a result comes back."""
    solo.arrive("cem")
    solo.hear("cem", solo.ready("cem"))


def be_late(solo: Solo) -> None:
    """All are ready, and something came to the last session after its end."""
    solo.hear("cem", solo.ready("cem", 1))


def be_ahead(solo: Solo) -> None:
    for peer in ("bob", "cem"):
        solo.hear(peer, solo.begin(1))


def hand_on(solo: Solo) -> None:
    session = solo.last(records.Begin).session
    lines = [json.dumps(to_line(whole().reveals[0]))]
    solo.hear("bob", records.Handover(session, 0, lines))


def all_kept(solo: Solo) -> None:
    for peer in ("bob", "cem"):
        solo.hear(peer, records.Kept())


CAUSES: dict[Signal, Callable[[Solo], object]] = {
    Signal.ALL_HERE: lambda solo: solo.arrive("cem"),
    Signal.ON_ITS_WAY: be_late,
    Signal.SETTLED: Solo.compute,
    Signal.ALL_READY: be_ready,
    Signal.ALL_BEGUN: begin,
    Signal.BEHIND: be_ahead,
    Signal.HANDED: hand_on,
    Signal.MESSAGE_CAME: lambda solo: solo.hear("cem", solo.message("cem")),
    Signal.COMPUTED: Solo.compute,
    Signal.RETURNED: Solo.compute,
    Signal.STOPPED: lambda solo: solo.hear("cem", solo.message("cem", Kind.STOP)),
    Signal.READY_AGAIN: lambda solo: solo.hear("bob", solo.ready("bob", 1)),
    Signal.LOST: lambda solo: solo.happen(Left("bob", 1)),
    Signal.HAVE_RESULT: begin,
    Signal.ASKED_AGAIN: ask_again,
    Signal.ALL_DONE: lambda solo: solo.hear("cem", solo.done()),
    Signal.ALL_KEPT: all_kept,
    Signal.UNCONFIRMED: later,
    Signal.GAVE_UP: later,
    Signal.ERROR: disagree,
}
OTHER_CAUSES: dict[Signal, list[Callable[[Solo], object]]] = {
    Signal.LOST: [
        lambda solo: solo.happen(events.HubLost("The hub is gone.")),
        lambda solo: solo.happen(events.ChannelBroke("bob", "It is broken.")),
        lambda solo: solo.hear("bob", records.Leave(failed=False)),
    ],
}
LINES = [
    (state, signal, cause)
    for state, row in TRANSITIONS.items()
    for signal in row
    for cause in [CAUSES[signal], *OTHER_CAUSES.get(signal, [])]
]


def prepared(state: State, signal: Signal) -> Solo:
    """A machine in the state, of which the signal is next."""
    if signal in (Signal.ALL_KEPT, Signal.UNCONFIRMED) or state is State.KEPT:
        solo = Solo(kept=True).bring(State.KEPT if state is State.GATHERING else state)
    elif signal in (Signal.ALL_DONE, Signal.HAVE_RESULT) or state is State.DONE:
        solo = Solo(length=OPENINGS).bring(state)
    elif (state, signal) == (State.READY, Signal.ON_ITS_WAY):
        solo = Solo().bring(State.LISTENING)
        late = solo.message("cem")
        solo.hear("bob", solo.ready("bob", 1))
        solo.hear("cem", late)
    elif state is State.SETTLING:
        solo = Solo(ending="end for good" if signal is Signal.ERROR else "go on").bring(state)
    elif state is State.COMPUTING:
        endings = {Signal.RETURNED: "return", Signal.ERROR: "fail"}
        solo = Solo(ending=endings.get(signal, "go on")).bring(state)
        if signal is Signal.RETURNED:
            solo.compute()  # the program; the result is still to be computed
    else:
        solo = Solo().bring(state)
    return solo


@pytest.fixture
def moves(monkeypatch):
    """All moves along the table of states, as they are made."""
    made: list[tuple[State, Signal]] = []

    def noted(table, state, signal):
        made.append((state, signal))
        return successor(table, state, signal)

    monkeypatch.setattr(run, "successor", noted)
    return made


@pytest.mark.parametrize(
    ("state", "signal", "cause"), LINES, ids=lambda value: getattr(value, "name", "")
)
def test_every_line_of_the_table_comes_about(moves, state, signal, cause):
    """And the machine goes where the line says, before anything else follows from that."""
    if (state, signal) == (State.GATHERING, Signal.HAVE_RESULT):  # follows from an interruption
        solo = Solo(length=OPENINGS).bring(State.READY)
        moves.clear()
        solo.happen(Left("bob", 1))
        assert moves == [(State.READY, Signal.LOST), (state, signal)]
        assert solo.is_in(State.DONE)
        return
    solo = prepared(state, signal)
    moves.clear()
    if state in (State.DONE, State.KEPT) and signal in (Signal.ALL_DONE, Signal.ALL_KEPT):
        solo.arrive("cem")
    (solo.compute if state in COMPUTING else lambda: cause(solo))()
    assert moves[0] == (state, signal)
    after = moves[1][0] if len(moves) > 1 else solo.state
    assert after is TRANSITIONS[state][signal]


# Every event in every state, on the machine itself.

OLD = Message(VERSION, bytes(16), "bob", "ana", 0, Kind.HELLO, b"")


def said(record: records.AnyRecord) -> events.RecordArrived:
    return events.RecordArrived("bob", record)


EVENTS: dict[str, Callable[[Solo], events.AnyEvent]] = {
    "hub reached": lambda solo: events.HubReached(),
    "hub lost": lambda solo: events.HubLost("The hub is gone."),
    "hub spoke": lambda solo: Word("The hub says: nothing."),
    "peer back": lambda solo: Present("bob", 1),
    "peer left": lambda solo: Left("bob", 1),
    "channel broke": lambda solo: events.ChannelBroke("bob", "It is broken."),
    "heard": lambda solo: events.Heard("bob"),
    "greeting": lambda solo: said(records.Greeting(VERSION, DIGEST, solo.clock, "0.3")),
    "other file": lambda solo: said(records.Greeting(VERSION, "e" * 64, solo.clock, "0.3")),
    "ready": lambda solo: said(solo.ready("bob", 1)),
    "begin": lambda solo: said(
        records.Begin("0" * 32, 0, "0" * 64, False, False, False, 0, NO_SESSION)
    ),
    "old message": lambda solo: said(OLD),
    "handover": lambda solo: said(records.Handover("0" * 32, 0, [])),
    "done": lambda solo: said(solo.done()),
    "kept": lambda solo: said(records.Kept()),
    "alive": lambda solo: said(records.Alive()),
    "leave": lambda solo: said(records.Leave(failed=False)),
    "end": lambda solo: said(records.End(unverified=True)),
    "revealed": lambda solo: events.OpeningKept(),
    "computed": lambda solo: events.Computed([]),
    "time": lambda solo: events.TimePassed(solo.now),
    "sign of life due": lambda solo: events.SignOfLifeDue(),
    "stopping": lambda solo: events.Stopping(),
}

G, R, B, T, L, D, K, F = (
    State.GATHERING, State.READY, State.BEGUN, State.TAKING, State.LISTENING, State.DONE,
    State.KEPT, State.FAILED,
)  # fmt: skip
FROM = (G, R, B, T, L, D, K)
# Where an event leads from these states, in their order: bob and cem are there, but for the first.
LEADS_TO = {
    "hub lost": (G, G, G, G, G, D, K),
    "peer back": (G, G, G, G, G, D, K),
    "peer left": (G, G, G, G, G, D, K),
    "channel broke": (G, G, G, G, G, D, K),
    "other file": (F, F, F, F, F, F, F),
    "ready": (G, R, B, R, R, R, R),
    "leave": (G, G, G, G, G, D, K),
    "end": (F, F, F, F, F, D, K),
}
AT_ANY_TIME = ("sign of life due", "stopping")
OF_A_COMPUTATION = ("revealed", "computed")
WHILE_COMPUTING = ("peer left",)  # the user learns it at once; the state stays


def test_every_event_is_tried():
    tried = {type(make(Solo().bring(State.BEGUN))) for make in EVENTS.values()}
    assert tried | {events.ChannelStands} == frozenset[type]().union(*LEGAL_EVENTS.values())


@pytest.mark.parametrize("what", EVENTS)
@pytest.mark.parametrize("state", State, ids=lambda state: state.name)
def test_an_event_leads_on_or_is_refused(state, what):
    solo = Solo().bring(state)
    event = EVENTS[what](solo)
    if state in FROM:
        legal = what not in OF_A_COMPUTATION
    else:
        legal = what in AT_ANY_TIME or (state in COMPUTING and what in OF_A_COMPUTATION)
        legal = legal or (state is State.COMPUTING and what in WHILE_COMPUTING)
    assert legal == (type(event) in LEGAL_EVENTS[state])
    if not legal:
        sentence = f"^{type(event).__name__} cannot happen in state {state.name}; "
        with pytest.raises(IllegalTransition, match=sentence):
            solo.happen(event)
        assert solo.state is state
        return
    if (state, what) == (State.SETTLING, "computed"):
        solo.compute()
        assert solo.is_in(State.BEGUN)
        return
    solo.happen(event)
    if what == "computed":
        assert solo.state is State.LISTENING
    elif what in LEADS_TO and state in FROM:
        assert solo.state is LEADS_TO[what][FROM.index(state)]
    else:
        assert solo.state is state


@pytest.mark.parametrize(
    "event",
    [
        events.ChannelStands("cem"),
        Left("cem", 1),
        events.Heard("cem"),
        events.ChannelBroke("cem", "It is broken."),
        events.RecordArrived("cem", records.Alive()),
        events.ChannelStands("bob"),
    ],
    ids=lambda event: f"{type(event).__name__} {event.peer}",
)
def test_a_peer_does_what_its_own_table_says(event):
    """Cem is absent, and the channel of bob stands already."""
    solo = Solo().bring(State.GATHERING)
    with pytest.raises(IllegalTransition, match="cannot happen in state"):
        solo.happen(event)


# Sentences.


def test_another_version_another_file_and_another_clock_end_the_run():
    endings: list[tuple[AnyRecord, str]] = [
        (records.OtherVersion(3), "version 4. Upgrade Party bob (docs/upgrading.md)"),
        (
            records.OtherVersion(7, "0.9\x1b"),
            r"Party bob has release 0.9\x1b with protocol version 7",
        ),
        (records.OtherVersion(7, "0.9"), "Upgrade this party"),
        (records.Greeting(VERSION, "e" * 64, 5000.0, "0.3"), "Party bob has another agreed file"),
        (
            records.Greeting(VERSION, DIGEST, 5301.0, "0.3"),
            "The clock of party bob is 5 minutes ahead of",
        ),
        (
            records.Greeting(VERSION, DIGEST, 4000.0, "0.3"),
            "The clock of party bob is 17 minutes behind",
        ),
    ]
    for record, sentence in endings:
        solo = Solo()
        solo.happen(Present("bob", 1))
        solo.happen(events.ChannelStands("bob"))
        solo.hear("bob", record)
        assert solo.state is State.FAILED
        assert isinstance(solo.error, JoinError)
        assert sentence in str(solo.error)


def test_who_does_not_greet_or_speaks_for_another_breaks_the_channel():
    solo = Solo()
    solo.happen(Present("bob", 1))
    solo.happen(events.ChannelStands("bob"))
    solo.hear("bob", records.Alive())
    assert solo.said == ["Party bob did not begin with a greeting. Trying again."]
    assert solo.reconnects == 1
    solo = Solo().bring(State.LISTENING)
    solo.hear("bob", solo.message("cem"))
    assert "Party bob sent a message in the name of another. Trying again." in solo.said
    assert solo.reconnects == 1
    assert {peer for peer, record in solo.sent[-1:]} == {"cem"}  # who is told to stop


def test_a_channel_that_breaks_again_and_again_ends_the_run():
    solo = Solo(most_faults=2)
    for _ in range(3):
        solo.happen(events.HubReached())
        solo.arrive("bob")
        solo.happen(events.ChannelBroke("bob", "It is broken."))
    assert solo.reconnects == 2
    assert str(solo.error) == "It is broken. That happened 3 times; ask the operator of the hub."


def test_an_error_of_the_program_is_told_without_its_values():
    solo = Solo(ending="fail").bring(State.COMPUTING)
    solo.compute()
    assert solo.state is State.FAILED
    assert str(solo.error) == "The computation failed here (RuntimeError)."


def test_that_the_table_has_changed_is_said_in_its_own_words():
    solo = Solo(ending="other rows").bring(State.COMPUTING)
    solo.compute()
    assert str(solo.error) == "The table is another now."


def test_who_leaves_during_a_computation_is_named_at_once_and_once():
    solo = Solo().bring(State.COMPUTING)
    solo.happen(Left("bob", 1))
    assert solo.said[-1] == "Party bob left in exchange 1."
    solo.compute()
    solo.happen(Left("bob", 1))
    assert [sentence for sentence in solo.said if "Party bob" in sentence] == [
        "Party bob left in exchange 1."
    ]


def test_a_carrier_cannot_flood_the_user_with_who_comes_and_goes():
    solo = Solo().bring(State.COMPUTING)
    for _ in range(3):
        solo.happen(Left("bob", 1))
    solo.compute()
    for _ in range(100):  # as it says, for no channel stands
        solo.happen(Left("bob", 1))
        solo.happen(Present("bob", 1))
        solo.happen(Present("bob", 1))
    assert [sentence for sentence in solo.said if "Party bob" in sentence] == [
        "Party bob left in exchange 1."
    ]


def test_who_says_that_it_has_failed_is_named_once_also_after_the_hub_said_that_it_left():
    solo = Solo().bring(State.COMPUTING)
    solo.happen(Left("bob", 1))
    solo.compute()
    for _ in range(3):
        solo.happen(said(records.Leave(failed=True)))
    solo.happen(said(records.Leave(failed=False)))
    solo.happen(Left("bob", 1))
    assert [sentence for sentence in solo.said if "Party bob" in sentence] == [
        "Party bob left in exchange 1.",
        "Party bob has failed there in exchange 1; ask there why.",
    ]
    assert solo.sessions.state is State.GATHERING  # it may come back


def test_signs_of_life_and_the_last_word_go_to_whoever_is_connected():
    solo = Solo().bring(State.GATHERING)
    solo.happen(events.SignOfLifeDue())
    solo.happen(events.Stopping(failed=True))
    assert solo.sent[-2:] == [("bob", records.Alive()), ("bob", records.Leave(failed=True))]


@pytest.mark.parametrize(
    ("tried", "sentence"),
    [
        (False, "The hub at hub:1 could not be reached within 100 seconds: stopped."),
        (True, "Party cem did not come within 100 seconds: stopped."),
    ],
)
def test_patience_ends_with_a_sentence(tried, sentence):
    solo = Solo()
    if tried:
        solo.bring(State.GATHERING)
    later(solo)
    assert solo.state is State.FAILED
    assert str(solo.error).startswith(f"{sentence} Ask ")
    assert str(solo.error).endswith("; then start again.")


def test_the_last_sentence_repeats_the_cause():
    """The mail of a scheduled run may show no other."""
    solo = Solo()
    solo.happen(events.HubLost("The hub does not answer."))
    later(solo)
    assert "within 100 seconds: stopped. The hub does not answer. Ask its operator" in str(
        solo.error
    )
    solo = Solo().bring(State.GATHERING)
    solo.happen(Word("The hub says: Party cem was refused."))
    later(solo)
    assert "stopped. The hub says: Party cem was refused. Ask them to start" in str(solo.error)


def test_who_was_lost_a_moment_ago_is_not_to_blame():
    solo = Solo().bring(State.GATHERING)
    solo.now += 99
    solo.happen(Left("bob", 1))
    solo.now += 2
    solo.happen(events.TimePassed())
    assert str(solo.error).startswith("Party cem did not come within 100 seconds: stopped.")


def test_who_cannot_reach_the_hub_is_told_for_how_long_we_try():
    solo = Solo()
    for _ in range(2):
        solo.happen(events.HubLost("The hub at hub:1 cannot be reached."))
    assert set(solo.said) == {
        "The hub at hub:1 cannot be reached. Trying again, up to 100 seconds."
    }


def test_several_who_did_not_come_are_named_as_one_says_them():
    solo = Solo()
    solo.happen(events.HubReached())
    later(solo)
    assert isinstance(solo.error, OutOfPatience)
    assert str(solo.error).startswith("Parties bob and cem did not come within 100 seconds: ")


def test_who_hears_of_a_refusal_is_told_that_we_go_on_waiting_until_when_and_how_to_stop():
    solo = Solo().bring(State.GATHERING)
    solo.now += 1
    solo.happen(events.TimePassed())
    solo.now += 10
    for _ in range(2):
        solo.happen(Word("The hub says: Party cem was refused."))
        solo.happen(events.TimePassed())
        solo.happen(events.TimePassed())
    assert solo.said == [
        "Waiting for cem, up to 100 seconds.",
        *2
        * [
            "The hub says: Party cem was refused.",
            "Still waiting for cem, up to 89 more seconds. You can stop, and start again to "
            "resume.",
        ],
    ]


def test_what_the_hub_says_does_not_lengthen_the_wait():
    solo = Solo().bring(State.GATHERING)
    solo.happen(events.TimePassed())
    solo.now += 60
    solo.happen(Word("The hub says: Party cem was refused."))
    solo.now += 41
    solo.happen(events.TimePassed())
    assert str(solo.error).startswith("Party cem did not come within 100 seconds: stopped.")


def test_several_who_say_nothing_are_named_as_one_says_them():
    patience = Patience([], 10.0, 100.0, 0.0)
    assert patience.silence_summary(["bob"], "").startswith("Party bob is there, and sent nothing")
    assert patience.silence_summary(["bob", "cem"], " in exchange 2").startswith(
        "Parties bob and cem are there, and sent nothing of this session for more than 100 seconds "
        "in exchange 2: stopped."
    )


def test_the_user_is_told_once_whom_we_wait_for():
    solo = Solo().bring(State.GATHERING)
    for _ in range(3):
        solo.now += 0.4
        solo.happen(events.TimePassed())
    assert solo.said == ["Waiting for cem, up to 100 seconds."]
    solo.happen(Left("bob", 1))
    solo.happen(events.TimePassed())
    assert solo.said[-1] == "Waiting for bob and cem, up to 100 seconds."
    solo.arrive("bob")
    solo.now += 30
    solo.happen(events.TimePassed())
    assert solo.said[-1] == "Waiting for cem, up to 69 more seconds."


def test_silence_is_warned_of_and_then_ends_the_session():
    solo = Solo(timeout=10.0).bring(State.LISTENING)
    solo.now += 8
    solo.happen(events.Heard("cem"))
    solo.happen(events.TimePassed(solo.now))
    solo.happen(events.TimePassed(solo.now))
    assert solo.said[1:] == ["Nothing was heard from party bob for 8.0 seconds in exchange 1."]
    solo.now += 2.5
    solo.happen(events.TimePassed(solo.now))
    sentence = "Nothing was heard from party bob for 10 seconds in exchange 1. Trying again."
    assert solo.said[2:] == [sentence, "1 of at most 5 interruptions, by bob."]
    assert (solo.state, solo.reconnects) == (State.GATHERING, 1)


def test_a_silent_hub_is_left():
    solo = Solo(timeout=10.0).bring(State.READY)
    heard = solo.now
    solo.now += 10.5
    solo.happen(events.TimePassed(heard))
    assert solo.said == ["Nothing was heard from the hub for 10 seconds. Trying again."]
    assert solo.reconnects == 1


def test_nobody_is_silent_while_we_compute():
    solo = Solo(timeout=10.0).bring(State.COMPUTING)
    solo.now += 1000
    solo.compute()
    solo.happen(events.TimePassed(solo.now - 1000))
    assert solo.state is State.LISTENING
    assert solo.reconnects == 0


# Whole lives, of three machines.


def assert_all_have_the_result(trio: Trio, repeats: int = 0) -> None:
    assert trio.states() == [State.OVER] * 3
    for machine in trio.machines.values():
        assert machine.outcome.to_text() == whole().to_text()
        assert len(machine.kept) <= 1
    assert_nothing_was_opened_twice(trio, repeats)


def assert_nothing_was_opened_twice(trio: Trio, repeats: int = 0) -> None:
    for machine in trio.machines.values():
        openings = [number for number, _ in machine.log]
        assert len(openings) <= len(set(openings)) + repeats
        assert len(machine.known.repeats) <= repeats


def test_three_parties_come_to_the_same_end():
    trio = Trio()
    trio.join("ana", "bob")
    trio.carry()
    assert trio.states() == [State.GATHERING] * 3
    trio.join("cem")
    trio.carry()
    assert_all_have_the_result(trio)
    for machine in trio.machines.values():
        assert machine.said == ["All 3 parties are there."]
        (kept,) = machine.kept
        assert kept.costs.rounds == 1 + OPENINGS + len(BEGINNINGS)
        assert machine.known.confirmed


def test_a_session_forms_step_by_step():
    """READY when all are there, BEGIN when all are ready, start when all have begun the same."""
    trio = Trio()
    trio.join(*NAMES)
    ana = trio["ana"]
    assert trio.states() == [State.READY] * 3
    trio.carry(until=lambda: ana.state is not State.READY)
    assert ana.is_in(State.BEGUN)
    trio.slow.add("ana")
    trio.carry(until=lambda: ana.state is not State.BEGUN)
    assert ana.is_in(State.COMPUTING)


def test_messages_that_come_before_our_own_start_are_held():
    solo = Solo().bring(State.BEGUN)
    solo.hear("bob", solo.last(records.Begin))
    solo.hear("bob", solo.message("bob"))
    assert solo.state is State.BEGUN
    solo.hear("cem", solo.last(records.Begin))
    solo.compute()
    assert solo.asked is not None
    assert solo.asked.arguments == (solo.message("bob"),)


def test_more_than_a_session_can_need_is_not_held():
    solo = Solo(most_waiting=150).bring(State.BEGUN)
    solo.hear("bob", solo.message("bob"))
    assert solo.reconnects == 0
    solo.hear("bob", solo.message("bob"))
    assert solo.said[-1] == "Party bob sent more than 150 bytes ahead of us. Trying again."
    assert solo.reconnects == 1


@pytest.mark.parametrize("opening", range(OPENINGS + 1))
@pytest.mark.parametrize("victim", NAMES)
def test_a_party_that_is_lost_at_any_opening_is_waited_for(victim, opening):
    trio = Trio()
    trio.join(*NAMES)
    trio.until_opening("ana", opening)
    trio.crash(victim)
    trio.join(victim)
    trio.carry()
    for machine in trio.machines.values():
        assert machine.outcome.to_text() == whole().to_text()
    assert_nothing_was_opened_twice(trio, repeats=1)


def test_an_interruption_is_counted_and_told():
    trio = Trio()
    trio.join(*NAMES)
    trio.until_opening("ana", 3)
    for count in (1, 2):
        trio.crash("cem")
        assert trio["ana"].state is trio["bob"].state is State.GATHERING
        assert trio["ana"].said[-2].startswith("Party cem left in exchange ")
        both = "by" if count == 1 else "both by"
        assert trio["ana"].said[-1] == f"{count} of at most 5 interruptions, {both} cem."
        # Kept at once: ana may be stopped while it waits, and is not the one who interrupted.
        assert [one.by for one in trio["ana"].known.interruptions] == ["cem"] * count
        trio.join("cem")
        trio.carry(until=lambda: trio.states() == [State.LISTENING] * 3)
        assert trio["ana"].said[-1].startswith("All 3 parties are there; resuming after exchange ")
    trio.carry()
    assert_all_have_the_result(trio)
    assert [one.by for one in trio["bob"].known.interruptions] == ["cem"] * 2
    assert [one.by for one in trio["cem"].known.interruptions] == ["cem"] * 2


def test_too_many_interruptions_end_the_run_for_good():
    trio = Trio(most_interruptions=1)
    trio.join(*NAMES)
    trio.carry(until=lambda: trio.states() == [State.LISTENING] * 3)
    trio.crash("cem")
    trio.join("cem")
    trio.carry(until=lambda: trio.states() == [State.LISTENING] * 3)
    with pytest.raises(EndOfRun, match="2 of at most 1 interruption, both by cem"):
        trio.crash("cem")
    for name in ("ana", "bob"):  # who do not wait for somebody that cannot go on
        assert trio[name].state is State.FAILED
        assert "This run was interrupted too often: 2 of at most 1 interruption" in str(
            trio[name].error
        )
        assert trio[name].known.failed == str(trio[name].error)


def test_earlier_runs_that_did_not_finish_count():
    with pytest.raises(EndOfRun, match="3 of at most 2 interruptions, all by earlier runs that"):
        Solo(most_interruptions=2, earlier=3)


def test_a_party_that_stops_stops_everybody():
    trio = Trio()
    trio.join(*NAMES)
    trio.until_opening("ana", 1)
    trio.way["cem", "bob"].clear()
    trio.happen("bob", Left("cem", 1))  # which only bob has noticed
    trio.carry(until=lambda: trio["ana"].state in (State.GATHERING, State.READY))
    assert trio["ana"].state in (State.GATHERING, State.READY)
    assert [one.by for one in trio["ana"].known.interruptions] == ["cem, as bob says"]


@pytest.mark.parametrize(
    ("word", "blamed"),
    [
        ("", "bob"),
        ("bob", "bob"),
        ("cem", "cem, as bob says"),
        ("the hub", "the hub, as bob says"),
        ("ana", "ana, as bob says"),
        ("\x1b[2J", "bob"),
        ("dora", "bob"),
    ],
)
def test_who_has_stopped_us_may_name_another(word, blamed):
    solo = Solo().bring(State.LISTENING)
    stop = dataclasses.replace(solo.message("bob", Kind.STOP), payload=word.encode())
    solo.hear("bob", stop)
    assert [one.by for one in solo.known.interruptions] == [blamed]


def test_who_ends_a_run_for_good_tells_the_others():
    solo = Solo(ending="end for good").bring(State.COMPUTING)
    solo.compute()
    assert solo.state is State.FAILED
    told = [one for one in solo.sent if isinstance(one[1], records.End)]
    assert told == [(peer, records.End(unverified=False)) for peer in ("bob", "cem")]


@pytest.mark.parametrize("unverified", [True, False])
def test_who_is_told_so_ends_it_too_for_good(unverified):
    solo = Solo().bring(State.LISTENING)
    solo.hear("bob", records.End(unverified))
    other = "Party bob has ended this run for good; the reason is shown there."
    expected = str(NotVerified()) if unverified else f"{other} {NEW_RUN}"
    assert str(solo.error) == solo.known.failed == expected
    assert solo.sent[-1] == ("cem", records.End(unverified))


def test_a_check_that_fails_ends_all_runs_with_one_sentence():
    trio = Trio()
    trio.join(*NAMES)
    trio.until_opening("ana", 1)
    trio["bob"].known.revealed = fail_a_check  # type: ignore[method-assign]
    trio.carry()
    assert {str(trio[name].error) for name in NAMES} == {str(NotVerified())}
    assert {trio[name].known.failed for name in NAMES} == {str(NotVerified())}


def fail_a_check(transcript: Transcript) -> None:
    raise Unverified("SFY-TEST-001", "the products of ana")


def test_a_party_that_takes_leave_is_named():
    trio = Trio()
    trio.join(*NAMES)
    trio.until_opening("ana", 1)
    trio.happen("bob", events.Stopping())
    trio.carry()
    assert any(
        line.startswith("Party bob was stopped there in exchange ") for line in trio["ana"].said
    )
    trio.crash("bob")
    assert not any("left" in line for line in trio["ana"].said)
    trio.join("bob")
    trio.carry()
    assert_all_have_the_result(trio, repeats=1)


def test_a_ready_in_the_middle_is_the_end_of_a_session_for_all():
    """As of a party whose line was cut and mended before the others have seen it."""
    trio = Trio()
    trio.join(*NAMES)
    trio.until_opening("ana", 2)
    trio.happen("cem", events.HubLost("The connection to the hub was lost: cut."))
    assert trio["cem"].said[-2:] == [
        "The connection to the hub was lost: cut. Trying again.",
        "1 of at most 5 interruptions, by the hub.",
    ]
    trio.cut("cem")
    trio.join("cem")
    trio.carry()
    assert_all_have_the_result(trio)
    solo = Solo().bring(State.LISTENING)
    before = solo.last(records.Ready)
    solo.hear("bob", solo.ready("bob", 1))
    assert solo.state is State.READY
    assert solo.last(records.Ready) != before
    stopped = [record.kind for _, record in solo.sent if isinstance(record, Message)]
    assert stopped[-2:] == [Kind.STOP] * 2


# What a session goes on from.


@pytest.mark.parametrize("lengths", [(4, 3, 4), (1, 3, 3), (2, 4, 4), (6, 6, 5), (7, 7, 6)])
def test_a_session_goes_on_from_the_longest_transcript_that_two_have(lengths):
    trio = Trio({name: memory(length) for name, length in zip(NAMES, lengths, strict=True)})
    trio.join(*NAMES)
    trio.carry()
    assert_all_have_the_result(trio)
    opened = {number for machine in trio.machines.values() for number, _ in machine.log}
    assert opened == set(range(max(lengths), OPENINGS))


def test_an_opening_that_only_one_has_is_made_again_once():
    known = {"ana": memory(2), "bob": memory(2), "cem": memory(3)}
    for name in ("ana", "bob"):
        known[name].opening(known[name].transcript)
    trio = Trio(known)
    trio.join(*NAMES)
    trio.carry()
    for machine in trio.machines.values():
        assert machine.outcome.to_text() == whole().to_text()
        assert machine.known.repeats == [2]
    known = {"ana": memory(2), "bob": memory(2), "cem": memory(3)}
    for name in ("ana", "bob"):
        for _ in range(2):
            known[name].opening(known[name].transcript)
    trio = Trio(known)
    trio.join(*NAMES)
    trio.carry()
    assert "Opening 3 was sent before an interruption" in str(trio["ana"].error)
    assert trio["ana"].known.failed
    assert not any(machine.kept for machine in trio.machines.values())


@pytest.mark.parametrize("who", NAMES)
def test_parties_together_make_one_opening_again(who):
    """One has repeated an earlier opening, of which the others knew nothing."""
    known = {name: memory(3) for name in NAMES}
    known[who].repeats.append(1)
    known["cem"].opening(known["cem"].transcript)
    trio = Trio(known)
    trio.join(*NAMES)
    trio.carry()
    for machine in trio.machines.values():
        assert "Opening 4 was sent before an interruption" in str(machine.error)
        assert machine.known.failed
        assert machine.log == []


def test_two_openings_that_only_one_has_sent_are_not_made_again():
    known = {"ana": memory(2), "bob": memory(2), "cem": memory(3)}
    known["cem"].opening(known["cem"].transcript)
    trio = Trio(known)
    trio.join(*NAMES)
    trio.carry()
    for machine in trio.machines.values():
        assert "Opening 3 was sent before an interruption" in str(machine.error)
        assert machine.known.failed
        assert machine.log == []


def test_who_has_made_one_again_goes_on_while_none_is_lost():
    known = {name: memory(3) for name in NAMES}
    for one in known.values():
        one.repeats.append(1)
    trio = Trio(known)
    trio.join(*NAMES)
    trio.carry()
    for machine in trio.machines.values():
        assert machine.outcome.to_text() == whole().to_text()


def test_what_is_opened_again_must_be_the_same():
    trio = Trio({"ana": memory(2), "bob": memory(2), "cem": memory(3)})
    for machine in trio.machines.values():
        machine.rows = Transcript(AGREEMENT, [*whole().reveals[:2], _other_sign(whole(), 2)])
    trio.join(*NAMES)
    trio.carry()
    assert "Opening 3 was made again with another value" in str(trio["cem"].error)
    assert trio["cem"].known.failed


def _other_sign(run: Transcript, number: int) -> Step:
    step = run.reveals[number]
    assert isinstance(step, Step)
    return step._replace(delta=-step.delta)


def test_parties_that_know_different_things_do_not_begin():
    trio = Trio({"bob": memory(2, others=True), "ana": memory(2), "cem": memory(3)})
    trio["bob"].known.transcript.reveals[0] = Counts(
        whole().reveals[0].features, whole().counts() + 1
    )
    trio.join(*NAMES)
    trio.carry()
    assert State.COMPUTING not in trio.states()
    assert getattr(trio["ana"].error, "code", None) == "SFY-JOIN-008"
    assert trio["ana"].known.failed
    assert not any(machine.kept for machine in trio.machines.values())


CLAIMS: dict[str, tuple[int, Callable[[Solo], records.Begin], str, bool]] = {
    "shorter than it can be": (5, lambda solo: solo.begin(1), "SFY-JOIN-012", False),
    "forged": (5, lambda solo: solo.begin(5, digest="a" * 64), "SFY-JOIN-008", True),
    "shorter and forged": (5, lambda solo: solo.begin(4, digest="b" * 64), "SFY-JOIN-008", True),
    "longer than it can be": (2, lambda solo: solo.begin(5), "SFY-JOIN-013", False),
    "absurdly long": (2, lambda solo: solo.begin(2, reveals=1 << 31), "SFY-JOIN-013", False),
    "finished too soon": (5, lambda solo: solo.begin(5, finished=True), "SFY-JOIN-008", True),
}


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_claim_that_cannot_be_is_refused(claim):
    """Bob makes it; cem has what ana has."""
    length, forged, code, for_good = CLAIMS[claim]
    solo = Solo(length=length).bring(State.BEGUN)
    solo.hear("cem", solo.begin(length))
    solo.hear("bob", forged(solo))
    assert solo.state is State.FAILED
    assert getattr(solo.error, "code", None) == code
    assert bool(solo.known.failed) == for_good
    assert solo.asked is None


def test_two_who_have_more_but_not_the_same_end_the_run():
    solo = Solo(length=2).bring(State.BEGUN)
    solo.hear("cem", solo.begin(3))
    solo.hear("bob", solo.begin(3, digest="c" * 64))
    assert "Two parties have different records" in str(solo.error)
    solo = Solo(length=3).bring(State.BEGUN)
    solo.hear("cem", solo.begin(4))
    solo.hear("bob", solo.begin(4))
    assert solo.is_in(State.TAKING)
    solo.hear("bob", records.Handover(solo.last(records.Begin).session, 3, ['{"reveal": "lie"}']))
    assert "Party bob handed over what is not a transcript." in solo.said
    assert solo.is_in(State.TAKING)
    solo = Solo(length=3).bring(State.BEGUN)
    solo.hear("cem", solo.begin(4))
    solo.hear("bob", solo.begin(4))
    lie = json.dumps(to_line(_other_sign(whole(), 3)))
    solo.hear("bob", records.Handover(solo.last(records.Begin).session, 3, [lie]))
    assert "Party bob handed over a different transcript" in solo.said[-1]
    assert solo.is_in(State.TAKING)
    assert solo.openings == 3


def test_what_is_handed_on_before_all_have_begun_counts():
    solo = Solo().bring(State.BEGUN)
    solo.hear("bob", solo.begin(1))
    hand_on(solo)
    solo.hear("cem", solo.begin(1))
    assert solo.is_in(State.COMPUTING)
    assert solo.openings == 1


def test_what_is_handed_on_for_another_session_does_not():
    solo = Solo().bring(State.TAKING)
    lines = [json.dumps(to_line(whole().reveals[0]))]
    solo.hear("bob", records.Handover("0" * 32, 0, lines))
    assert solo.is_in(State.TAKING)
    assert solo.openings == 0


def test_what_was_on_its_way_is_taken_before_a_new_session():
    """Cem's part of an opening arrives after bob was lost, and before cem is ready again."""
    trio = Trio()
    trio.join(*NAMES)
    ana = trio["ana"]
    trio.carry(until=lambda: len(ana.log) == 4)  # about to open the fourth
    assert ana.openings == 3
    for pair in trio.way:
        if pair[0] == "bob":
            trio.way[pair].clear()
    trio.crash("bob")
    trio.join("bob")
    trio.carry()
    assert_all_have_the_result(trio)


def test_openings_of_others_that_were_on_their_way_are_taken_without_sending_our_own():
    """All that cem sends is late: its input, and its parts of what bob and cem have opened."""
    trio = Trio()
    trio.join(*NAMES)
    trio.until_opening("ana", 1)
    late = trio.way.pop(("cem", "ana"))
    before = len(trio["ana"].log)
    while trio.way["bob", "ana"] or trio.way["ana", "cem"] or trio.way["cem", "bob"]:
        trio.carry(until=lambda: bool(trio.way["cem", "ana"]))
        late.extend(trio.way.pop(("cem", "ana"), ()))
    assert (trio["ana"].openings, trio["cem"].openings) == (1, 4)
    trio.crash("bob")
    late.extend(trio.way["cem", "ana"])
    trio.way["cem", "ana"] = late
    trio.join("bob")
    trio.carry(until=lambda: trio["ana"].state is State.BEGUN)
    assert trio["ana"].openings == 4
    assert len(trio["ana"].log) == before
    trio.carry()
    assert_all_have_the_result(trio)


# The end.


def test_a_result_is_written_only_when_all_have_the_same():
    solo = Solo().bring(State.DONE)
    assert solo.last(records.Done) == solo.done()
    solo.hear("bob", solo.done())
    assert solo.kept == []
    solo.hear("cem", records.Done("f" * 64))
    assert solo.state is State.FAILED
    assert "Party cem has a different result" in str(solo.error)
    assert solo.kept == []
    assert solo.known.failed
    assert not solo.known.confirmed


def test_who_has_another_result_is_found_out_also_by_who_is_late():
    solo = Solo(ending="return").bring(State.LISTENING)
    solo.hear("bob", records.Done("f" * 64))
    solo.hear("cem", solo.message("cem"))
    solo.compute()
    solo.compute()
    assert solo.state is State.FAILED
    assert solo.kept == []


def test_who_has_the_result_from_the_start_may_have_waited_enough_at_once():
    solo = Solo(kept=True)
    solo.now += 1000
    solo.happen(events.TimePassed())
    assert solo.said == ["bob and cem confirmed the result and did not say that it is written."]
    assert solo.outcome.to_text() == whole().to_text()


def test_who_is_handed_the_result_has_a_cost_that_the_report_can_read():
    """Its silo may have taken some time, for nothing."""
    assert SessionCosts().cost("cem", 0.01).seconds_secure == 0.0


def test_preparing_the_rows_counts_once_and_nothing_is_negative():
    """It was before any session: what a session computed is not less for it."""
    cost = SessionCosts(seconds_computing=2.0, seconds_waiting=1.0).cost(
        "cem", sums=1.5, prepared=10.0
    )
    assert (cost.seconds_local, cost.seconds_secure, cost.seconds_waiting) == (11.5, 0.5, 1.0)


def test_time_without_a_party_is_nobodys_cost():
    trio = Trio()
    trio.join(*NAMES)
    trio.until_opening("ana", 3)
    trio["ana"].now += 2.0
    trio.crash("cem")
    trio["ana"].now += 50.0
    trio.join("cem")
    trio.carry()
    assert_all_have_the_result(trio)
    (kept,) = trio["ana"].kept
    assert kept.costs.seconds_waiting == 2.0


def test_who_is_late_is_handed_the_result():
    trio = Trio({"ana": memory(OPENINGS), "bob": memory(OPENINGS), "cem": memory(5)})
    trio.join("ana", "bob")
    trio.carry()
    assert trio.states() == [State.DONE, State.DONE, State.GATHERING]
    assert not trio["ana"].kept
    trio.pass_time(0.6, "ana")
    assert trio["ana"].said == ["Waiting for cem to compare the result, up to 100 seconds."]
    trio.join("cem")
    trio.carry()
    assert_all_have_the_result(trio)
    assert not any(machine.log for machine in trio.machines.values())


def test_who_has_lost_all_is_handed_a_result_that_all_others_have():
    trio = Trio({name: memory(OPENINGS, confirmed=True) for name in ("ana", "bob")})
    trio.join(*NAMES)
    trio.carry()
    assert_all_have_the_result(trio)
    assert not any(machine.log for machine in trio.machines.values())
    assert [len(machine.kept) for machine in trio.machines.values()] == [0, 0, 1]


def test_who_has_lost_all_in_the_middle_cannot_go_on():
    trio = Trio({"ana": memory(4), "bob": memory(4)})
    trio.join(*NAMES)
    trio.carry()
    assert not any(machine.log for machine in trio.machines.values())
    assert "Party cem has 0 openings of this run" in str(trio["ana"].error)
    assert "Party ana claims 4 openings" in str(trio["cem"].error)


def test_a_result_is_not_handed_on_the_word_of_some():
    solo = Solo().bring(State.BEGUN)
    solo.hear("bob", solo.begin(OPENINGS))
    solo.hear("cem", solo.begin(OPENINGS - 1))
    assert solo.state is State.FAILED
    assert "there can be 1 at most" in str(solo.error)


def test_a_confirmed_result_is_never_opened_again():
    """Whatever the others say that they have."""
    solo = Solo(kept=True).bring(State.BEGUN)
    for peer in ("bob", "cem"):
        solo.hear(peer, solo.begin(OPENINGS - 1))
    assert solo.state is State.FAILED
    assert "nothing is opened again" in str(solo.error)
    assert solo.log == []
    assert solo.kept == []


def test_who_has_the_result_is_not_late():
    """Though all others say that they have another, which is longer."""
    solo = Solo(kept=True).bring(State.BEGUN)
    for peer in ("bob", "cem"):
        solo.hear(peer, solo.begin(OPENINGS, reveals=OPENINGS + 1))
    assert solo.state is State.FAILED
    assert "without us there can be 7 at most" in str(solo.error)


def test_who_has_confirmed_and_falls_silent_is_not_waited_for():
    solo = Solo(timeout=10.0).bring(State.KEPT)
    assert len(solo.kept) == 1
    assert solo.last(records.Kept) == records.Kept()
    solo.hear("bob", records.Kept())
    solo.now += 9
    solo.happen(events.TimePassed(solo.now))
    assert solo.is_in(State.KEPT)
    solo.now += 2
    solo.happen(events.TimePassed(solo.now))
    assert solo.is_in(State.OVER)
    assert solo.said[-1] == "cem confirmed the result and did not say that it is written."


def test_who_does_not_confirm_leaves_all_without_a_result():
    trio = Trio({"ana": memory(OPENINGS), "bob": memory(OPENINGS)})
    trio.join("ana", "bob")
    trio.carry()
    trio.pass_time(101, "ana", "bob")
    trio.pass_time(101, "ana", "bob")
    for name in ("ana", "bob"):
        assert trio[name].state is State.FAILED
        assert "cem did not confirm the result within 100 seconds" in str(trio[name].error)
        assert not trio[name].known.failed
        assert trio[name].kept == []


def test_too_few_values_end_the_run_for_everybody_without_a_stop(monkeypatch):
    monkeypatch.setattr(
        "securefedyj.protocol.schedule.Schedule.check",
        lambda schedule: _raise(TooFewValues("SFY-TEST-001", "few")),
    )

    async def program(machine: Machine, now: Transcript) -> Transcript:
        now.reveals.append(whole().reveals[0])
        machine.known.revealed(now)
        raise TooFewValues("SFY-TEST-001", "too few")

    monkeypatch.setattr(Machine, "program", program)
    trio = Trio()
    trio.join(*NAMES)
    trio.carry()
    assert trio.states() == [State.OVER] * 3
    for machine in trio.machines.values():
        assert isinstance(machine.outcome, TooFewValues)
        (kept,) = machine.kept
        assert kept.transcript.result is None


def _raise(error: Exception) -> None:
    raise error


def test_progress_gives_new_patience():
    trio = Trio(timeout=1e6)
    trio.join(*NAMES)
    trio.pass_time(99)
    trio.until_opening("ana", 3)
    trio.crash("cem")
    trio.pass_time(1, "ana", "bob")  # waiting begins
    trio.pass_time(99, "ana", "bob")
    assert trio["ana"].is_in(State.GATHERING)
    trio.pass_time(2, "ana")
    assert trio["ana"].is_in(State.FAILED)
    sentence = "Party cem did not come within 100 seconds: stopped after exchange 2."
    assert str(trio["ana"].error).startswith(sentence)
    assert str(trio["ana"].error).endswith("; then start again to resume.")

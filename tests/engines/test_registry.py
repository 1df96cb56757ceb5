"""One entry per engine says all that depends on the engine; there are no others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

from securefedyj import SecureFedYJ
from securefedyj.engines.registry import ENGINES, facts_of
from securefedyj.party import inprocess
from securefedyj.party.machine import Party
from securefedyj.protocol.agreement import Agreement
from securefedyj.protocol.program import run_party
from securefedyj.protocol.secrecy import SECRECY, secrecy_of
from securefedyj.protocol.simulation import simulate
from securefedyj.protocol.transcript import Transcript
from securefedyj.report.page import render
from tests.federated_data import agreement

every_engine = pytest.mark.parametrize("facts", ENGINES.values(), ids=list(ENGINES))
PARTIES = ("ana", "bob", "cem", "dua")


@every_engine
def test_every_engine_has_every_sentence(facts):
    assert facts_of(facts.name) is facts
    assert list(SECRECY) == list(ENGINES)
    committee = facts.committee_of(PARTIES)
    secrecy = SECRECY[facts.name]
    sentences = [
        " ".join(secrecy.statement),
        secrecy.what_left,
        secrecy.what_stayed,
        secrecy.collusion(committee, len(PARTIES)),
    ]
    for sentence in sentences:
        assert sentence.endswith(".")
        assert not set(sentence) & set("<>&"), "sentences are text, and pages add their own marks"


@pytest.mark.parametrize("silos", [3, 4])
@pytest.mark.parametrize("resolution", [("1", "1"), ("1", "")])
def test_sentences_about_a_submitted_run_are_those_of_counts(silos, resolution):
    own = agreement(2, silos, (0.0, 100.0), "replicated")
    submitted = replace(own, resolution=resolution, submitted=True, verified=True)
    submitted.check()
    secrecy, some_live = secrecy_of(submitted), resolution[1] == ""
    assert "sent the counts once" in secrecy.what_left
    assert ("computed sums" in secrecy.what_left) == some_live
    who = secrecy.collusion(own.committee, silos)
    assert ("at one silo by itself" in who) == (silos == 3)
    assert ("at every step" in who) == some_live
    assert secrecy_of(own) == SECRECY["replicated"]


@every_engine
def test_an_engine_with_processes_of_its_own_has_them_on_the_network_and_on_one_machine(facts):
    assert facts.in_parallel == (facts.party is not Party) == (facts.run is not inprocess.run)


def test_only_the_clear_engine_says_that_it_is_not_secure():
    assert [facts.name for facts in ENGINES.values() if not facts.secure] == ["clear"]


def test_who_computes():
    assert facts_of("replicated").committee_of(PARTIES) == PARTIES[:3]
    assert facts_of("mpyc").committee_of(PARTIES) == PARTIES
    assert facts_of("clear").committee_of(PARTIES[:1]) == PARTIES[:1]


@every_engine
def test_too_few_parties_for_secrets_are_refused(facts):
    if facts.secure:
        with pytest.raises(ValueError, match=f"2 parties cannot keep secrets .*'{facts.name}'"):
            facts.committee_of(PARTIES[:2])
    else:
        assert facts.committee_of(PARTIES[:2]) == PARTIES[:2]


@every_engine
def test_the_messages_of_every_engine_are_bounded(facts):
    assert (facts.count_rounds is None) == facts.in_parallel
    assert (facts.largest_piece is not None) == (facts.most_ahead is not None) == facts.in_parallel


def unknown() -> Agreement:
    return replace(agreement(1), engine="paillier")


async def connected() -> None:
    await run_party("silo 1", unknown(), None)


REFUSERS = {
    "look-up": lambda: facts_of("paillier"),
    "no text": lambda: facts_of(cast(Any, ["clear"])),
    "estimator": lambda: SecureFedYJ(engine="paillier").fit([[[1.0]], [[2.0]], [[3.0]]]),
    "agreement": lambda: Agreement.from_json(unknown().to_json()),
    "transcript": lambda: Transcript.from_lines(list(Transcript(unknown()).to_lines())),
    "simulation": lambda: simulate(unknown(), [None] * 3),
    "party": lambda: connected().send(None),
    "audit": lambda: Transcript(unknown()).audit().statement(),
}


@pytest.mark.parametrize("where", REFUSERS)
def test_an_unknown_engine_is_refused_everywhere_with_those_that_there_are(where):
    names = ", ".join(map(repr, ENGINES))
    with pytest.raises(ValueError, match=f"engine must be one of {names}, got "):
        REFUSERS[where]()


def test_the_report_of_an_unknown_engine_is_refused(transcript_without_engine):
    with pytest.raises(ValueError, match="engine must be one of"):
        render(transcript_without_engine)


@pytest.fixture
def transcript_without_engine() -> Transcript:
    agreed = agreement(1, max_steps=2)
    transcript, _ = simulate(agreed, [np.array([[1.0], [2.0]]), np.array([[4.0]]), None])
    return replace(transcript, agreement=replace(agreed, engine="paillier"))

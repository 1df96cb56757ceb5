"""What the run revealed and to whom, in words: notices, the audit, the statement for the officer.

What is said depends on the engine that the parties agreed on.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from securefedyj.engines.registry import facts_of
from securefedyj.protocol.audit import MOST_LISTED, OPENED, Audit, one_could_cheat
from securefedyj.protocol.result import Result
from securefedyj.protocol.transcript import Transcript
from securefedyj.report import plausibility
from securefedyj.report.findings import FEW_VALUES
from securefedyj.report.markup import count_range, notice, text
from securefedyj.report.own import OwnRows
from securefedyj.report.provenance import Provenance


def notices(
    transcript: Transcript,
    audit: Audit,
    own: OwnRows | None,
    aside: str,
) -> Iterator[str]:
    """What a reader must know before anything else: whose data this is, and what went wrong.

    `aside` names what is on the page and not known to all.
    """
    if own is not None:
        drawn = len(own.values)
        some = f"{drawn:,} of the {own.rows:,}" if own.sampled else f"the {drawn:,}"
        counted = "Numbers of values beside them are those that were drawn. " * own.sampled
        yield notice(
            "warn",
            "This page shows your own data. Keep it in your organization.",
            f"The histograms and Q-Q plots are drawn from {some} rows of your table, on "
            f"your machine. {counted}They were not sent to anybody, and no other party has them. "
            "To share a report, make one without <code>--data</code>.",
        )
        if transcript.result is not None:
            doubtful = plausibility.implausible(own.values, transcript.result)
            names = [transcript.agreement.features[j] for j in np.flatnonzero(doubtful)]
            if names:
                words = text(plausibility.warning(names))
                yield notice("warn", "Lambda is implausible for your rows.", words)
    else:
        yield notice(
            "good",
            "Every party knows what is on this page" + (f", except {aside}." if aside else "."),
            "It was made from the transcript, without anybody's rows.",
        )
    facts = facts_of(transcript.agreement.engine)
    if not facts.secure:
        yield notice(
            "warn",
            "This run kept nothing secret.",
            f"Engine <code>{facts.name}</code> is for tests: every party saw the sums of every "
            "silo.",
        )
    if audit.verdict is None:
        words = one_could_cheat(transcript.agreement)
        yield notice("warn", "The result was not verified.", text(words[0].upper() + words[1:]))
    if not audit.passed:
        yield notice(
            "warn",
            "The audit failed.",
            "Something was revealed that does not follow from the result, or the transcript was "
            "changed. See what was revealed, below.",
        )


def revealed(transcript: Transcript, audit: Audit) -> str:
    """What was opened, and what the audit says about it."""
    signs, bits = transcript.signs_opened(), transcript.bits_opened()
    parties, engine, *words = audit.who_computed()
    outcome = "The audit passed." if audit.passed else "The audit FAILED."
    findings = "".join(f"<li>{text(finding)}</li>" for finding in audit.findings[:MOST_LISTED])
    if (more := len(audit.findings) - MOST_LISTED) > 0:
        findings += f"<li>and {more:,} more</li>"
    return f"""<h2>What was revealed, and to whom</h2>
<p>{text(parties)} {text(engine)}</p>
<p>{text(" ".join(words))}</p>
<p>Opened to every party, for each feature:</p>
<ul>{"".join(f"<li>{text(what)}</li>" for what in OPENED)}</ul>
<p>In all, {int(signs.sum()):,} signs were opened, {count_range(signs)} per feature.
With those of mean and variance, {count_range(bits)} bits were revealed of the values of each
feature.</p>
<p>{text(" ".join(audit.how_certainly()))}</p>
<p><strong>{outcome}</strong> It recomputes the result from what was revealed, and every sign from
the result. Check it yourself: <code>securefedyj audit transcript.jsonl</code></p>
<ul>{findings}</ul>"""


def statement(
    transcript: Transcript, result: Result, audit: Audit, provenance: Provenance | None
) -> str:
    """The statement for the data-protection officer."""
    few = int(np.sum((result.n < FEW_VALUES) & (result.n > 0)))
    constant = int(np.sum(result.constant & (result.n > 1)))
    risky = (
        f"In this run {few:,} of {transcript.n_features:,} features had fewer than {FEW_VALUES} "
        f"values in total, and {constant:,} were constant."
    )
    return f"""<h2>Statement for the data-protection officer</h2>
<p><strong>Purpose.</strong> One transformation per feature, for {transcript.n_features:,} features,
so that all parties prepare their data in the same way before they analyse them.</p>
<p><strong>What left the silo.</strong> {_what_left(transcript)}</p>
<p><strong>What every party learned.</strong> For each feature: the number of values over all silos,
whether they vary, λ, and the mean and variance of the transformed feature. These are statistics
over all silos' rows together. No noise was added; λ is found in at most
{transcript.agreement.max_steps} steps, and mean and variance are given to
{transcript.agreement.result_bits} bits at least, up to 4 more for the mean and 8 for the
variance.</p>
<p><strong>What nobody learned from the protocol.</strong> {_what_stayed(transcript)}</p>
<p><strong>Who must not collude.</strong> {_collusion(transcript)} Independently of the engine, all
silos but one together can subtract their own share from the result, and then know the number, mean
and variance of the last one's values.</p>
<p><strong>What the result can tell.</strong> Statistics of very few values, or of few distinct
ones, can tell them; a constant feature tells its constant; and repeated runs over
nearly the same rows can be compared.
{risky}</p>
<p><strong>Whether the result can be wrong.</strong> {text(" ".join(audit.how_certainly()))}
Nothing shows that a silo's data were true.</p>
{_checked(transcript, provenance)}<p><strong>Assumed, not checked.</strong>
{_assumed(audit, provenance)}</p>
<p><strong>Records.</strong> The transcript holds everything that was opened; all parties have the
same one. The audit of it {"passed" if audit.passed else "FAILED"}. It shows that what was recorded
as opened follows from the result. It cannot show that the software recorded all that it
opened, that no two members pooled what they hold, or that the data were true.</p>"""


def _checked(transcript: Transcript, provenance: Provenance | None) -> str:
    """What the party that made this page has seen to in its run; a transcript does not tell."""
    if provenance is None or not provenance.connections:
        return ""
    file = "" if transcript.origin is None else f" (<code>{text(transcript.origin.digest)}</code>)"
    return (
        f"<p><strong>Checked in the run, by <bdi>{text(provenance.party)}</bdi>.</strong> The "
        "connection to every other party was encrypted and authenticated from end to end: "
        f"{text(provenance.connections)}. All parties had the same agreed file{file}, and the same "
        "result before anybody wrote it.</p>\n"
    )


def _assumed(audit: Audit, provenance: Provenance | None) -> str:
    if audit.verdict:
        assumed = (
            "That all silos gave sums of true data; that all parties ran the program as it is, for "
            "who does not may learn more than the result, and a silo that makes up its sums is not "
            "found"
        )
    else:
        assumed = (
            "That all parties ran the program as it is, with true data: who does not may learn "
            "more than the result, and is not found"
        )
    if provenance is not None and provenance.connections:
        return f"{assumed}; and that each of them kept its private key to itself."
    return f"{assumed}; and that the connections between them were encrypted and authenticated."


def _what_left(transcript: Transcript) -> str:
    facts = facts_of(transcript.agreement.engine)
    sentence = text(facts.what_left)
    return sentence if facts.secure else f"<strong>{sentence}</strong>"


def _what_stayed(transcript: Transcript) -> str:
    return text(facts_of(transcript.agreement.engine).what_stayed)


def _collusion(transcript: Transcript) -> str:
    agreement = transcript.agreement
    members = [f"<bdi>{text(name)}</bdi>" for name in agreement.committee]
    return facts_of(agreement.engine).collusion(members, len(agreement.silos))

"""Records: what one party writes another reads, and nothing else is read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from securefedyj.errors import ProtocolError
from securefedyj.network.session import records
from securefedyj.network.session.records import AnyRecord, Kind
from securefedyj.network.transport import tls
from securefedyj.party import messages
from securefedyj.party.messages import VERSION, Message

GREETING: dict[str, Any] = {"version": VERSION, "digest": "d" * 64, "clock": 1.5}
READY: dict[str, Any] = {"random": "0f" * 32}
BEGIN: dict[str, Any] = {
    "session": "ab" * 16, "reveals": 3, "digest": "cd" * 32, "finished": False, "sending": True,
    "repeated": False, "accepted": 7, "computed": "ac" * 16,
}  # fmt: skip
HANDOVER: dict[str, Any] = {"session": "ab" * 16, "first": 2, "lines": ['{"reveal": "counts"}']}
DONE: dict[str, Any] = {"digest": "ef" * 32}
LEAVE = {"failed": True}
END: dict[str, Any] = {"unverified": True}
MESSAGE = Message(VERSION, bytes(16), "bob", "ana", 2, messages.Kind.INPUT, b"sealed")

EVERY_RECORD: dict[Kind, AnyRecord] = {
    Kind.GREETING: records.Greeting(**GREETING),
    Kind.READY: records.Ready(**READY),
    Kind.BEGIN: records.Begin(**BEGIN),
    Kind.MESSAGE: records.Delivery(MESSAGE),
    Kind.HANDOVER: records.Handover(**HANDOVER),
    Kind.DONE: records.Done(**DONE),
    Kind.KEPT: records.Kept(),
    Kind.ALIVE: records.Alive(),
    Kind.LEAVE: records.Leave(**LEAVE),
    Kind.END: records.End(**END),
}


def test_every_kind_is_here():
    assert set(EVERY_RECORD) == set(Kind)


@pytest.mark.parametrize("kind", Kind, ids=lambda kind: kind.name)
def test_what_is_written_is_read(kind):
    written = records.write(EVERY_RECORD[kind])
    assert written.type == kind
    assert records.read("bob", written) == EVERY_RECORD[kind]


@pytest.mark.parametrize(
    ("kind", "number", "body"),
    [
        (Kind.GREETING, 1, json.dumps(GREETING).encode()),
        (Kind.READY, 2, json.dumps(READY).encode()),
        (Kind.BEGIN, 3, json.dumps(BEGIN).encode()),
        (Kind.MESSAGE, 4, MESSAGE.to_bytes()),
        (Kind.DONE, 5, json.dumps(DONE).encode()),
        (Kind.ALIVE, 6, b""),
        (Kind.LEAVE, 7, json.dumps(LEAVE).encode()),
        (Kind.HANDOVER, 8, json.dumps(HANDOVER).encode()),
        (Kind.KEPT, 9, b""),
        (Kind.END, 10, json.dumps(END).encode()),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_the_form_on_the_wire_stays(kind, number, body):
    assert records.write(EVERY_RECORD[kind]) == tls.RawRecord(number, body)


def test_a_greeting_of_another_version_tells_the_version_whatever_else_it_has():
    for content in ({"version": 99}, {**GREETING, "version": 99}, {"version": 99, "new": [1]}):
        record = tls.RawRecord(Kind.GREETING, json.dumps(content).encode())
        assert records.read("bob", record) == records.OtherVersion(99)
    assert records.read("bob", records.write(records.OtherVersion(98))) == records.OtherVersion(98)


def test_versions_and_numbers_of_reveals_are_read_up_to_their_bounds():
    most = records._MOST_VERSION
    for version in (0, most - 1):
        told = tls.RawRecord(Kind.GREETING, json.dumps({"version": version}).encode())
        assert records.read("bob", told) == records.OtherVersion(version)
    refuse(Kind.GREETING, json.dumps({"version": most}).encode())
    for reveals in (0, records._MOST_REVEALS):
        begin = {**BEGIN, "reveals": reveals}
        told = tls.RawRecord(Kind.BEGIN, json.dumps(begin).encode())
        assert records.read("bob", told) == records.Begin(**begin)
    refuse(Kind.BEGIN, json.dumps({**BEGIN, "reveals": records._MOST_REVEALS + 1}).encode())


@pytest.mark.parametrize("kind", [Kind.GREETING, Kind.READY, Kind.BEGIN, Kind.DONE])
def test_only_what_is_handed_on_may_be_large(kind):
    small = json.dumps(WITH_FIELDS[kind]).encode()
    refuse(kind, small + b" " * records._MOST_BYTES)
    handover = json.dumps(HANDOVER).encode() + b" " * records._MOST_BYTES
    told = tls.RawRecord(Kind.HANDOVER, handover)
    assert records.read("bob", told) == EVERY_RECORD[Kind.HANDOVER]


def without(content: dict[str, object], name: str) -> dict[str, object]:
    return {key: value for key, value in content.items() if key != name}


WITH_FIELDS = {
    Kind.GREETING: GREETING,
    Kind.READY: READY,
    Kind.BEGIN: BEGIN,
    Kind.HANDOVER: HANDOVER,
    Kind.DONE: DONE,
}
MALFORMED = [
    *((kind, without(fields, name)) for kind, fields in WITH_FIELDS.items() for name in fields),
    *((kind, {**fields, "more": 1}) for kind, fields in WITH_FIELDS.items()),
    *((kind, {**fields, name: None}) for kind, fields in WITH_FIELDS.items() for name in fields),
    *(
        (kind, {**fields, name: 1.5})
        for kind, fields in WITH_FIELDS.items()
        for name in fields
        if name != "clock"
    ),
    *(
        (kind, {**fields, name: True})
        for kind, fields in WITH_FIELDS.items()
        for name in fields
        if name not in ("finished", "sending", "repeated")
    ),
    *((kind, content) for kind in WITH_FIELDS for content in ([], [1, 2], "text", 1, None)),
    (Kind.GREETING, {**GREETING, "version": "2"}),
    (Kind.GREETING, {**GREETING, "clock": "?"}),
    (Kind.GREETING, {**GREETING, "clock": 10**400}),
    (Kind.READY, {**READY, "random": "00"}),
    (Kind.READY, {**READY, "random": "0F" * 32}),
    (Kind.BEGIN, {**BEGIN, "reveals": "many"}),
    (Kind.BEGIN, {**BEGIN, "reveals": 1.0}),
    (Kind.BEGIN, {**BEGIN, "reveals": -1}),
    (Kind.BEGIN, {**BEGIN, "finished": 1}),
    (Kind.BEGIN, {**BEGIN, "sending": None}),
    (Kind.BEGIN, {**BEGIN, "repeated": "no"}),
    (Kind.HANDOVER, {**HANDOVER, "first": -1}),
    (Kind.HANDOVER, {**HANDOVER, "lines": [{}]}),
    (Kind.GREETING, {**GREETING, "digest": "\x1b[2J"}),
    (Kind.GREETING, {"version": 10**4000}),
    (Kind.GREETING, {"version": -1}),
    (Kind.READY, {"random": "0" * 5000}),
    (Kind.DONE, {"digest": "ef" * 31}),
    (Kind.BEGIN, {**BEGIN, "session": "ab" * 15}),
    (Kind.BEGIN, {**BEGIN, "session": "ab" * 15 + " a"}),
    (Kind.BEGIN, {**BEGIN, "digest": "?"}),
]


@pytest.mark.parametrize(("kind", "content"), MALFORMED, ids=str)
def test_a_body_with_other_fields_is_not_read(kind, content):
    refuse(kind, json.dumps(content).encode())


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff",
        b'{"version": %d, "digest": "d", "clock": NaN}' % VERSION,
        b'{"version": %d, "digest": "d", "clock": 1e999}' % VERSION,
        b'{"version": %d, "version": 1, "digest": "d", "clock": 1.0}' % VERSION,
        b"[" * 100_000,
    ],
    ids=["empty", "cut", "not UTF-8", "NaN", "infinite", "twice", "deep"],
)
def test_a_body_that_is_not_json_is_not_read(body):
    refuse(Kind.GREETING, body)


@pytest.mark.parametrize("kind", [Kind.KEPT, Kind.ALIVE], ids=lambda kind: kind.name)
def test_what_has_no_content_must_be_empty(kind):
    refuse(kind, b"{}")


@pytest.mark.parametrize("kind", [0, 10, 255])
def test_an_unknown_kind_is_not_read(kind):
    refuse(kind, b"")


@pytest.mark.parametrize("body", [b"", b"{}", MESSAGE.to_bytes()[:-1], MESSAGE.to_bytes() + b"x"])
def test_a_message_must_be_whole(body):
    with pytest.raises(ProtocolError, match=r"^Party bob sent no message of the protocol: "):
        records.read("bob", tls.RawRecord(Kind.MESSAGE, body))


def refuse(kind: int, body: bytes) -> None:
    sentence = f"^Party bob sent a record of type {kind:d} we cannot read.$"
    with pytest.raises(ProtocolError, match=sentence):
        records.read("bob", tls.RawRecord(kind, body))

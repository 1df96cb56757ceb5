"""Records: what one party writes another reads, and nothing else is read."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest

from securefedyj.errors import ProtocolError
from securefedyj.network.session import records
from securefedyj.network.session.records import (
    NUMBERS,
    TYPES,
    Alive,
    AnyRecord,
    Begin,
    Done,
    End,
    Greeting,
    Handover,
    Kept,
    Leave,
    OtherVersion,
    Ready,
)
from securefedyj.network.transport import tls
from securefedyj.party import messages
from securefedyj.party.messages import VERSION, Message

GREETING: dict[str, Any] = {
    "version": VERSION,
    "digest": "d" * 64,
    "clock": 1.5,
    "release": "0.3.0",
}
READY: dict[str, Any] = {"random": "0f" * 32}
BEGIN: dict[str, Any] = {
    "session": "ab" * 16, "reveals": 3, "digest": "cd" * 32, "finished": False, "sending": True,
    "repeated": False, "accepted": 7, "computed": "ac" * 16,
}  # fmt: skip
HANDOVER: dict[str, Any] = {"session": "ab" * 16, "first": 2, "lines": ['{"reveal": "counts"}']}
DONE: dict[str, Any] = {"digest": "ef" * 32}
LEAVE: dict[str, Any] = {"failed": True}
END: dict[str, Any] = {"unverified": True}
MESSAGE = Message(VERSION, bytes(16), "bob", "ana", 2, messages.Kind.INPUT, b"sealed")

EVERY_RECORD: dict[type[AnyRecord], AnyRecord] = {
    Greeting: Greeting(**GREETING),
    Ready: Ready(**READY),
    Begin: Begin(**BEGIN),
    Message: MESSAGE,
    Handover: Handover(**HANDOVER),
    Done: Done(**DONE),
    Kept: Kept(),
    Alive: Alive(),
    Leave: Leave(**LEAVE),
    End: End(**END),
}


def test_every_kind_is_here():
    assert set(EVERY_RECORD) == set(TYPES.values())
    assert set(EVERY_RECORD) | {OtherVersion} == set(get_args(AnyRecord))


@pytest.mark.parametrize("kind", EVERY_RECORD)
def test_what_is_written_is_read(kind):
    written = records.write(EVERY_RECORD[kind])
    assert TYPES[written.type] is kind
    assert records.read("bob", written) == EVERY_RECORD[kind]


@pytest.mark.parametrize(
    ("kind", "number", "body"),
    [
        (Greeting, 1, json.dumps(GREETING).encode()),
        (Ready, 2, json.dumps(READY).encode()),
        (Begin, 3, json.dumps(BEGIN).encode()),
        (Message, 4, MESSAGE.to_bytes()),
        (Done, 5, json.dumps(DONE).encode()),
        (Alive, 6, b""),
        (Leave, 7, json.dumps(LEAVE).encode()),
        (Handover, 8, json.dumps(HANDOVER).encode()),
        (Kept, 9, b""),
        (End, 10, json.dumps(END).encode()),
    ],
)
def test_the_form_on_the_wire_stays(kind, number, body):
    assert records.write(EVERY_RECORD[kind]) == tls.RawRecord(number, body)


def test_a_greeting_of_another_version_tells_the_version_whatever_else_it_has():
    contents: list[dict[str, Any]]
    contents = [{"version": 99}, {**GREETING, "version": 99}, {"version": 99, "new": [1]}]
    for content in contents:
        record = tls.RawRecord(NUMBERS[Greeting], json.dumps(content).encode())
        assert records.read("bob", record) == OtherVersion(99, content.get("release", ""))
    assert records.read("bob", records.write(OtherVersion(98))) == OtherVersion(98)


def test_versions_and_numbers_of_reveals_are_read_up_to_their_bounds():
    most = records._MOST_VERSION
    for version in (0, most - 1):
        told = tls.RawRecord(NUMBERS[Greeting], json.dumps({"version": version}).encode())
        assert records.read("bob", told) == OtherVersion(version)
    refuse(Greeting, json.dumps({"version": most}).encode())
    for reveals in (0, records._MOST_REVEALS):
        begin = {**BEGIN, "reveals": reveals}
        told = tls.RawRecord(NUMBERS[Begin], json.dumps(begin).encode())
        assert records.read("bob", told) == Begin(**begin)
    refuse(Begin, json.dumps({**BEGIN, "reveals": records._MOST_REVEALS + 1}).encode())


@pytest.mark.parametrize("kind", [Greeting, Ready, Begin, Done])
def test_only_what_is_handed_on_may_be_large(kind):
    small = json.dumps(WITH_FIELDS[kind]).encode()
    refuse(kind, small + b" " * records._MOST_BYTES)
    handover = json.dumps(HANDOVER).encode() + b" " * records._MOST_BYTES
    told = tls.RawRecord(NUMBERS[Handover], handover)
    assert records.read("bob", told) == EVERY_RECORD[Handover]


def without(content: dict[str, object], name: str) -> dict[str, object]:
    return {key: value for key, value in content.items() if key != name}


WITH_FIELDS = {
    Greeting: GREETING,
    Ready: READY,
    Begin: BEGIN,
    Handover: HANDOVER,
    Done: DONE,
    Leave: LEAVE,
    End: END,
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
        if name not in ("finished", "sending", "repeated", "failed", "unverified")
    ),
    *((kind, content) for kind in WITH_FIELDS for content in ([], [1, 2], "text", 1, None)),
    (Greeting, {**GREETING, "version": "2"}),
    (Greeting, {**GREETING, "clock": "?"}),
    (Greeting, {**GREETING, "clock": 10**400}),
    (Ready, {**READY, "random": "00"}),
    (Ready, {**READY, "random": "0F" * 32}),
    (Begin, {**BEGIN, "reveals": "many"}),
    (Begin, {**BEGIN, "reveals": 1.0}),
    (Begin, {**BEGIN, "reveals": -1}),
    (Begin, {**BEGIN, "finished": 1}),
    (Begin, {**BEGIN, "sending": None}),
    (Begin, {**BEGIN, "repeated": "no"}),
    (Handover, {**HANDOVER, "first": -1}),
    (Handover, {**HANDOVER, "lines": [{}]}),
    (Greeting, {**GREETING, "digest": "\x1b[2J"}),
    (Greeting, {**GREETING, "release": "9" * 41}),
    (Greeting, {"version": 99, "release": "9" * 41}),
    (Greeting, {"version": 10**4000}),
    (Greeting, {"version": -1}),
    (Ready, {"random": "0" * 5000}),
    (Done, {"digest": "ef" * 31}),
    (Begin, {**BEGIN, "session": "ab" * 15}),
    (Begin, {**BEGIN, "session": "ab" * 15 + " a"}),
    (Begin, {**BEGIN, "digest": "?"}),
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
    refuse(Greeting, body)


@pytest.mark.parametrize("kind", [Kept, Alive])
def test_what_has_no_content_must_be_empty(kind):
    refuse(kind, b"{}")


@pytest.mark.parametrize("kind", [0, 10, 255])
def test_an_unknown_kind_is_not_read(kind):
    refuse(kind, b"")


@pytest.mark.parametrize("body", [b"", b"{}", MESSAGE.to_bytes()[:-1], MESSAGE.to_bytes() + b"x"])
def test_a_message_must_be_whole(body):
    with pytest.raises(ProtocolError, match=r"^Party bob sent no message of the protocol: "):
        records.read("bob", tls.RawRecord(NUMBERS[Message], body))


def refuse(kind: type[AnyRecord] | int, body: bytes) -> None:
    kind = kind if isinstance(kind, int) else NUMBERS[kind]
    sentence = f"^Party bob sent a record of type {kind:d} we cannot read.$"
    with pytest.raises(ProtocolError, match=sentence):
        records.read("bob", tls.RawRecord(kind, body))

"""Messages survive the wire, and garbage does not become a message."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from securefedyj.errors import ProtocolError
from securefedyj.party.messages import Kind, Message

messages = st.builds(
    Message,
    version=st.integers(0, 2**16 - 1),
    session=st.binary(min_size=16, max_size=16),
    sender=st.text(max_size=20),
    recipient=st.text(max_size=20),
    round=st.integers(0, 2**32 - 1),
    kind=st.sampled_from([*Kind, Kind.PRODUCT | Kind.CARRY]),
    payload=st.binary(max_size=50),
)


@given(messages)
def test_a_message_survives_the_wire(message):
    data = message.to_bytes()
    assert Message.from_bytes(data) == message
    assert len(data) == message.size


@given(messages, st.data())
def test_a_cut_message_is_refused(message, data):
    whole = message.to_bytes()
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(ProtocolError):
        Message.from_bytes(whole[:cut])
    with pytest.raises(ProtocolError, match="announced"):
        Message.from_bytes(whole + b"\0")


@given(st.binary(max_size=100))
def test_garbage_is_refused(data):
    with pytest.raises(ProtocolError):
        Message.from_bytes(data)


def test_a_name_that_is_no_text_is_refused():
    message = Message(1, bytes(16), "ana", "bob", 0, Kind.HELLO, b"")
    with pytest.raises(ProtocolError, match="UTF-8"):
        Message.from_bytes(message.to_bytes().replace(b"ana", b"\xff\xff\xff"))


def test_the_header_is_as_documented():
    message = Message(1, bytes(range(16)), "ana", "bo", 258, Kind.OPENING, b"payload")
    assert message.to_bytes().hex() == (
        "5346594a" "0001" "0080" "00000102" "000102030405060708090a0b0c0d0e0f" "0003" "0002"
        "0000000000000007" + b"anabopayload".hex()
    )  # fmt: skip


def test_a_merged_kind_names_its_steps():
    assert str(Kind.PRODUCT | Kind.CARRY) == "PRODUCT+CARRY"
    assert str(Kind(0)) == "nothing"

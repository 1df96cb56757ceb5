"""TLS 1.3 between two sides that know each other's certificate, and records on top of it.

The handshake is OpenSSL's, through the standard library. Only the certificates of the agreed file
are trusted, so there are no certificate authorities and no host names to check.
"""

import contextlib
import ssl
import struct
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from securefedyj.errors import InputError, ProtocolError
from securefedyj.network.identity import Identity, fingerprint_of_der, to_der

MAX_RECORD = 1 << 30  # bytes; the largest message of the protocol is far below
MOST_AT_FIRST = (1 << 20) + (1 << 12)  # bytes of a record, before a session sets its own limit

_RECORD = struct.Struct("!BI")
_READ = 1 << 16
_CERTIFICATE = 11  # a message of the handshake


def context(
    identity: Identity,
    trusted: Iterable[str],
    *,
    server_side: bool,
    kind: type[ssl.SSLContext] = ssl.SSLContext,
) -> ssl.SSLContext:
    """Settings of one side that accepts only the given certificates (PEM)."""
    made = kind(ssl.PROTOCOL_TLS_SERVER if server_side else ssl.PROTOCOL_TLS_CLIENT)
    made.minimum_version = ssl.TLSVersion.TLSv1_3
    made.check_hostname = False  # the certificate itself is pinned, which is more
    made.verify_mode = ssl.CERT_REQUIRED
    made.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if certificates := joined(trusted):
        made.load_verify_locations(cadata=certificates)
    if server_side:
        made.num_tickets = 0  # no resumption: every session has fresh keys
    try:
        made.load_cert_chain(identity.certificate, identity.key)
    except ssl.SSLError:
        raise InputError(
            "SFY-NET-031",
            f"{identity.key} is not the key of the certificate {identity.certificate}; give the "
            "two files that `securefedyj keygen` made together.",
        ) from None
    return made


def joined(pems: Iterable[str]) -> bytes:
    """Concatenate certificates for OpenSSL, in the form whose hash is pinned."""
    return b"".join(map(to_der, pems))


class _AlertingSession(ssl.SSLObject):
    outgoing: ssl.MemoryBIO
    shown = b""

    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except ssl.SSLWantReadError:
            raise
        except ssl.SSLError as error:
            error.alert = self.outgoing.read()  # type: ignore[attr-defined]
            error.shown = self.shown  # type: ignore[attr-defined]
            raise
        if isinstance(self.context, AlertingContext):
            self.context = self.context.silent  # otherwise it inspects every record


class AlertingContext(ssl.SSLContext):
    """Adds to the error of a failed handshake the alert for the other side, and its certificate.

    asyncio drops the alert, and OpenSSL forgets a certificate that it refuses.
    """

    sslobject_class = _AlertingSession

    def __init__(self, protocol: int) -> None:
        super().__init__()
        self.silent = ssl.SSLContext(protocol)
        if hasattr(ssl.SSLContext, "_msg_callback"):  # an undocumented part of Python
            self._msg_callback = _note_certificate

    def wrap_bio(
        self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *arguments: Any, **options: Any
    ) -> ssl.SSLObject:
        session = super().wrap_bio(incoming, outgoing, *arguments, **options)
        assert isinstance(session, _AlertingSession)
        session.outgoing = outgoing
        return session


def _note_certificate(
    session: ssl.SSLObject, direction: str, version: int, content: int, kind: int, data: bytes
) -> None:
    """Keep the first certificate of a Certificate message (RFC 8446, section 4.4.2)."""
    if direction == "read" and kind == _CERTIFICATE and isinstance(session, _AlertingSession):
        start = 4 + 1 + data[4] + 3 if len(data) > 4 else len(data)  # headers and the context
        length = int.from_bytes(data[start : start + 3], "big")
        session.shown = data[start + 3 : start + 3 + length]


def shown_certificate(error: Exception) -> bytes:
    """The refused certificate, if the error is from an `AlertingContext`."""
    return bytes(getattr(error, "shown", b""))


def alert(error: ssl.SSLError) -> bytes:
    """The TLS alert for the refused side, if the error is from an `AlertingContext`."""
    return bytes(getattr(error, "alert", b""))


def is_refusal(error: Exception) -> bool:
    """Whether the other side does not accept our certificate."""
    reason = (error.reason or "") if isinstance(error, ssl.SSLError) else ""
    return "ALERT" in reason and ("CERTIFICATE" in reason or "UNKNOWN_CA" in reason)


def check_fingerprint(der: bytes | None, expected: str, who: str) -> None:
    """Refuse any certificate except the one in the agreed file."""
    actual = "none" if der is None else fingerprint_of_der(der)
    if actual != expected:
        raise ProtocolError(
            "SFY-NET-030",
            f"{who} does not show the certificate in consortium.toml: expected {expected}, got "
            f"{actual}.",
        )


class RawRecord(NamedTuple):
    """One message between two parties."""

    type: int
    body: bytes


class Channel:
    """One end of the TLS session between two parties: bytes in, records out, no socket.

    The settings are from `context`, with the peer's certificate as the only trusted one.
    """

    def __init__(
        self, peer: str, fingerprint: str, settings: ssl.SSLContext, *, server_side: bool
    ) -> None:
        self.peer = peer
        self.established = False  # once the handshake is over, and the peer is the right one
        # Bytes in the body of a record, and so what the peer can make us hold here. A session sets
        # it to its largest message.
        self.most = MOST_AT_FIRST
        self._fingerprint = fingerprint
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = settings.wrap_bio(self._in, self._out, server_side=server_side)
        self._plain = bytearray()

    def receive(self, data: bytes) -> Iterator[RawRecord]:
        """Take bytes from the peer; yield the records that are complete.

        Raises ProtocolError unless the peer sent them, unchanged and in order.
        """
        self._in.write(data)
        try:
            self._handshake()
            while chunk := self._tls.read(_READ):
                self._plain += chunk
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            raise ProtocolError(
                "SFY-NET-032",
                f"Data from party {self.peer} was changed on its way and is not used "
                f"({_reason(error)}).",
            ) from None
        yield from self._records()

    def send(self, record: RawRecord) -> None:
        """Encrypt one record; `outgoing` returns the bytes."""
        self._tls.write(_RECORD.pack(record.type, len(record.body)) + record.body)

    def outgoing(self) -> bytes:
        """The bytes to send to the peer."""
        return self._out.read()

    def begin(self) -> None:
        """Start the handshake, if we are the TLS client."""
        with contextlib.suppress(ssl.SSLWantReadError):
            self._handshake()

    def _handshake(self) -> None:
        if not self.established:
            self._tls.do_handshake()
            der = self._tls.getpeercert(binary_form=True)
            check_fingerprint(der, self._fingerprint, f"Party {self.peer}")
            self.established = True

    def _records(self) -> Iterator[RawRecord]:
        while len(self._plain) >= _RECORD.size:
            kind, length = _RECORD.unpack_from(self._plain)
            if length > min(self.most, MAX_RECORD):
                raise ProtocolError(
                    "SFY-NET-033",
                    f"Party {self.peer} announced a record of {length} bytes; at most "
                    f"{self.most} are possible now.",
                )
            end = _RECORD.size + length
            if len(self._plain) < end:
                return
            body = bytes(self._plain[_RECORD.size : end])
            del self._plain[:end]
            yield RawRecord(kind, body)


def _reason(error: ssl.SSLError) -> str:
    """OpenSSL's reason, without file names and line numbers."""
    return (error.reason or "TLS error").lower().replace("_", " ")


def described(error: Exception) -> str:
    """The reason of a connection's error, for users."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return _reason(error)
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, ConnectionError):
        return "the connection was closed"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__

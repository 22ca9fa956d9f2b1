"""Why there is no connection to Kafka, and what to do about it.

librdkafka reports most failures as "Broker transport failure". So these functions connect by
themselves, step by step: the name, the port, TLS, and Kafka's SaslHandshakeRequest, whose answer
also says whether the listener uses SASL, and with which mechanisms. They send no credentials.
"""

from __future__ import annotations

import re
import socket
import ssl
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum

SECONDS = 2.0
"""How long each step of a connection may take."""

_MAX_ADDRESSES = 3
_MAX_ANSWER = 64 << 10  # bytes

_REPORTED = re.compile(r"(?:[a-z_]+://)?([^/\s]+):(\d+)/\d+: ")

_SASL_HANDSHAKE, _VERSION = 17, 1
_CORRELATION = 0x71756572
_NO_ERROR, _UNSUPPORTED_MECHANISM, _ILLEGAL_STATE = 0, 33, 34

# X509_V_ERR_… of OpenSSL
_NOT_TRUSTED = (2, 7, 18, 19, 20, 21)
_OTHER_NAME = (62, 64)

# of librdkafka; others may be values of secrets, and librdkafka says that they are wrong
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MECHANISMS = ("GSSAPI", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")

_ADDRESS_SETTINGS = "QUERYABLE_BOOTSTRAP_SERVERS (--bootstrap-servers)"
_IN_DOCS = "docs/security/kafka.md"


class Step(IntEnum):
    """How far a connection gets. The greater ones come later."""

    NAME = 1
    PORT = 2
    TLS = 3
    CERTIFICATE = 4
    KAFKA = 5
    SASL = 6
    CREDENTIALS = 7


@dataclass(frozen=True)
class Obstacle:
    """`summary`: for clients of an instance, without addresses. `what`: a clause without a full
    stop. `remedy`: what to do, in the imperative, without a full stop."""

    step: Step
    summary: str
    what: str
    remedy: str

    @property
    def text(self) -> str:
        """Two sentences."""
        return (
            f"{self.what[:1].upper()}{self.what[1:]}. {self.remedy[:1].upper()}{self.remedy[1:]}."
        )


@dataclass(frozen=True)
class _Client:
    """What the settings say of a connection. `source`: where they are, such as "[kafka]"."""

    protocol: str
    mechanism: str
    settings: Mapping[str, str]
    source: str
    seconds: float

    @property
    def has_tls(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def has_sasl(self) -> bool:
        return self.protocol.startswith("SASL")

    @property
    def is_known(self) -> bool:
        """Whether librdkafka knows the protocol and the mechanism. Otherwise no text may name them:
        a reference may have been resolved to a secret."""
        return self.protocol in _PROTOCOLS and self.mechanism in _MECHANISMS

    def context(self, verifies: bool = True) -> ssl.SSLContext:
        """Raises OSError, also ssl.SSLError, if a file cannot be used."""
        context = ssl.create_default_context(cafile=self.settings.get("ssl.ca.location"))
        if self.settings.get("ssl.endpoint.identification.algorithm", "https").lower() == "none":
            context.check_hostname = False
        if not verifies or self.settings.get("enable.ssl.certificate.verification") == "false":
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if certificate := self.settings.get("ssl.certificate.location"):
            key = self.settings.get("ssl.key.location")
            context.load_cert_chain(certificate, key, self.settings.get("ssl.key.password", ""))
        return context


def find_obstacle(
    servers: str,
    settings: Mapping[str, str],
    source: str = "[kafka]",
    refusal: str = "",
    reported: Iterable[str] = (),
    seconds: float = SECONDS,
) -> Obstacle | None:
    """Why a client with these settings cannot ask the brokers; None if that is not known, because
    one of them answers.

    `servers`: host:port,… `settings`: with librdkafka's names, references resolved. `source`: where
    the settings are. `refusal`: what librdkafka says if the broker has refused the credentials.
    `reported`: its errors, which have the addresses that brokers advertise. Takes up to a few times
    `seconds`.
    """
    client = _client_of(settings, source, seconds)
    if not client.is_known:
        return None
    obstacle = _first_reachable(_addresses(servers), client)
    if obstacle is None and refusal and client.has_sasl:
        return _credentials_obstacle(client, refusal)
    if obstacle is None and (advertised := _advertised_in(reported)):
        return find_advertised_obstacle(servers, advertised, settings, source, seconds)
    return obstacle


def _credentials_obstacle(client: _Client, refusal: str) -> Obstacle:
    if client.mechanism.startswith(("PLAIN", "SCRAM")):
        return Obstacle(
            Step.CREDENTIALS,
            "Kafka refuses the user or the password",
            f"the broker refuses the user or the password ({refusal})",
            f'correct "sasl.username" and "sasl.password" in {client.source} ({_IN_DOCS})',
        )
    return Obstacle(
        Step.CREDENTIALS,
        "the authentication with Kafka fails",
        f"authentication by {client.mechanism} fails ({refusal})",
        f"correct the settings sasl.… in {client.source} ({_IN_DOCS})",
    )


def find_advertised_obstacle(
    servers: str,
    advertised: Iterable[tuple[str, int]],
    settings: Mapping[str, str],
    source: str = "[kafka]",
    seconds: float = SECONDS,
) -> Obstacle | None:
    """Why none of the brokers can be asked at the addresses that they advertise; None if one of
    them can, or if that is not known. `servers`: where a broker has answered."""
    addresses = list(dict.fromkeys(advertised))
    client = _client_of(settings, source, seconds)
    obstacle = _first_reachable(addresses, client) if client.is_known else None
    if obstacle is None or (obstacle.step > Step.PORT and "another name" not in obstacle.what):
        return None
    names = ", ".join(f"{host}:{port}" for host, port in addresses[:_MAX_ADDRESSES])
    return replace(
        obstacle,
        summary="Kafka advertises addresses that cannot be reached from here",
        what=f"a broker answers at {servers}, but says that clients must connect to {names} "
        f"(advertised.listeners), and {obstacle.what}",
        remedy="set advertised.listeners of the brokers to addresses that this machine can reach, "
        "or use the port of a listener that advertises such addresses",
    )


def _advertised_in(reported: Iterable[str]) -> list[tuple[str, int]]:
    """The addresses of brokers in errors of librdkafka, such as "ssl://kafka:9092/1: Failed …". The
    number is the broker's; an address of the settings has "bootstrap" there.

    librdkafka may replace a bootstrap address by the advertised one before it asks anything, so a
    request for the advertised addresses may time out."""
    matches = map(_REPORTED.match, reported)
    return [(match[1].strip("[]"), int(match[2])) for match in matches if match is not None]


def _client_of(settings: Mapping[str, str], source: str, seconds: float) -> _Client:
    protocol = str(settings.get("security.protocol", "PLAINTEXT")).upper()
    mechanism = settings.get("sasl.mechanism") or settings.get("sasl.mechanisms") or "GSSAPI"
    return _Client(protocol, mechanism, settings, source, seconds)


def _addresses(servers: str) -> list[tuple[str, int]]:
    """host:port,… as librdkafka reads it: the port may be missing, and there may be a protocol."""
    addresses = []
    for server in filter(None, map(str.strip, servers.split(","))):
        host, _, port = server.rpartition("://")[2].rpartition(":")
        if not port.isdigit() or not host:
            host, port = server, "9092"
        addresses.append((host.strip("[]"), int(port)))
    return addresses


def _first_reachable(addresses: Iterable[tuple[str, int]], client: _Client) -> Obstacle | None:
    """None if one of the addresses has no obstacle; otherwise the obstacle of the one at which a
    connection gets furthest."""
    obstacles = []
    for host, port in list(addresses)[:_MAX_ADDRESSES]:
        try:
            obstacle = _examine(host, port, client)
        except OSError:  # a file of TLS cannot be read: librdkafka says which
            obstacle = None
        if obstacle is None:
            return None
        obstacles.append(obstacle)
    return max(obstacles, key=lambda obstacle: obstacle.step, default=None)


def _examine(host: str, port: int, client: _Client) -> Obstacle | None:
    address = f"{host}:{port}"
    context = client.context() if client.has_tls else None
    try:
        connection = socket.create_connection((host, port), client.seconds)
    except socket.gaierror as error:
        return Obstacle(
            Step.NAME,
            "the name of Kafka's address cannot be resolved",
            f"the name {host} cannot be resolved ({error.strerror})",
            f"correct it in {_ADDRESS_SETTINGS}, or use a DNS server that knows it",
        )
    except ConnectionRefusedError:
        return Obstacle(
            Step.PORT,
            "the port of Kafka refuses connections",
            f"nothing listens at {address} (connection refused)",
            f"start Kafka there, or correct the address in {_ADDRESS_SETTINGS}",
        )
    except OSError as error:
        why = f"{client.seconds:g} s" if isinstance(error, TimeoutError) else error.strerror
        return Obstacle(
            Step.PORT,
            "Kafka's address does not answer",
            f"{address} does not answer ({why})",
            f"correct the address in {_ADDRESS_SETTINGS}, or allow the connection in the firewall",
        )
    with connection:
        stream: socket.socket = connection
        if context is not None:
            try:
                stream = context.wrap_socket(connection, server_hostname=host)
            except ssl.SSLCertVerificationError as error:
                return _certificate_obstacle(error, address, client)
            except OSError as error:  # also ssl.SSLError
                return _tls_obstacle(error, host, port, client)
        with stream:
            return _listener_obstacle(stream, host, port, client)


def _certificate_obstacle(
    error: ssl.SSLCertVerificationError, address: str, client: _Client
) -> Obstacle:
    why = error.verify_message.rstrip(".")
    if error.verify_code in _OTHER_NAME:
        return Obstacle(
            Step.CERTIFICATE,
            "the certificate of Kafka is for another name",
            f"the certificate of {address} is for another name ({why})",
            f"use a name of the certificate in {_ADDRESS_SETTINGS}, or give the broker a "
            "certificate with this name",
        )
    if error.verify_code in _NOT_TRUSTED:
        return Obstacle(
            Step.CERTIFICATE,
            "the certificate of Kafka is not trusted",
            f"the certificate of {address} is from an authority that is not trusted here ({why})",
            f'set "ssl.ca.location" in {client.source} to the PEM file of this authority '
            f"({_IN_DOCS})",
        )
    return Obstacle(
        Step.CERTIFICATE,
        "the certificate of Kafka is not valid",
        f"the certificate of {address} is not valid ({why})",
        "renew it, and compare the clocks of both machines",
    )


def _tls_obstacle(error: OSError, host: str, port: int, client: _Client) -> Obstacle:
    address = f"{host}:{port}"
    try:
        with socket.create_connection((host, port), client.seconds) as connection:
            answer = _ask(connection, client)
    except OSError:
        answer = None
    if answer is not None:
        other = "PLAINTEXT" if answer[0] == _ILLEGAL_STATE else "SASL_PLAINTEXT"
        return Obstacle(
            Step.TLS,
            "Kafka does not use TLS at this port, and the settings do",
            f'{address} does not use TLS, and "security.protocol" is {client.protocol}',
            f'set "security.protocol" = "{other}" in {client.source}, or use the port of the '
            f"listener with TLS in {_ADDRESS_SETTINGS}",
        )
    return Obstacle(
        Step.TLS,
        "the TLS handshake with Kafka fails",
        f"the TLS handshake with {address} fails ({_reason(error)})",
        f"compare the listener of the broker with the settings of TLS in {client.source}",
    )


def _listener_obstacle(
    stream: socket.socket, host: str, port: int, client: _Client
) -> Obstacle | None:
    address, source = f"{host}:{port}", client.source
    try:
        answer = _ask(stream, client)
    except ssl.SSLError as error:  # in TLS 1.3, after the handshake
        return Obstacle(
            Step.CERTIFICATE,
            "Kafka refuses the client's certificate",
            f"{address} needs a certificate of the client, or refuses it ({_reason(error)})",
            'set "ssl.certificate.location" and "ssl.key.location" in '
            f"{source} to a certificate that the broker trusts ({_IN_DOCS})",
        )
    except OSError:
        answer = None
    if answer is None:
        return _silence_obstacle(host, port, client)
    code, mechanisms = answer
    listed = ", ".join(mechanisms) or "none"
    if code == _ILLEGAL_STATE and client.has_sasl:
        other = "SSL" if client.has_tls else "PLAINTEXT"
        return Obstacle(
            Step.SASL,
            "Kafka does not use SASL at this port, and the settings do",
            f'{address} does not use SASL, and "security.protocol" is {client.protocol}',
            f'set "security.protocol" = "{other}" in {source}, or use the port of the listener '
            f"with SASL in {_ADDRESS_SETTINGS}",
        )
    if code in (_NO_ERROR, _UNSUPPORTED_MECHANISM) and not client.has_sasl:
        other = "SASL_SSL" if client.has_tls else "SASL_PLAINTEXT"
        return Obstacle(
            Step.SASL,
            "Kafka needs SASL, and the settings have none",
            f'{address} needs SASL ({listed}), and "security.protocol" is {client.protocol}',
            f'set "security.protocol" = "{other}", "sasl.mechanism", "sasl.username" and '
            f'"sasl.password" in {source} ({_IN_DOCS})',
        )
    if code == _UNSUPPORTED_MECHANISM:
        return Obstacle(
            Step.SASL,
            "Kafka does not have the mechanism of SASL that the settings name",
            f"{address} does not have the mechanism {client.mechanism}, but {listed}",
            f'set "sasl.mechanism" in {source} to one of them ({_IN_DOCS})',
        )
    return None


def _silence_obstacle(host: str, port: int, client: _Client) -> Obstacle:
    """Something listens there that does not answer as Kafka does."""
    address = f"{host}:{port}"
    if not client.has_tls and _has_tls(host, port, client):
        other = "SASL_SSL" if client.has_sasl else "SSL"
        more = "" if client.has_sasl else ', or "SASL_SSL" if it needs SASL, too'
        return Obstacle(
            Step.TLS,
            "Kafka uses TLS at this port, and the settings do not",
            f'{address} uses TLS, and "security.protocol" is {client.protocol}',
            f'set "security.protocol" = "{other}"{more}, and "ssl.ca.location" in '
            f"{client.source} ({_IN_DOCS})",
        )
    return Obstacle(
        Step.KAFKA,
        "what listens at Kafka's address does not answer as Kafka does",
        f"what listens at {address} does not answer as Kafka does",
        f"correct the address in {_ADDRESS_SETTINGS}; if it is right, look at the broker's log",
    )


def _has_tls(host: str, port: int, client: _Client) -> bool:
    try:
        with socket.create_connection((host, port), client.seconds) as connection:
            context = replace(client, settings={}).context(verifies=False)
            context.wrap_socket(connection, server_hostname=host).close()
    except ssl.SSLError as error:
        return error.reason is not None and "ALERT" in error.reason  # it needs a certificate
    except OSError:
        return False
    return True


def _reason(error: OSError) -> str:
    """What OpenSSL says, in words."""
    reason = getattr(error, "reason", None)
    if isinstance(reason, str):
        return re.sub(r"^(sslv3|tlsv1\d?) ", "", reason.lower().replace("_", " "))
    return error.strerror or str(error)


def _ask(stream: socket.socket, client: _Client) -> tuple[int, list[str]] | None:
    """The answer to a SaslHandshakeRequest: its error code, and the mechanisms of the listener.
    None if it is not an answer of Kafka. Raises OSError, also ssl.SSLError."""
    mechanism = (client.mechanism if client.has_sasl else "PLAIN").encode()
    name = b"queryable"
    head = struct.pack(">hhih", _SASL_HANDSHAKE, _VERSION, _CORRELATION, len(name)) + name
    request = head + struct.pack(">h", len(mechanism)) + mechanism
    stream.sendall(struct.pack(">i", len(request)) + request)
    size = _read(stream, 4)
    if size is None or not 10 <= struct.unpack(">i", size)[0] <= _MAX_ANSWER:
        return None
    body = _read(stream, struct.unpack(">i", size)[0])
    return None if body is None else _decoded(body)


def _read(stream: socket.socket, count: int) -> bytes | None:
    """`count` bytes; None if the connection ends before."""
    received = b""
    while len(received) < count:
        part = stream.recv(count - len(received))
        if not part:
            return None
        received += part
    return received


def _decoded(body: bytes) -> tuple[int, list[str]] | None:
    try:
        correlation, code, count = struct.unpack_from(">ihi", body)
        at, mechanisms = 10, []
        for _ in range(count):
            (length,) = struct.unpack_from(">h", body, at)
            mechanisms.append(body[at + 2 : at + 2 + length].decode())
            at += 2 + length
    except (struct.error, UnicodeDecodeError):
        return None
    return (code, mechanisms) if correlation == _CORRELATION else None

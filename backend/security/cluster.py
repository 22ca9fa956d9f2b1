"""Who may use internal routes: instances and proxies of the same deployment.

With a cluster secret, they sign their requests. With mutual TLS, they show a certificate. Either
is enough. Without both, internal routes answer on loopback only.
"""

from __future__ import annotations

import hmac
import logging
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from backend.instance.settings import Settings, is_loopback
from backend.security.client_claims import ClientClaim, claim_in
from backend.security.cluster_secret import SETTING, ClusterSecret, Keys
from backend.security.connection_key import ConnectionKey
from backend.security.replay_window import WINDOW_MS, ReplayWindow
from backend.security.signatures import (
    ANY_RECEIVER,
    HEADER,
    AnswerMac,
    Purpose,
    Signature,
    Signer,
    is_hash_of,
    mac_of,
    mac_of_answer,
    parse_signature,
)
from backend.telemetry.rate_limited_log import RateLimitedLog
from backend.wire.answer import Answer, Header
from backend.wire.plain_requests import MAC_SIZE
from model.problems import Forbidden

CODE = "not-a-member"
KEYED: Header = (b"queryable-connection", b"keyed")

log = RateLimitedLog(logging.getLogger(__name__))


EARLY = "early"
"""The kind of a refusal after a start, which needs no action: the sender sends its next message
anyway."""


class Refused(Forbidden):
    """A request that no member of the deployment has signed. `kind`: a constant, for the log."""

    def __init__(self, kind: str, why: str) -> None:
        super().__init__(CODE, f"The request is refused: {why}.")
        self.kind = kind


class Sender(NamedTuple):
    """The sender of a request. Its signature is valid, or, on a connection with a key, it is
    verified together with the body. `is_body(body)`: whether the sender has signed this body.
    `mac`, `answer_key`: for answers to instances. `begins_key`: whether the request has begun a key
    of the connection."""

    purpose: Purpose
    is_body: Callable[[bytes], bool]
    mac: bytes = b""
    answer_key: bytes = b""
    begins_key: bool = False

    def check_body(self, body: bytes) -> None:
        """Raises Forbidden if the sender has signed another body."""
        if not self.is_body(body):
            raise Refused("body", "the body is not the one that was signed")

    def sign(self, answer: Answer) -> None:
        """Signs a complete answer to an instance. Proxies check no signatures."""
        if self.purpose is Purpose.PEER:
            mac = mac_of_answer(self.answer_key, self.mac, answer.status, answer.body)
            answer.headers.append((HEADER, mac.hex()))
        elif self.begins_key:
            answer.headers.append(KEYED)

    def answer_mac(self) -> AnswerMac:
        """The HMAC for a streamed answer."""
        return AnswerMac(self.answer_key, self.mac)


class SignatureVerifier:
    """Verifies the signatures of requests to this instance. Used in the event loop, and in Flask's
    threads."""

    def __init__(
        self, secret: ClusterSecret, instance_id: str, clock: Callable[[], float] = time.time
    ) -> None:
        """`clock`: Unix time in s."""
        self._secret = secret
        self._receivers = (instance_id,)
        self._receivers_of_get = (instance_id, ANY_RECEIVER)
        self._clock = clock
        # one for each purpose, so that proxies cannot use up the memory for signatures of instances
        self._seen = {purpose: ReplayWindow(int(clock() * 1000)) for purpose in Purpose}

    def verify(
        self,
        purposes: tuple[Purpose, ...],
        method: str,
        target: bytes,
        given: bytes | None,
        connection: ConnectionKey | None = None,
    ) -> Sender:
        """The sender of a request. `given`: the value of its signature header. `connection`: the
        key of its connection, for requests of proxies. Raises Refused, which says why the signature
        is refused. The body is not checked here: see Sender."""
        if given is None:
            raise Refused("none", f"it has no signature by the cluster secret ({SETTING})")
        if len(given) == MAC_SIZE and connection is not None and Purpose.PROXY in purposes:
            is_body = connection.next_body(given)
            if is_body is None:
                raise Refused("key", "its connection has no key, or has lost it")
            return Sender(Purpose.PROXY, is_body)
        signature = parse_signature(given)
        if signature is None:
            raise Refused("malformed", "its signature is malformed")
        signer = self._signed_by(purposes, method, target, signature)
        if signer is None:
            raise Refused(
                "wrong",
                "its signature is not by the cluster secret of this instance, or is for another "
                "request or instance",
            )
        now = int(self._clock() * 1000)
        purpose, keys = signer
        seen = self._seen[purpose]
        if not seen.is_within(signature.at, now):
            difference = (signature.at - now) / 1000
            if abs(difference) * 1000 <= WINDOW_MS:
                raise Refused(
                    EARLY,
                    "it was sent before this instance could tell whether its signature was used "
                    "before. Send it again",
                )
            raise Refused(
                "time",
                f"its time differs from this instance's clock by {difference:+.1f} s, and at most "
                f"{WINDOW_MS // 1000} s are allowed. Synchronise the clocks",
            )
        if not seen.add(signature.mac, signature.at, now):
            raise Refused("replay", "its signature was used before")
        is_body = partial(is_hash_of, signature.body_hash)
        if connection is None or purpose is not Purpose.PROXY:
            return Sender(purpose, is_body, signature.mac, keys.answer)
        connection.begin(self._secret, keys, signature.mac)
        return Sender(purpose, is_body, begins_key=True)

    def _signed_by(
        self, purposes: tuple[Purpose, ...], method: str, target: bytes, signature: Signature
    ) -> tuple[Purpose, Keys] | None:
        at, nonce, body_hash, mac = signature
        # a proxy that does not know the id yet signs a GET for any receiver
        receivers = self._receivers_of_get if method == "GET" else self._receivers
        for keys in self._secret.current():
            for purpose in purposes:
                key = keys.peer if purpose is Purpose.PEER else keys.proxy
                for receiver in receivers:
                    expected = mac_of(key, method, target, at, nonce, body_hash, receiver)
                    if hmac.compare_digest(expected, mac):
                        return purpose, keys
        return None


class ClusterAccess:
    """Signs this instance's requests to other instances, and checks the requests of others."""

    def __init__(
        self,
        secret: ClusterSecret | None = None,
        instance_id: str = "",
        clock: Callable[[], float] = time.time,
        mutual_tls: bool = False,
    ) -> None:
        """`secret`: None if none is configured. `mutual_tls`: whether certificates are
        configured."""
        self._mutual_tls = mutual_tls
        self._secret = secret
        self._clock = clock
        self.signer = None if secret is None else Signer(secret, clock=clock)
        self._verifier = None if secret is None else SignatureVerifier(secret, instance_id, clock)

    def admit(
        self,
        purposes: tuple[Purpose, ...],
        method: str,
        target: bytes,
        given: bytes | None,
        client: str,
        has_certificate: bool = False,
        connection: ConnectionKey | None = None,
    ) -> Sender | None:
        """The sender of a request for an internal route; None if it is not signed. Raises
        Forbidden.

        `purposes`: those of its possible senders. `given`: the value of the header. `client`: the
        address of its socket; "" if unknown. `has_certificate`: see
        `mutual_tls.has_cluster_certificate`. `connection`: the key of its connection.
        """
        try:
            if given is None and has_certificate:
                return None
            if self._verifier is not None:
                return self._verifier.verify(purposes, method, target, given, connection)
            if self._mutual_tls and not has_certificate:
                raise Refused(
                    "no certificate",
                    "it has no client certificate by an authority of QUERYABLE_TLS_CLIENT_CA_FILE",
                )
            if has_certificate:
                return None  # signed with a secret that this instance does not have
            if not is_loopback(client):
                raise Refused(
                    "no secret",
                    "without a cluster secret, internal routes answer on loopback only. Set "
                    f"{SETTING} for all instances and proxies",
                )
        except Refused as problem:
            _log(problem, client)
            raise
        return None

    @property
    def is_configured(self) -> bool:
        """Whether members of the deployment prove that they belong to it."""
        return self._secret is not None or self._mutual_tls

    def claim_in(self, headers: Iterable[Header]) -> ClientClaim | None:
        """The claim about the client in a request; None if there is none, or it is malformed."""
        keys = () if self._secret is None else self._secret.current()
        return claim_in(headers, keys, int(self._clock() * 1000))

    def is_signed(self, method: str, target: bytes, headers: Iterable[Header], client: str) -> bool:
        """Whether an instance or a proxy has signed a request without a body, for a route that also
        admits tokens."""
        given = signature_in(headers)
        if self._verifier is None or given is None:
            return False
        try:
            sender = self._verifier.verify(tuple(Purpose), method, target, given)
            sender.check_body(b"")
        except Refused as problem:
            _log(problem, client)
            return False
        return True


def cluster_access(settings: Settings) -> ClusterAccess:
    """The access as configured. Raises ConfigurationError if the file of the secret cannot be
    used."""
    mutual_tls = settings.tls_client_ca_file is not None
    if settings.cluster_secret_file:
        secret = ClusterSecret(Path(settings.cluster_secret_file), settings.application_id)
        return ClusterAccess(secret, settings.instance_id, mutual_tls=mutual_tls)
    if not mutual_tls and not is_loopback(settings.host):
        log.warn(
            "not configured",
            "no cluster secret is configured, so other instances and proxies must be on this "
            f"machine. Set {SETTING}",
        )
    return ClusterAccess(mutual_tls=mutual_tls)


def signature_in(headers: Iterable[Header]) -> bytes | None:
    """The value of the one header with a signature; None if there is none, or several."""
    given = [value for name, value in headers if name == HEADER]
    return given[0] if len(given) == 1 else None


def _log(problem: Refused, client: str) -> None:
    if problem.kind == EARLY:
        return
    log.warn(problem.kind, f"internal request from {client or 'an unknown address'}: {problem}")

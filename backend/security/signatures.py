"""Signed requests between the processes of a deployment, and signed answers to them.

    Queryable-Signature: <time>:<nonce>:<SHA-256 of the body>:<HMAC-SHA256>

`time` is Unix time in ms, and `nonce` makes each signature unique. The HMAC is of the lines method,
target, time, nonce, SHA-256 of the body, and receiver (an instance id, or "*"). Hashes are in lower
case hex. The header contains the hash of the body, so a signature is verified before the body is
read. There is a key for each purpose: one for instances, one for proxies. `proxy/security` has the
same in Lua.

The answer to an instance has `Queryable-Signature: <HMAC-SHA256>`, of the lines HMAC of the
request, status, and SHA-256 of the body. So only a member of the deployment can answer it.
"""

from __future__ import annotations

import hashlib
import hmac
import itertools
import secrets
import time
from collections.abc import Callable
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

from backend.security.client_claims import claim
from backend.security.cluster_secret import ClusterSecret

HEADER = b"queryable-signature"
ANY_RECEIVER = "*"

_NOTHING = hashlib.sha256()
_BLOCK_SIZE = 64  # of SHA-256
_PADS = [bytes(byte ^ pad for byte in range(256)) for pad in (0x36, 0x5C)]
_HASH_SIZE = 64  # in hex
_MAX_TIME_SIZE, _MAX_NONCE_SIZE = 15, 40


class Purpose(Enum):
    """Who signs a request. The values are fields of Keys."""

    PEER = "peer"
    PROXY = "proxy"


class Signature(NamedTuple):
    """The parts of the header. `at`: ms."""

    at: int
    nonce: bytes
    body_hash: bytes
    mac: bytes

    def header(self) -> bytes:
        return b"%d:%b:%b:%b" % self


def parse_signature(value: bytes) -> Signature | None:
    """The parts of a header; None if it is malformed."""
    parts = value.split(b":", 4)
    if len(parts) != 4:
        return None
    at, nonce, body_hash, mac = parts
    if not (
        len(mac) == len(body_hash) == _HASH_SIZE
        and len(at) <= _MAX_TIME_SIZE
        and len(nonce) <= _MAX_NONCE_SIZE
        and at.isdigit()
        and (nonce + body_hash + mac).isalnum()
        and nonce
    ):
        return None
    return Signature(int(at), nonce, body_hash, mac)


def mac_of(
    key: bytes, method: str, target: bytes, at: int, nonce: bytes, body_hash: bytes, receiver: str
) -> bytes:
    """The HMAC of a request, in hex. No field but the last one can contain a line feed."""
    mac = _begun(key, method, target).copy()
    mac.update(b"%d\n%b\n%b\n%b" % (at, nonce, body_hash, receiver.encode()))
    return mac.hex()


@lru_cache(maxsize=256)
def _begun(key: bytes, method: str, target: bytes) -> Mac:
    """The HMAC of the first two lines: method and target."""
    mac = _mac_with(key).copy()
    mac.update(b"%b\n%b\n" % (method.encode(), target))
    return mac


class Mac:
    """An HMAC-SHA256 (RFC 2104) that copies prepared hashes. It takes half of the time of `hmac`,
    which looks the algorithm up for each new key (OpenSSL 3), and copies in Python. The time
    matters because each batch of reads has a signature."""

    __slots__ = ("_inner", "_outer", "update")

    def __init__(self, inner: hashlib._Hash, outer: hashlib._Hash) -> None:
        self._inner, self._outer = inner, outer
        self.update: Callable[[bytes], None] = inner.update

    @classmethod
    def from_key(cls, key: bytes) -> Mac:
        if len(key) > _BLOCK_SIZE:
            key = hashlib.sha256(key).digest()
        padded = key.ljust(_BLOCK_SIZE, b"\0")
        return cls(*(hashlib.sha256(padded.translate(pad)) for pad in _PADS))

    def copy(self) -> Mac:
        return Mac(self._inner.copy(), self._outer)

    def hex(self) -> bytes:
        outer = self._outer.copy()
        outer.update(self._inner.digest())
        return outer.hexdigest().encode()

    def hex_of(self, text: bytes) -> bytes:
        """The HMAC of what was added so far and this text, which is not added."""
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(text)
        outer.update(inner.digest())
        return outer.hexdigest().encode()


_mac_with = lru_cache(maxsize=16)(Mac.from_key)


def hash_of(body: bytes) -> bytes:
    digest = _NOTHING.copy()  # a new one looks the algorithm up
    digest.update(body)
    return digest.hexdigest().encode()


def is_hash_of(expected: bytes, body: bytes) -> bool:
    return hmac.compare_digest(hash_of(body), expected)


class AnswerMac:
    """The HMAC of the answer to one request: of lines that are added one after another."""

    def __init__(self, key: bytes, request_mac: bytes) -> None:
        self._mac = _mac_with(key).copy()
        self._mac.update(request_mac)

    def add(self, line: bytes) -> None:
        self._mac.update(b"\n" + line)

    def hex(self) -> bytes:
        return self._mac.hex()

    def is_mac(self, given: bytes | None) -> bool:
        return given is not None and hmac.compare_digest(self.hex(), given)


def mac_of_answer(key: bytes, request_mac: bytes, status: int, body: bytes) -> AnswerMac:
    """The HMAC of a complete answer."""
    mac = AnswerMac(key, request_mac)
    mac.add(b"%d" % status)
    mac.add(hash_of(body))
    return mac


class SignedRequest(NamedTuple):
    """A request that this instance sends: its header, and how to check its answer."""

    header: bytes
    mac: bytes
    answer_key: bytes

    @property
    def headers(self) -> dict[str, str]:
        """The headers to add to the request."""
        return {HEADER.decode(): self.header.decode()}

    def is_answer(self, status: int, body: bytes, given: bytes | None) -> bool:
        """Whether the receiver of the request sent this answer. `given`: the header's value."""
        return mac_of_answer(self.answer_key, self.mac, status, body).is_mac(given)

    def answer_mac(self) -> AnswerMac:
        """The HMAC for a streamed answer."""
        return AnswerMac(self.answer_key, self.mac)


class Signer:
    """Signs requests of one process. Used in the event loop and in other threads."""

    def __init__(
        self,
        secret: ClusterSecret,
        purpose: Purpose = Purpose.PEER,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`clock`: Unix time in s."""
        self._secret = secret
        self._purpose = purpose
        self._clock = clock
        self._process = secrets.token_hex(8).encode()
        self._numbers = itertools.count()

    def sign(
        self, method: str, target: bytes, receiver: str, body: bytes | None = None
    ) -> SignedRequest:
        """`target`: the raw path with the query string."""
        keys = self._secret.current()[0]
        at, nonce = int(self._clock() * 1000), b"%b%x" % (self._process, next(self._numbers))
        body_hash = hash_of(body or b"")
        key: bytes = getattr(keys, self._purpose.value)
        mac = mac_of(key, method, target, at, nonce, body_hash, receiver)
        return SignedRequest(Signature(at, nonce, body_hash, mac).header(), mac, keys.answer)

    def claim(self, client: str) -> bytes:
        """The signed header for the client of a request; see `client_claims`."""
        return claim(client, self._secret.current()[0], int(self._clock() * 1000))

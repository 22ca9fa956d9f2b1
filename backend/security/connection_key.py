"""The key of a proxy's connection: with it, further batches of reads are cheap to sign and verify.

The first batch on a connection has a complete signature (`backend.security.signatures`), and its
answer has `Queryable-Connection: keyed`. From then on, both sides have the key: the HMAC-SHA256 of
this signature's HMAC (its 64 hex digits), with a key of the cluster secret for connections. Each
further batch on the connection has

    Queryable-Signature: <HMAC-SHA256, the first 128 bits in hex>

with this key, of the batch's number on the connection (from 1, decimal), a line feed, and the body.
So a batch cannot be changed, left out, sent again, or sent on another connection. Method and path
are not signed: a key is for batches of reads only, whose answer depends on nothing else. A batch
that is refused ends the key, and another complete signature begins another one. `proxy/security`
has the same in Lua.

A complete signature costs ten hashes, a look at the clock, and a search in the signatures of the
last minute. For a batch with one read, this is as much as the read itself.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from backend.security.cluster_secret import ClusterSecret, Keys
from backend.security.signatures import Mac
from backend.wire.plain_requests import MAC_SIZE

EXTENSION = "queryable.connection_key"
"""An extension of our server's ASGI scopes: the ConnectionKey of the connection."""


class ConnectionKey:
    """What the proxy of one connection has proved. Used in the event loop."""

    __slots__ = ("_keys", "_mac", "_number", "_secret")

    def __init__(self) -> None:
        self._secret: ClusterSecret | None = None
        self._keys: Keys | None = None
        self._mac: Mac | None = None
        self._number = 0

    def begin(self, secret: ClusterSecret, keys: Keys, request_mac: bytes) -> None:
        """Called when a batch with a valid signature has arrived. `keys`: the keys of the secret
        with which it was signed; `request_mac`: its HMAC, in hex. The key ends when `secret` has
        other keys."""
        self._secret, self._keys, self._number = secret, keys, 0
        self._mac = Mac.from_key(hmac.digest(keys.connection, request_mac, "sha256"))

    def is_next(self, given: bytes | None, body: bytes) -> bool:
        """Whether this is the next batch, with a signature by the key. A wrong signature ends the
        key. A complete signature is left to the caller. For the hot path."""
        if given is None or len(given) != MAC_SIZE:
            return False
        is_body = self.next_body(given)
        return is_body is not None and is_body(body)

    def next_body(self, given: bytes) -> Callable[[bytes], bool] | None:
        """A function that tells whether a body is the one of the next batch, for a body that has
        not arrived yet; None without a key."""
        if self._mac is None or self._secret is None or self._keys not in self._secret.current():
            return None
        self._number += 1
        return partial(self._is_body, self._mac, self._number, given)

    def _is_body(self, mac: Mac, number: int, given: bytes, body: bytes) -> bool:
        if hmac.compare_digest(mac.hex_of(b"%d\n%b" % (number, body))[:MAC_SIZE], given):
            return True
        self._mac = None
        return False


def connection_key(scope: Mapping[str, Any]) -> ConnectionKey | None:
    """The key of the connection of an ASGI request; None if another server has received it."""
    key: ConnectionKey | None = scope.get("extensions", {}).get(EXTENSION)
    return key

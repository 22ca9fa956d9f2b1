"""The key of a proxy's connection: with it, further batches of reads are cheap to sign and verify.

The first batch on a connection has a complete signature (`backend.security.signatures`), and its
answer has `Queryable-Connection: keyed`. From then on, both sides have the key: the HMAC-SHA256 of
this signature's HMAC, with a key of the cluster secret for connections. Each further batch on the
connection has

    Queryable-Signature: <HMAC-SHA256, the first 128 bits in hex>

with this key, of the batch's number on the connection (from 1, decimal), a line feed, and the body.
So a batch cannot be changed, sent again, or sent on another connection. `proxy/security` has the
same in Lua.

A complete signature costs ten hashes, a clock and a look at all signatures of a minute. For a batch
with one read, this is as much as the read itself.
"""

from __future__ import annotations

import hmac
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from backend.security.signatures import Mac
from backend.wire.plain_requests import MAC_SIZE

VALID_S = 60.0
"""Of a key. Proxies replace theirs after 15 s, so a secret that is removed ends after this time."""
EXTENSION = "queryable.connection_key"
"""An extension of our server's ASGI scopes: the ConnectionKey of the connection."""


class ConnectionKey:
    """What the proxy of one connection has proved. Used in the event loop."""

    __slots__ = ("_clock", "_ends_at", "_mac", "_number")

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock`: s."""
        self._clock = clock
        self._mac: Mac | None = None
        self._number = 0
        self._ends_at = 0.0

    def begin(self, secret_key: bytes, request_mac: bytes) -> None:
        """A batch with a valid signature has arrived. `request_mac`: its HMAC, in hex."""
        self._mac = Mac.of(hmac.digest(secret_key, request_mac, "sha256"))
        self._number = 0
        self._ends_at = self._clock() + VALID_S

    def is_next(self, given: bytes | None, body: bytes) -> bool:
        """Whether this is the next batch, and its signature one with the key. Call once for each
        batch, this or `next_body`. For the hot path."""
        if given is None or len(given) != MAC_SIZE or self._mac is None:
            return False
        self._number += 1
        return self._clock() < self._ends_at and self._is_body(self._mac, self._number, given, body)

    def next_body(self, given: bytes) -> Callable[[bytes], bool] | None:
        """What tells whether a body is that of the next batch, which has this signature; None
        without a key. Call once for each batch."""
        if self._mac is None or self._clock() >= self._ends_at:
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

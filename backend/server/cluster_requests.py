"""Requests of proxies and other instances that are answered as their bytes arrive."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from backend.security.connection_key import ConnectionKey
from backend.security.mutual_tls import is_of_cluster
from backend.server.interface import FastPath
from backend.wire.answer import Answer
from backend.wire.plain_requests import plain_heartbeat, plain_poll, plain_reads
from backend.wire.point_batch import READS

_READS = b"POST %b " % READS
_POST = b"POST "


def answer_to_cluster(
    fast_path: FastPath,
    data: bytes,
    address: str,
    tls: Mapping[str, Any] | None,
    key: ConnectionKey,
) -> Answer | None:
    """The answer to a request of a proxy or another instance; None for other requests, and if ASGI
    is needed. `tls`: the TLS extension of the connection. `key`: the key of the connection."""
    if data.startswith(_READS):
        reads = plain_reads(data)
        if reads is None:
            return None
        return fast_path.reads_now(reads, address, is_of_cluster(tls), key)
    if data.startswith(_POST):
        heartbeat = plain_heartbeat(data)
        if heartbeat is None:
            return None
        return fast_path.heartbeat_now(heartbeat, address, is_of_cluster(tls))
    if (poll := plain_poll(data)) is not None and fast_path.allows_host(poll.host):
        return fast_path.unchanged_now(poll, address, is_of_cluster(tls))
    return None

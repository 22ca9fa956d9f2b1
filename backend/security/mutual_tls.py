"""Mutual TLS proves that a request comes from an instance or a proxy of the deployment. Some
headers show that it comes from a client of a proxy instead."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from backend.wire.answer import FINAL_STATUS

_PROXY_HEADERS = frozenset((FINAL_STATUS, b"x-forwarded-for", b"forwarded", b"via", b"x-real-ip"))
_HAS_ONE = re.compile(rb"\n(?:" + b"|".join(sorted(_PROXY_HEADERS)) + rb"):", re.IGNORECASE)


def is_passed_on(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether a proxy has passed on the request of a client. Then neither the certificate nor the
    address of the connection says anything about the sender. Our nginx sends the first of these
    headers with all requests of its clients. Most other proxies send one of the others."""
    return any(name in _PROXY_HEADERS for name, _ in headers)


def has_cluster_certificate(scope: Mapping[str, Any]) -> bool:
    """Whether a request came with a client certificate of the deployment's authority
    (`QUERYABLE_TLS_CLIENT_CA_FILE`), and is not one that a proxy passes on for a client.

    `scope`: of ASGI. Its extension `tls` has a name only if the handshake has verified the
    certificate.
    """
    return is_of_cluster(scope.get("extensions", {}).get("tls"))


def is_from_proxy(scope: Mapping[str, Any]) -> bool:
    """Whether a proxy of the deployment has passed on the request of a client, on a connection with
    its own certificate."""
    return scope.get("extensions", {}).get("tls", {}).get("proxy_cert_name") is not None


def tls_of_proxy(tls: Mapping[str, Any]) -> dict[str, Any]:
    """The extension for requests that a proxy passes on: the certificate is not the client's."""
    name = tls["client_cert_name"] or tls.get("proxy_cert_name")
    return {**tls, "client_cert_name": None, "proxy_cert_name": name}


def tls_after(tls: dict[str, Any], get: bytes) -> dict[str, Any]:
    """The extension of the connection after a plain GET, whose headers were not parsed."""
    return tls_of_proxy(tls) if is_of_cluster(tls) and _HAS_ONE.search(get) else tls


def is_of_cluster(tls: Mapping[str, Any] | None) -> bool:
    """Whether the extension `tls` shows a client certificate of the deployment's authority. `tls`:
    None without TLS."""
    return tls is not None and tls["client_cert_name"] is not None

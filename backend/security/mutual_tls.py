"""Mutual TLS as the proof that a request comes from an instance or a proxy of the deployment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def has_cluster_certificate(scope: Mapping[str, Any]) -> bool:
    """Whether a request came with a client certificate of the deployment's authority
    (`QUERYABLE_TLS_CLIENT_CA_FILE`), and is not one that a proxy passes on for a client.

    `scope`: of ASGI. Its extension `tls` has a name only if the handshake has verified the
    certificate.
    """
    return is_of_cluster(scope.get("extensions", {}).get("tls"))


def is_of_cluster(tls: Mapping[str, Any] | None) -> bool:
    """The same for the extension itself; None: without TLS."""
    return tls is not None and tls["client_cert_name"] is not None

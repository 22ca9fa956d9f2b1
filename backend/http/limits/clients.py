"""Which client a request is for: each client has its own share of this instance.

A token that was verified names the client. Otherwise the address of the socket names it, unless a
trusted proxy or instance says which client it asks for (`backend/security/client_claims.py`):

- the claim is signed with the cluster secret,
- or the connection has a client certificate of the deployment's authority,
- or the socket is of an address in QUERYABLE_TRUSTED_PROXIES. If that is empty: of loopback, unless
  there is a cluster secret or mutual TLS.

Otherwise a client could use the shares of other clients, or invent clients to get more shares.
"""

from __future__ import annotations

from ipaddress import ip_network

from backend.http.asgi import CLIENT_EXTENSION
from backend.http.request import Request
from backend.instance.settings import Settings
from backend.queries.turns import INSTANCES
from backend.security.client_claims import (
    CLIENT,
    LOOPBACK,
    Network,
    client_of,
    client_of_subject,
    is_in,
    parse_networks,
)
from backend.security.cluster import ClusterAccess
from backend.security.mutual_tls import has_cluster_certificate, is_from_proxy

UNKNOWN = "unknown"


class Clients:
    """Used in the event loop."""

    def __init__(self, cluster: ClusterAccess, trusted: tuple[Network, ...] = ()) -> None:
        """`trusted`: networks of proxies that are believed without a proof."""
        self._cluster = cluster
        self._trusted = trusted

    @classmethod
    def of(cls, settings: Settings, cluster: ClusterAccess) -> Clients:
        """The clients as configured. Raises ConfigurationError."""
        trusted = parse_networks(settings.trusted_proxies)
        if not trusted and not cluster.is_configured:
            trusted = tuple(map(ip_network, LOOPBACK))
        return cls(cluster, trusted)

    def assign(self, request: Request, is_internal: bool) -> tuple[str, bool]:
        """The client whose share the request uses, and whether another instance or a proxy asks.
        From then on, the server and requests to other instances know the client."""
        is_peer = is_internal or request.is_from_cluster
        if request.is_from_cluster:
            client = INSTANCES
        else:
            client = self.origin_of(request) if is_internal else self.client_of(request)
        CLIENT.set(client)
        tell_server = request.scope.get("extensions", {}).get(CLIENT_EXTENSION)
        if tell_server is not None:
            tell_server(client)
        return client, is_peer

    def client_of(self, request: Request) -> str:
        """The client of a request, on a route for clients."""
        if request.identity is not None:
            return client_of_subject(request.identity.subject)
        claim = self._cluster.claim_in(request.headers)
        if claim is not None and (claim.is_signed or self._is_trusted(request)):
            return claim.client
        return client_of(request.client) or UNKNOWN

    def origin_of(self, request: Request) -> str:
        """The client for which an instance sends a request to an internal route. The route has
        admitted the instance already. "" if the instance asks for itself, or has an older
        version."""
        claim = self._cluster.claim_in(request.headers)
        return "" if claim is None else claim.client

    def _is_trusted(self, request: Request) -> bool:
        return (
            has_cluster_certificate(request.scope)
            or is_from_proxy(request.scope)
            or is_in(request.client, self._trusted)
        )

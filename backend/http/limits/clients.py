"""Which client a request is for: each client has its own share of this instance.

A token that was verified names the client. Otherwise the first of these does:

- the claim of our nginx or of an instance (`backend/security/client_claims.py`), if it is signed
  with the cluster secret, or the connection has a certificate of the deployment's authority,
- `X-Forwarded-For` (`backend/security/forwarded_for.py`), if the socket is of an address in
  QUERYABLE_TRUSTED_PROXIES,
- an unsigned claim, if the socket is of such an address. If the setting is empty: of loopback,
  unless there is a cluster secret or mutual TLS,
- the address of the socket.

`X-Forwarded-For` comes before an unsigned claim, because proxies other than our nginx pass on the
claims of their clients. A client that is believed without a reason could use the shares of others,
or invent clients to get more shares.
"""

from __future__ import annotations

from ipaddress import ip_network

from backend.http.asgi import CLIENT_EXTENSION, Scope
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
from backend.security.forwarded_for import forwarded_client
from backend.security.mutual_tls import has_cluster_certificate, is_from_proxy

UNKNOWN = "unknown"


class Clients:
    """Names the clients of requests. Used in the event loop."""

    def __init__(self, cluster: ClusterAccess, trusted: tuple[Network, ...] = ()) -> None:
        """`trusted`: networks of proxies whose `X-Forwarded-For` is believed."""
        self._cluster = cluster
        self._trusted = trusted
        # whose claims are believed without a proof
        self._claiming = trusted
        if not trusted and not cluster.is_configured:
            self._claiming = tuple(map(ip_network, LOOPBACK))

    @classmethod
    def from_settings(cls, settings: Settings, cluster: ClusterAccess) -> Clients:
        """The clients as configured. Raises ConfigurationError."""
        return cls(cluster, parse_networks(settings.trusted_proxies))

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
        return client_of(request.client) or UNKNOWN

    def named_in(self, scope: Scope) -> str:
        """The client of a request, on a route for clients, without regard to its token: an address,
        or how another instance names its client. "" if it is unknown."""
        headers = scope["headers"]
        claim = self._cluster.claim_in(headers)
        if claim is not None and (claim.is_signed or _is_proven(scope)):
            return claim.client
        socket: str = (scope.get("client") or ("",))[0]
        if is_in(socket, self._trusted):
            forwarded = forwarded_client(socket, headers, self._trusted)
            if forwarded is not None:
                return forwarded
        if claim is not None and is_in(socket, self._claiming):
            return claim.client
        return socket

    def origin_of(self, request: Request) -> str:
        """The client for which an instance sends a request to an internal route. The route has
        admitted the instance already. "" if the instance asks for itself, or has an older
        version."""
        claim = self._cluster.claim_in(request.headers)
        return "" if claim is None else client_of(claim.client)


def _is_proven(scope: Scope) -> bool:
    """Whether an instance or a proxy has shown a certificate of the deployment."""
    return has_cluster_certificate(scope) or is_from_proxy(scope)

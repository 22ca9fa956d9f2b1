"""The deployments behind a proxy, and clients for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from queryable import Client
from queryable.cli.config import Connection
from queryable.client.protocol.errors import BadUse, NotFound
from queryable.client.settings import MAX_URLS

UNKNOWN = "It asks its backends 3 s after its start, if it has several."


@dataclass(frozen=True)
class Deployments:
    """The deployments behind a proxy, as the proxy reports them."""

    service: Mapping[str, Any] | None
    """{name, current, revision}; None without a service."""
    in_use: str | None
    """The application id of the deployment that the proxy sends requests to."""
    urls: Mapping[str, Sequence[str]]
    """The configured backends, by application id."""

    def client(self, connection: Connection, application_id: str) -> Client:
        """A client for the instances of a deployment, without the proxy. A token for an https URL
        is not sent in clear text because the proxy says so. Raises BadUse."""
        urls = self.urls.get(application_id)
        if not urls:
            known = f"It knows: {', '.join(sorted(self.urls))}." if self.urls else UNKNOWN
            raise BadUse(
                f"The proxy knows no instance of deployment {application_id}. {known} "
                "QUERYABLE_BACKENDS of nginx must name instances of both deployments."
            )
        with connection.client() as proxy:
            allowed = [url for url in urls if proxy._context.may_ask(url)]
        if not allowed:
            raise BadUse(
                f"The proxy reaches the instances of deployment {application_id} by http, and the "
                "token is for an https URL: it is not sent in clear text. Write https:// before "
                "the backends in QUERYABLE_BACKENDS of nginx, or name the http URL of the proxy "
                "with --url."
            )
        return connection.client(",".join(allowed[:MAX_URLS]))


def behind_proxy(connection: Connection) -> Deployments:
    """Asks the proxy. Raises BadUse if the URL is that of an instance."""
    with connection.client() as client:
        try:
            health = client.proxy_health()
        except NotFound:
            raise BadUse(
                "The URL is that of an instance. Only the proxy knows all deployments: name it "
                "with --url."
            ) from None
    urls: dict[str, list[str]] = {}
    for backend in health.get("configured") or ():
        if (id_ := backend["application_id"]) is not None:
            urls.setdefault(id_, []).append(f"{backend['scheme']}://{backend['address']}")
    return Deployments(health.get("service"), health.get("application_id"), urls)

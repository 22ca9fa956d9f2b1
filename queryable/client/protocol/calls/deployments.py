"""Deployments of a service behind one proxy, of which one is current.

The calls that change something need the scope `admin`. They must be sent to an instance of the
deployment that becomes current: see `proxy_health` for addresses.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from queryable.client.protocol.commands import send_command
from queryable.client.protocol.context import ClientContext
from queryable.client.protocol.transport import Call


def proxy_health(context: ClientContext, *, timeout: float | None = None) -> Call[dict[str, Any]]:
    """The state of the proxy: the document of `GET /proxy/health`. Raises NotFound if the URL is
    that of an instance."""
    document: dict[str, Any] = yield from context.get_json(
        "/proxy/health", context.deadline(timeout)
    )
    return document


def deployment(context: ClientContext, *, timeout: float | None = None) -> Call[dict[str, Any]]:
    """The deployment that answers, its service, and whether it could become current: the document
    of `GET /admin/deployment`."""
    document: dict[str, Any] = yield from context.get_json(
        "/admin/deployment", context.deadline(timeout)
    )
    return document


def switch_deployment(
    context: ClientContext,
    application_id: str,
    *,
    max_lag: int | None = None,
    wait: int | None = None,
    force: bool = False,
    timeout: float | None = None,
) -> Call[dict[str, Any]]:
    """Makes a deployment current. It must be the deployment of the instance that the client asks.
    Raises BadRequest with the code `deployment-not-ready` unless all its views are complete;
    `max_lag`, `wait` and `force` as for `switch`."""
    body: dict[str, Any] = {"force": force}
    if max_lag is not None:
        body["max_lag"] = max_lag
    if wait is not None:
        body["wait"] = wait
    return (yield from send_command(context, _path(application_id, "switch"), body, timeout))


def rollback_deployment(
    context: ClientContext,
    application_id: str,
    *,
    force: bool = False,
    timeout: float | None = None,
) -> Call[dict[str, Any]]:
    """Makes the previous deployment current again. Raises BadRequest with the code
    `not-previous-deployment` or `deployment-not-ready`."""
    body = {"force": force}
    return (yield from send_command(context, _path(application_id, "rollback"), body, timeout))


def _path(application_id: str, command: str) -> str:
    return f"/admin/deployments/{quote(application_id, safe='')}/{command}"

"""`queryable deployments`, `switch-deployment` and `rollback-deployment`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

import typer

from queryable.cli.config import Connection
from queryable.cli.declaration.command import command
from queryable.cli.deployments import UNKNOWN, Deployments, behind_proxy
from queryable.cli.exit_codes import UNAVAILABLE, print_stderr
from queryable.cli.options import Force, Switch
from queryable.cli.output import DocumentOutput, print_table, write_line
from queryable.cli.progress import poll
from queryable.client.protocol.errors import BadUse, QueryableError, Unavailable

_FOLLOWED_WITHIN_S = 5.0  # a command waits this long until the proxy follows
_STEP_S = 0.05

DeploymentId = Annotated[
    str, typer.Argument(metavar="APPLICATION_ID", show_default=False, help="The deployment.")
]


@command
def deployments(*, connection: Connection, output: DocumentOutput) -> None:
    """List the deployments behind the proxy.

    Shows which one is current, and whether the others could become current. The URL must be that
    of the proxy, and the addresses in its QUERYABLE_BACKENDS must be reachable from here.

    \b
    Examples:
      queryable deployments
      queryable deployments --url https://topics.example.org
    """
    proxied = behind_proxy(connection)
    documents = {id_: _describe(connection, proxied, id_) for id_ in sorted(proxied.urls)}
    if not output.is_for_people:
        write_line(
            {
                "service": proxied.service,
                "in_use": proxied.in_use,
                "deployments": [*documents.values()],
            }
        )
        return
    if not documents:
        print(f"The proxy knows no deployment yet. {UNKNOWN}")
        return
    print_table([_row(proxied, document) for document in documents.values()])


@command
def switch_deployment(
    *, deployment: DeploymentId, change: Switch, connection: Connection, output: DocumentOutput
) -> None:
    """Make another deployment of the service current.

    It is refused unless it has all views of the current one, their jobs run, and they are complete:
    the jobs have read their sources up to the ends that they have now, and all replicas have
    applied what they wrote. That takes some seconds. --wait waits longer. Exits with 2 if it is
    refused, 3 if the proxy does not follow. `queryable rollback-deployment` goes back. Needs the
    scope admin.

    \b
    Examples:
      queryable switch-deployment shop-2
      queryable switch-deployment shop-2 --wait
    """
    proxied = behind_proxy(connection)
    with proxied.client(connection, deployment) as client:
        if not change.force:
            _require_views(connection, proxied, client.deployment())
        result = change.apply(partial(client.switch_deployment, deployment))
    _report(connection, result, output)


@command
def rollback_deployment(
    *, force: Force = False, connection: Connection, output: DocumentOutput
) -> None:
    """Make the previous deployment of the service current again.

    It takes about a second. Exits with 2 if there is no previous deployment, if it cannot answer,
    or if one of its jobs no longer runs; with 3 if the proxy does not follow. Needs the
    scope admin.

    \b
    Examples:
      queryable rollback-deployment
    """
    proxied = behind_proxy(connection)
    previous = _previous(connection, proxied)
    with proxied.client(connection, previous) as client:
        result = client.rollback_deployment(previous, force=force)
    _report(connection, result, output)


def _describe(connection: Connection, proxied: Deployments, id_: str) -> dict[str, Any]:
    """The document of a deployment; if no instance answers, {"application_id", "error"}."""
    try:
        with proxied.client(connection, id_) as client:
            return client.deployment()
    except QueryableError as error:
        return {"application_id": id_, "error": str(error)}


def _row(proxied: Deployments, document: Mapping[str, Any]) -> dict[str, object]:
    id_, error = document["application_id"], document.get("error")
    service = document.get("service") or proxied.service or {}
    roles = {service.get("previous"): "previous", service.get("current"): "current"}
    row = {
        "deployment": id_,
        "role": roles.get(id_, ""),
        "requests": "yes" if id_ == proxied.in_use else "no",
    }
    if error is not None:
        return {**row, "instances": "", "ready": f"does not answer: {error}"}
    return {
        **row,
        "instances": ", ".join(instance["id"] for instance in document["instances"]),
        "ready": "yes" if document["ready"] else f"no: {document['why_not_ready']}",
    }


def _require_views(connection: Connection, proxied: Deployments, target: Mapping[str, Any]) -> None:
    """Raises BadUse if the deployment lacks views that requests use now."""
    with connection.client() as client:
        used = client.deployment()
    missing = sorted({*used["views"]} - {*target["views"]})
    if missing:
        raise BadUse(
            f"Deployment {target['application_id']} does not have the views "
            f"{', '.join(missing)} of {proxied.in_use}: their clients would get 404. --force makes "
            "it current nevertheless."
        )


def _previous(connection: Connection, proxied: Deployments) -> str:
    with connection.client() as client:
        service = client.deployment()["service"]
    if service is None or service["previous"] is None:
        raise BadUse("There is no previous deployment to go back to.")
    previous: str = service["previous"]
    return previous


def _report(connection: Connection, result: dict[str, Any], output: DocumentOutput) -> None:
    """Prints the new state once the proxy follows; exits with 3 if it does not."""

    def ask(_: bool) -> tuple[bool, str]:
        try:
            follows = _follows(behind_proxy(connection), result)
        except Unavailable as error:
            return False, f"The proxy does not answer: {error.detail}"
        return follows, "" if follows else "The proxy does not follow yet"

    reason = poll(ask, _FOLLOWED_WITHIN_S, _STEP_S)
    text = (
        f"{result['name']}: {result['current']} is current, {result['previous']} is the previous "
        "one"
    )
    output.show({**result, "followed": not reason}, text)
    if reason:
        print_stderr(f"{reason}: look at service and application_id in /proxy/health.")
        raise SystemExit(UNAVAILABLE)


def _follows(proxied: Deployments, result: Mapping[str, Any]) -> bool:
    """Whether the proxy uses the deployment, or that of a later change."""
    service = proxied.service
    if service is None or service["revision"] < result["revision"]:
        return False
    return bool(proxied.in_use == service["current"])

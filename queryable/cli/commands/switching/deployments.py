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

_FOLLOWED_WITHIN = 5.0  # s that a command waits for the proxy to follow
_STEP = 0.05  # s

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
    found = behind_proxy(connection)
    documents = {id_: _describe(connection, found, id_) for id_ in sorted(found.urls)}
    if not output.is_for_people:
        write_line(
            {"service": found.service, "in_use": found.in_use, "deployments": [*documents.values()]}
        )
        return
    if not documents:
        print(f"The proxy knows no deployment yet. {UNKNOWN}")
        return
    print_table([_row(found, document) for document in documents.values()])


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
    found = behind_proxy(connection)
    with found.client(connection, deployment) as client:
        if not change.force:
            _require_views(connection, found, client.deployment())
        done = change.made(partial(client.switch_deployment, deployment))
    _report(connection, done, output)


@command
def rollback_deployment(
    *, force: Force = False, connection: Connection, output: DocumentOutput
) -> None:
    """Make the previous deployment of the service current again.

    It takes about a second. Exits with 2 if there is no previous deployment, if it cannot answer,
    or if one of its jobs does not run any more; with 3 if the proxy does not follow. Needs the
    scope admin.

    \b
    Examples:
      queryable rollback-deployment
    """
    found = behind_proxy(connection)
    previous = _previous(connection, found)
    with found.client(connection, previous) as client:
        done = client.rollback_deployment(previous, force=force)
    _report(connection, done, output)


def _describe(connection: Connection, found: Deployments, id_: str) -> dict[str, Any]:
    """The document of a deployment; if no instance answers, {"application_id", "error"}."""
    try:
        with found.client(connection, id_) as client:
            return client.deployment()
    except QueryableError as error:
        return {"application_id": id_, "error": str(error)}


def _row(found: Deployments, document: Mapping[str, Any]) -> dict[str, object]:
    id_, error = document["application_id"], document.get("error")
    service = document.get("service") or found.service or {}
    roles = {service.get("previous"): "previous", service.get("current"): "current"}
    row = {
        "deployment": id_,
        "role": roles.get(id_, ""),
        "requests": "yes" if id_ == found.in_use else "no",
    }
    if error is not None:
        return {**row, "instances": "", "ready": f"does not answer: {error}"}
    return {
        **row,
        "instances": ", ".join(each["id"] for each in document["instances"]),
        "ready": "yes" if document["ready"] else f"no: {document['why_not_ready']}",
    }


def _require_views(connection: Connection, found: Deployments, target: Mapping[str, Any]) -> None:
    """Raises BadUse if the deployment lacks views that requests use now."""
    with connection.client() as client:
        used = client.deployment()
    missing = sorted({*used["views"]} - {*target["views"]})
    if missing:
        raise BadUse(
            f"Deployment {target['application_id']} does not have the views "
            f"{', '.join(missing)} of {found.in_use}: their clients would get 404. --force makes "
            "it current nevertheless."
        )


def _previous(connection: Connection, found: Deployments) -> str:
    with connection.client() as client:
        service = client.deployment()["service"]
    if service is None or service["previous"] is None:
        raise BadUse("There is no previous deployment to go back to.")
    previous: str = service["previous"]
    return previous


def _report(connection: Connection, done: dict[str, Any], output: DocumentOutput) -> None:
    """Prints the new state once the proxy follows; exits with 3 if it does not."""

    def ask(_: bool) -> tuple[bool, str]:
        try:
            follows = _follows(behind_proxy(connection), done)
        except Unavailable as error:
            return False, f"The proxy does not answer: {error.detail}"
        return follows, "" if follows else "The proxy does not follow yet"

    why = poll(ask, _FOLLOWED_WITHIN, _STEP)
    text = f"{done['name']}: {done['current']} is current, {done['previous']} is the previous one"
    output.show({**done, "followed": not why}, text)
    if why:
        print_stderr(f"{why}: look at service and application_id in /proxy/health.")
        raise SystemExit(UNAVAILABLE)


def _follows(found: Deployments, done: Mapping[str, Any]) -> bool:
    """Whether the proxy uses the deployment, or that of a later change."""
    service = found.service
    if service is None or service["revision"] < done["revision"]:
        return False
    return bool(found.in_use == service["current"])

"""Commands for one instance. They need the scope `admin`; any instance takes them."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from queryable.client.protocol.commands import send_command
from queryable.client.protocol.context import ClientContext
from queryable.client.protocol.transport import Call


def drain(
    context: ClientContext, instance: str, *, timeout: float | None = None
) -> Call[dict[str, Any]]:
    """Tells an instance to give its partitions to other instances. Returns `{"instance",
    "drained"}` immediately. The instance has no partitions left when `topology()` lists none for
    it.

    Raises NotFound if the topology does not have the instance, and BadRequest with the code
    `last-instance` if there is no other instance.
    """
    return (yield from send_command(context, _path(instance, "drain"), {}, timeout))


def undrain(
    context: ClientContext, instance: str, *, timeout: float | None = None
) -> Call[dict[str, Any]]:
    """Gives an instance its share of the partitions again. Raises NotFound."""
    return (yield from send_command(context, _path(instance, "undrain"), {}, timeout))


def rebuild(
    context: ClientContext,
    instance: str,
    view: str,
    partition: int,
    *,
    force: bool = False,
    timeout: float | None = None,
) -> Call[dict[str, Any]]:
    """Tells an instance to delete its store of a partition, and to build it again. Returns
    `{"instance", "view", "partition"}` immediately.

    Raises NotFound if the instance does not have the partition, and, without `force`, BadRequest
    with the code `last-replica` if no other instance answers for it meanwhile.
    """
    body = {"view": view, "partition": partition, "force": force}
    return (yield from send_command(context, _path(instance, "rebuild"), body, timeout))


def _path(instance: str, command: str) -> str:
    return f"/admin/instances/{quote(instance, safe='')}/{command}"

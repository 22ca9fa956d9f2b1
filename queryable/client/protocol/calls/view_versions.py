"""The versions of a view: their progress, and the one that is current.

The calls that change something need the scope `admin`.
"""

from __future__ import annotations

from typing import Any

from queryable.client.protocol.commands import path_of, send_command
from queryable.client.protocol.context import ClientContext
from queryable.client.protocol.transport import Call


def view_versions(
    context: ClientContext, view: str, *, timeout: float | None = None
) -> Call[dict[str, Any]]:
    """The progress of each version of a view: the document of `GET /views/{view}/versions`."""
    document: dict[str, Any] = yield from context.get_json(
        _path(view, "versions"), context.deadline(timeout)
    )
    return document


def switch(
    context: ClientContext,
    view: str,
    version: int,
    *,
    max_lag: int | None = None,
    wait: int | None = None,
    force: bool = False,
    timeout: float | None = None,
) -> Call[dict[str, Any]]:
    """Makes another version of a view current.

    Raises BadRequest with the code `version-not-ready` unless its job runs, and it is complete on
    all instances: it has everything that was written before this call, or all but `max_lag`
    records. The instance waits for it: 5 s, or `wait` s (up to 50). `more` of the error has `lag`,
    `seconds_left` (both None if unknown), and `may_end`: whether it may become complete by itself.
    With `force`, this is not checked.
    """
    body: dict[str, Any] = {"version": version, "force": force}
    if max_lag is not None:
        body["max_lag"] = max_lag
    if wait is not None:
        body["wait"] = wait
    return (yield from _command(context, _path(view, "switch"), body, timeout))


def rollback(
    context: ClientContext, view: str, *, force: bool = False, timeout: float | None = None
) -> Call[dict[str, Any]]:
    """Makes the previous version of a view current again. Raises BadRequest with the code
    `no-previous-version`; or `version-not-ready` if no instance can answer from it, or its job
    no longer runs. With `force`, this is not checked."""
    return (yield from _command(context, _path(view, "rollback"), {"force": force}, timeout))


def drop(
    context: ClientContext,
    view: str,
    version: int,
    *,
    delete_topic: bool = False,
    timeout: float | None = None,
) -> Call[dict[str, Any]]:
    """Removes a version that is not current: its stores, and its topic if `delete_topic`. Raises
    BadRequest with the code `pipeline-running` if the job that writes this topic runs."""
    body = {"version": version, "delete_topic": delete_topic}
    return (yield from _command(context, _path(view, "drop"), body, timeout))


def _command(
    context: ClientContext, path: str, body: dict[str, Any], timeout: float | None
) -> Call[dict[str, Any]]:
    document = yield from send_command(context, path, body, timeout)
    context.forget_views()
    return document


def _path(view: str, command: str) -> str:
    return f"{path_of(view)}/{command}"

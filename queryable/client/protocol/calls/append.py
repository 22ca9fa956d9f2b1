"""Appending a record to a view's topic."""

from __future__ import annotations

from typing import Any

from queryable.client.protocol.answers import Appended
from queryable.client.protocol.context import ClientContext
from queryable.client.protocol.errors import NoAnswer, QueryableError, Unavailable, Unconfirmed
from queryable.client.protocol.requests import NOTHING_WRITTEN, json_post
from queryable.client.protocol.responses import decoding, json_of
from queryable.client.protocol.transport import Call, Sleep
from queryable.client.protocol.views import View

_OUTDATED = frozenset(("version-not-current", "no-such-resource"))
"""Codes which mean that another version may be current: the topic may be gone with its version."""

_SWITCH_DELAY_S = 0.1  # after which all instances know of a switch

DELETE: Any = type("Delete", (), {"__repr__": lambda _: "DELETE"})()
"""Passed as the value, deletes the key."""


def append(
    context: ClientContext,
    view: str,
    key: Any,
    value: Any = DELETE,
    *,
    timeout: float | None = None,
) -> Call[Appended]:
    """Appends a record to the topic of a view; without a value, deletes the key.

    The view must be declared with `append = "on"`. The record is sent again only if it cannot have
    been written; if it may have been, the error is Unconfirmed. It is for the current version of
    the view, unless `view` names one.
    """
    deadline = context.deadline(timeout)
    view_info = yield from context.view(view, deadline)
    version = None if "@" in view else view_info.version
    try:
        return (yield from _append(context, view_info, version, key, value, deadline))
    except QueryableError as e:
        is_outdated = version is not None and e.code in _OUTDATED
        if not is_outdated or not context.leave_version(view):
            raise
    yield Sleep(_SWITCH_DELAY_S)
    view_info = yield from context.view(view, deadline)
    return (yield from _append(context, view_info, view_info.version, key, value, deadline))


def _append(
    context: ClientContext,
    view_info: View,
    version: int | None,
    key: Any,
    value: Any,
    deadline: float,
) -> Call[Appended]:
    """Appends the record. `version`: the version that must be current; None: any version may be
    current."""
    body = b'{"key":%b' % view_info.key.json_bytes(key)
    if value is not DELETE:
        body += b',"value":%b' % view_info.value.json_bytes(value)
    target = f"/topics/{view_info.topic}/records"
    request = json_post(target, body + b"}", is_idempotent=False, version=version)
    try:
        document = json_of((yield from context.send(request, deadline)))
    except Unavailable as e:
        if _may_be_written(e):
            raise _unconfirmed(e) from None
        raise
    with decoding():
        appended = Appended(document["partition"], document["offset"])
    context.note_record(view_info, appended.partition, appended.offset)
    return appended


def _may_be_written(error: Unavailable) -> bool:
    if isinstance(error, NoAnswer):
        return error.may_have_arrived
    return error.code not in NOTHING_WRITTEN


def _unconfirmed(cause: Unavailable) -> Unconfirmed:
    error = Unconfirmed(cause.code, f"The record may have been written: {cause.detail}")
    error.status, error.retry_after, error.more = cause.status, cause.retry_after, cause.more
    return error

"""The views of a deployment, and its topology."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from queryable.client.protocol.context import ClientContext
from queryable.client.protocol.responses import decoding
from queryable.client.protocol.transport import Call
from queryable.client.protocol.views import View


def views(context: ClientContext) -> Call[list[View]]:
    """All views."""
    document = yield from context.get_json("/views")
    with decoding():
        return [View.from_json(description) for description in document["views"]]


def view(context: ClientContext, name: str) -> Call[View]:
    """One view. Raises NotFound."""
    return (yield from context.view(name))


def topology(context: ClientContext) -> Call[Mapping[str, Any]]:
    """The instances and their partitions: the document of `GET /processors`."""
    return (yield from context.topology()).document

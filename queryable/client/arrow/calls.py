"""An Arrow stream of a view."""

from __future__ import annotations

from typing import Any

from model.kinds.registry import kind_of
from queryable.client.protocol.answers import Source
from queryable.client.protocol.context import ClientContext
from queryable.client.protocol.errors import BadUse, NoAnswer
from queryable.client.protocol.parameters import Fields, Parameters, Stale
from queryable.client.protocol.requests import read_request
from queryable.client.protocol.transport import Call, CloseStream, ReadChunk, TransportError

_ARROW = {"accept": "application/vnd.apache.arrow.stream"}


def open_columns(
    context: ClientContext,
    view: str,
    *,
    where: str | None = None,
    select: Fields = (),
    timestamps: bool = False,
    is_probe: bool = False,
    stale: Stale | None = None,
    timeout: float | None = None,
) -> Call[tuple[Any, Source]]:
    """A stream for `read_columns`, which must be closed, and what its headers say. `is_probe`: only
    the schema is wanted, for which one key is asked."""
    described = yield from context.view_to_read(view, context.deadline(timeout))
    if is_probe:
        where = "key = 0" if int in described.key.python.types else "key = ''"
    query = (
        Parameters()
        .add_filter(where, select)
        .add("timestamps", "true" if timestamps else None)
        .add("stale", stale)
    )
    resource = kind_of(described.store).resource
    if resource is None:
        raise BadUse(f"View {view} has a store of its own, whose entries cannot be listed.")
    path = query.append_to(f"/views/{described.name}/{resource}")
    request = read_request(path, headers=_ARROW)
    stream = yield from context.open_stream(request, timeout)
    return stream, Source(stream.headers)


def read_columns(stream: Any) -> Call[bytes]:
    """The next bytes; empty at the end. Raises NoAnswer if the stream breaks."""
    try:
        chunk: bytes = yield ReadChunk(stream)
    except TransportError as e:
        raise NoAnswer(str(e)) from None
    return chunk


def close_columns(stream: Any) -> Call[None]:
    yield CloseStream(stream)

"""The answers to `partials=all`: what each partition has of a key, by partition."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import cast

from backend.ingest.protocols import Store
from backend.queries.merged_entries import MergedEntries
from backend.queries.partials import Partial
from backend.wire.answer import JSON, Answer, Header
from model.problems import NotFound
from model.records import decode_entry, is_deleted
from model.views import View


def values_answer(
    view: View, key: bytes, partials: Iterable[Partial], headers: list[Header]
) -> Answer:
    """The value in each partition that has one, with the place and the time (ms) of its record."""
    items = []
    for each in partials:
        for _, head, value in each.rows:
            if is_deleted(head):
                continue
            timestamp, offset, _ = decode_entry(head)
            items.append(
                b'{"partition":%d,"offset":%d,"timestamp":%d,"value":%b}'
                % (each.partition, offset, timestamp, view.value_codec.to_json(value))
            )
    if not items:
        problem = NotFound("key-not-found", f"No partition of view {view.name} has such a key.")
        return Answer(404, problem.headers() + headers, problem.body())
    return _answer(view, key, items, headers)


def items_answer(
    view: View,
    key: bytes,
    partials: Iterable[Partial],
    items_of: Callable[[Store], list[bytes]],
    headers: list[Header],
) -> Answer:
    """The windows, sessions or versions in each partition that has some; `items_of` finds them
    among what is stored there."""
    found = []
    for each in partials:
        entries = [(stored_key, head + value) for stored_key, head, value in each.rows]
        clock = each.stream_time if view.kind.has_versions else None
        items = items_of(cast(Store, MergedEntries(entries, clock)))
        if items:
            found.append(b'{"partition":%d,"items":[%b]}' % (each.partition, b",".join(items)))
    return _answer(view, key, found, headers)


def _answer(view: View, key: bytes, partials: list[bytes], headers: list[Header]) -> Answer:
    body = b'{"key":%b,"partials":[%b]}' % (view.key_codec.to_json(key), b",".join(partials))
    return Answer(200, [*headers, JSON], body)

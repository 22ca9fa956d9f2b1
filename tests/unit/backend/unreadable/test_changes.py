"""The changes of a key, one of which is not in the view's format."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from backend.queries.change_backlog import BacklogBudget
from backend.queries.changes import Changes
from backend.queries.point import ViewReads
from queryable.client.protocol.stream_decoders import Event, EventDecoder
from tests.support.in_process.cluster import Cluster
from tests.support.in_process.examples import ORDERS
from tests.support.reference.tables import Record


def event(event: Event) -> tuple[str, str, Any]:
    document = json.loads("\n".join(event.data))
    if "unreadable" in document:
        assert document["unreadable"].pop("reason")
    return event.kind, event.id, document


def test_an_unreadable_value_is_an_event_of_its_own(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, ORDERS, 1, 1)
    cluster.place([0])

    def write(offset: int, value: bytes, sound: bool = True) -> None:
        record = Record(offset, b"k", (), value, 10 + offset, sound, is_of_value=not sound)
        cluster.write(record, 0)
        cluster.settle()

    async def followed() -> list[Event]:
        decoder, found = EventDecoder(), list[Event]()
        reads = ViewReads(ORDERS, cluster.nodes["b1"].context)
        events = Changes(reads, b"k", None, BacklogBudget()).events()
        for step in (None, (2, b"2", True), (3, b"[", False)):
            if step is not None:
                write(*step)
            found += decoder.feed(await anext(events))
        await events.aclose()
        return found

    write(0, b"1")
    write(1, b"{", False)
    first, second, third = map(event, asyncio.run(followed()))
    assert first == ("unreadable", "0:1", {"key": "k", "unreadable": {"partition": 0, "offset": 1}})
    assert second == ("value", "0:2", {"key": "k", "value": 2})
    assert third == ("unreadable", "0:3", {"key": "k", "unreadable": {"partition": 0, "offset": 3}})
    cluster.close()

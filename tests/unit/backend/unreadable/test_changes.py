"""The changes of a key, one of which is not in the view's format."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from backend.queries.change_backlog import BacklogBudget
from backend.queries.changes import Changes
from backend.queries.point import ViewReads
from model.views import View
from queryable.client.protocol.stream_decoders import Event, EventDecoder
from tests.support.in_process.cluster import Cluster
from tests.support.in_process.examples import ORDERS, view
from tests.support.reference.tables import Record
from tests.unit.backend.unreadable.test_answers import ODD


def event(event: Event) -> tuple[str, str, Any]:
    document = json.loads("\n".join(event.data))
    if "unreadable" in document:
        assert document["unreadable"].pop("reason")
    return event.kind, event.id, document


Step = tuple[int, bytes, bool]
"""Offset and value of a record, and whether its value can be read."""


def followed(folder: Path, of: View, before: list[Step], after: list[Step]) -> list[Event]:
    """The events of the key: what it is after the records `before`, and each record `after`."""
    cluster = Cluster(folder, of, 1, 1)
    cluster.place([0])

    def write(offset: int, value: bytes, sound: bool) -> None:
        record = Record(offset, b"k", (), value, 10 + offset, sound, is_of_value=not sound)
        cluster.write(record, 0)
        cluster.settle()

    async def follow() -> list[Event]:
        decoder = EventDecoder()
        reads = ViewReads(of, cluster.nodes["b1"].context)
        events = Changes(reads, b"k", None, BacklogBudget()).events()
        found = list(decoder.feed(await anext(events)))
        for step in after:
            write(*step)
            found += decoder.feed(await anext(events))
        await events.aclose()
        return found

    for step in before:
        write(*step)
    events = asyncio.run(follow())
    cluster.close()
    return events


def test_an_unreadable_value_is_an_event_of_its_own(tmp_path: Path) -> None:
    before = [(0, b"1", True), (1, b"{", False)]
    found = followed(tmp_path, ORDERS, before, [(2, b"2", True), (3, b"[", False)])
    first, second, third = map(event, found)
    assert first == ("unreadable", "0:1", {"key": "k", "unreadable": {"partition": 0, "offset": 1}})
    assert second == ("value", "0:2", {"key": "k", "value": 2})
    assert third == ("unreadable", "0:3", {"key": "k", "unreadable": {"partition": 0, "offset": 3}})


def test_reasons_with_half_of_a_surrogate_pair(tmp_path: Path) -> None:
    """Regression: the stream broke off."""
    for each in followed(tmp_path, view(value=ODD), [(0, b"\xff", False)], [(1, b"\xff", False)]):
        document = json.loads("\n".join(each.data))
        assert document["unreadable"]["reason"] == r"unknown code \udcff"

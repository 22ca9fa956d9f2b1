"""Tests that a page of a key's history reads a bounded number of entries and bytes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from backend.http.responses import history_body
from backend.queries import history as histories
from backend.queries.history import History, Span
from backend.queries.routing import ReadOptions
from tests.support.in_process.examples import HISTORIES, view
from tests.unit.model.kinds.one_partition import FedPartition, fed_partition, record

COUNT = 60


def pages(partition: FedPartition, **span: Any) -> list[list[Any]]:
    """The items of each page of a history."""
    history = History(partition.instance.reads)
    items, cursor = [], None
    while True:
        _, page = history.read(b"a", ReadOptions(), Span(cursor=cursor, **span))
        document = json.loads(history_body(history.view, b"a", page))
        items.append(document["items"])
        cursor = document["next"]
        if cursor is None:
            return items
        assert len(items) <= COUNT + 1, "endless pages"


def feed_entries(partition: FedPartition, store: str) -> None:
    """Every third version is a tombstone. Sessions overlap, and later ones start earlier."""
    partition.feed(
        [
            record(store, n, "a", 1000 + n, COUNT - n if store == "session" else 0,
                   None if store == "versioned" and n % 3 == 0 else n)
            for n in range(COUNT)
        ]
    )  # fmt: skip


@pytest.mark.parametrize("descending", [False, True], ids=["asc", "desc"])
@pytest.mark.parametrize("store", HISTORIES)
@pytest.mark.parametrize("bound", ["MAX_EXAMINED", "MAX_PAGE_BYTES"])
def test_short_pages_have_the_items_of_a_long_one(
    store: str, descending: bool, bound: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with fed_partition(
        view(store=store, window_size=10 if store == "window" else None)
    ) as partition:
        feed_entries(partition, store)
        for span in ({}, {"last": 20}, {"first": 1020, "last": 1040}, {"limit": 3}):
            more: dict[str, Any] = {"limit": 1000, **span, "descending": descending}
            monkeypatch.undo()
            whole = [item for page in pages(partition, **more) for item in page]
            monkeypatch.setattr(histories, bound, 2)
            short = pages(partition, **more)
            assert [item for page in short for item in page] == whole
            assert all(len(page) <= 2 for page in short)


def test_a_page_ends_after_the_limit_even_if_no_entry_matches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A key with a million sessions, none of which matches, must not block the event loop."""
    monkeypatch.setattr(histories, "MAX_EXAMINED", 20)
    with fed_partition(view(store="session")) as partition:
        feed_entries(partition, "session")
        assert pages(partition, last=-1) == [[], [], []]

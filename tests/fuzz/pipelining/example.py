"""Views of every kind of store, their records, and the values that answers must have.

Keys are `k0`, `k1`, … Each value names its view, its key, and its place in the history.
"""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Iterator, Mapping
from typing import Any

from model.partitioner import partition_of
from tests.support.deployment import views_toml
from tests.support.plugins.fixtures import MakeTopic
from tests.support.topics import Writer

KEYS = 200
PARTITIONS = 4
HISTORY = 3  # windows, sessions and versions of each key
SECOND = 1000  # ms
HALF = SECOND // 2  # the length of a session
# brokers delete by record time, so it must not be too long ago
BASE = int(time.time()) * SECOND - 3600 * SECOND

ORDERS, GLOBAL, WINDOWS, SESSIONS, VERSIONS = (
    "orders", "everywhere", "windows", "sessions", "versioned",
)  # fmt: skip
NOTES, CUSTOM, PRICES, NEW_PRICES = "notes", "known", "prices", "prices@2"
VIEWS: Mapping[str, Mapping[str, str]] = {
    ORDERS: {"path": "/orders"},
    GLOBAL: {"store": "global"},
    WINDOWS: {"store": "window", "window_size": "1s"},
    SESSIONS: {"store": "session"},
    VERSIONS: {"store": "versioned"},
    NOTES: {"append": "on"},
    CUSTOM: {"store": "backend.storage.bloom_filter:BloomFilter", "persistence": "memory"},
    PRICES: {},
    NEW_PRICES: {},
}
OF_VALUES = (ORDERS, GLOBAL, VERSIONS, PRICES, NEW_PRICES)
"""Views with one value for each key, and scans."""
OF_HISTORY = (WINDOWS, SESSIONS, VERSIONS)
# so that no two counts are the same
EXTRA = {ORDERS: 1, GLOBAL: 2, VERSIONS: 3, PRICES: 4, NEW_PRICES: 5}
"""Further keys of a view, behind all others."""

SORTED = sorted(f"k{number}" for number in range(KEYS))


def start(number: int, at: int) -> int:
    """Of a window, session or version of a key, in ms. Those of two keys do not overlap."""
    return BASE + (number * HISTORY + at) * SECOND


def value(view: str, number: int, at: int = HISTORY - 1) -> dict[str, Any]:
    return {"of": view, "id": number, "at": at}


def record_value(view: str, number: int, at: int = HISTORY - 1) -> bytes:
    return json.dumps(value(view, number, at)).encode()


def window(number: int, at: int) -> dict[str, Any]:
    """As an item of an answer."""
    began = start(number, at)
    end = began + SECOND
    return {"start": began, "end": end, "sequence": 0, "value": value(WINDOWS, number, at)}


def session(number: int, at: int) -> dict[str, Any]:
    """As an item of an answer."""
    began = start(number, at)
    return {"start": began, "end": began + HALF, "value": value(SESSIONS, number, at)}


def version(number: int, at: int) -> dict[str, Any]:
    """As an item of an answer."""
    valid_to = None if at == HISTORY - 1 else start(number, at + 1)
    valid_from = start(number, at)
    return {"valid_from": valid_from, "valid_to": valid_to, "value": value(VERSIONS, number, at)}


ITEM_OF = {WINDOWS: window, SESSIONS: session, VERSIONS: version}


def entries(view: str) -> int:
    """How many entries a count of the view finds."""
    each = HISTORY if view in (WINDOWS, SESSIONS) else 1
    return each * KEYS + EXTRA.get(view, 0)


def home(key: bytes) -> int:
    """The partition of a key."""
    return int(partition_of("murmur2")(key, PARTITIONS))


def base_of(view: str) -> str:
    """The name of a view without its version, as in scopes and paths."""
    return view.partition("@")[0]


class Topics:
    """The topics of the views, with their records."""

    def __init__(self, make_topic: MakeTopic, writer: Writer) -> None:
        self.of = {view: make_topic(PARTITIONS) for view in VIEWS}
        for view, topic in self.of.items():
            writer.send_timed(topic, _records(view))

    @property
    def views_toml(self) -> str:
        return text_of_views(self.of)


def text_of_views(topics: Mapping[str, str]) -> str:
    """The text of views.toml."""
    return views_toml(
        **{json.dumps(view): {"topic": topics[view], **VIEWS[view]} for view in VIEWS}
    ) + (f'\n[views.{ORDERS}.fields]\nid = "int?"\n[views.{ORDERS}.indexes]\nby-id = ["id"]\n')


def _records(view: str) -> Iterator[tuple[bytes, bytes | None, int, int]]:
    if view == NOTES:
        return
    for number in range(KEYS):
        key = b"k%d" % number
        for at in range(HISTORY) if view in OF_HISTORY else (HISTORY - 1,):
            time_ = start(number, at)
            yield (
                key + _suffix(view, time_),
                record_value(view, number, at),
                time_ + (HALF if view == SESSIONS else 0),
                home(key),
            )
    for number in range(EXTRA.get(view, 0)):
        key = b"more%d" % number
        yield key, json.dumps({"of": view}).encode(), BASE, home(key)


def _suffix(view: str, began: int) -> bytes:
    """Of the record key, as in the changelogs of Kafka Streams."""
    if view == WINDOWS:
        return struct.pack(">qi", began, 0)
    return struct.pack(">qq", began + HALF, began) if view == SESSIONS else b""

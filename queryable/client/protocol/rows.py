"""Decodes rows of answers from JSON."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Mapping
from typing import Any

from queryable.client.protocol.answers import (
    DatedEntry,
    Entry,
    Header,
    Session,
    Unreadable,
    Version,
    Window,
)
from queryable.client.protocol.views import View

ALL_KEYS: Any = type("AllKeys", (), {"__repr__": lambda _: "ALL_KEYS"})()
"""Passed as the key, selects the windows or sessions of all keys."""


def value_from_json(view: View, item: Mapping[str, Any]) -> Any:
    """The value of a row, an item of a batch, or a change; it may be Unreadable."""
    if "unreadable" in item:
        return Unreadable.from_json(item["unreadable"])
    return view.value.from_json(item["value"])


def headers_from_json(items: Iterable[Mapping[str, Any]] | None) -> list[Header] | None:
    """The headers of a record."""
    if items is None:
        return None
    headers: list[Header] = []
    for item in items:
        value = item["value"]
        if value is not None:
            value = value["text"].encode() if "text" in value else b64decode(value["base64"])
        headers.append((item["name"], value))
    return headers


def dated_entry_from_json(view: View, item: Mapping[str, Any]) -> DatedEntry:
    return DatedEntry(*entry_from_json(view, item), item["timestamp"])


def entry_from_json(view: View, item: Mapping[str, Any]) -> Entry:
    return Entry(view.key.key_from_json(item["key"]), value_from_json(view, item))


def window_from_json(view: View, item: Mapping[str, Any], key: Any = ALL_KEYS) -> Window:
    """`key`: the key of the request, which the items of one key do not have."""
    return Window(
        view.key.key_from_json(item["key"]) if key is ALL_KEYS else key,
        item["start"],
        item["end"],
        item["sequence"],
        value_from_json(view, item),
    )


def window_position(window: Window) -> tuple[int, int]:
    """The sort key of windows of one key."""
    return window.start, window.sequence


def session_from_json(view: View, item: Mapping[str, Any], key: Any = ALL_KEYS) -> Session:
    """`key`: see `window_from_json`."""
    return Session(
        view.key.key_from_json(item["key"]) if key is ALL_KEYS else key,
        item["start"],
        item["end"],
        value_from_json(view, item),
    )


def session_position(session: Session) -> tuple[int, int]:
    """The sort key of sessions of one key."""
    return session.end, session.start


def version_from_json(view: View, item: Mapping[str, Any], key: Any) -> Version:
    return Version(key, item["valid_from"], item["valid_to"], value_from_json(view, item))


def version_position(version: Version) -> tuple[int, int]:
    """The sort key of versions of one key."""
    return version.valid_from, 0

"""What several calls are made of: parameters, and the rows that answers have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from queryable.core.answers import Entry, Session, Source, Version, Window
from queryable.core.core import Core
from queryable.core.effects import Call
from queryable.core.errors import BadUse
from queryable.core.pages import PAGE
from queryable.core.parameters import Order, Parameters, Span, Stale
from queryable.core.views import View

ALL_KEYS: Any = type("AllKeys", (), {"__repr__": lambda _: "ALL_KEYS"})()
"""In place of a key: the windows or sessions of all of them."""


def fresh_parameters(
    core: Core,
    described: View,
    stale: Stale | None,
    max_lag: int | None,
    max_staleness: Span | None,
) -> Parameters:
    offsets = core.offsets
    return (
        Parameters()
        .add("min_offset", None if offsets is None else offsets.of(described.topic))
        .add("stale", stale)
        .add("max_lag", max_lag)
        .add_span("max_staleness", max_staleness)
    )


def note_seen(core: Core, described: View, source: Source) -> None:
    if (offsets := core.offsets) is not None:
        offsets.read(described.topic, source.partition, source.position)


def target_of_key(described: View, key: Any, below: str, query: Parameters) -> str:
    segment, is_base64 = described.key.segment(key)
    if is_base64:
        query.add("encoding", "base64url")
    return query.after(f"/views/{described.name}/keys/{segment}{below}")


def anybody(_: float) -> Call[tuple[str, ...]]:
    return ()
    yield


def check_page(page: int, limit: int | None) -> None:
    if not 1 <= page <= PAGE:
        raise BadUse(f"page={page} is not within 1 to {PAGE}.")
    if limit is not None and limit < 0:
        raise BadUse(f"limit={limit} is less than 0.")


def prefix_text(described: View, prefix: str | bytes) -> str:
    if described.key.name not in ("string", "bytes"):
        raise BadUse(f"Keys of {described.key.name} have no prefix.")
    return described.key.parameter(prefix)


def can_resume(described: View) -> bool:
    """Whether the very key that has come can be named as a bound: of documents every byte counts,
    NaN has many forms, and the digits of a UUID may be capitals."""
    return described.key.name in ("string", "bytes", "int32", "int64")


def narrowed(order: Order, first: Any, end: Any, last: Any) -> tuple[Any, Any]:
    if last is None:
        return first, end
    return (last.key, end) if order == "asc" else (first, last.key)


def same_key(item: Entry, last: Entry) -> bool:
    return bool(item.key == last.key)


def entry_of(described: View, item: Mapping[str, Any]) -> Entry:
    return Entry(described.key.from_json(item["key"]), described.value.from_json(item["value"]))


def window_of(described: View, item: Mapping[str, Any], key: Any = ALL_KEYS) -> Window:
    return Window(
        described.key.from_json(item["key"]) if key is ALL_KEYS else key,
        item["start"],
        item["end"],
        item["sequence"],
        described.value.from_json(item["value"]),
    )


def place_of_window(item: Window) -> tuple[int, int]:
    return item.start, item.sequence


def session_of(described: View, item: Mapping[str, Any], key: Any = ALL_KEYS) -> Session:
    return Session(
        described.key.from_json(item["key"]) if key is ALL_KEYS else key,
        item["start"],
        item["end"],
        described.value.from_json(item["value"]),
    )


def place_of_session(item: Session) -> tuple[int, int]:
    return item.end, item.start


def version_of(described: View, item: Mapping[str, Any], key: Any = ALL_KEYS) -> Version:
    return Version(
        key, item["valid_from"], item["valid_to"], described.value.from_json(item["value"])
    )


def place_of_version(item: Version) -> tuple[int, int]:
    return item.valid_from, 0

"""The messages of `queryable serve` about views whose records cannot be read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from local import http
from local.settings import StackSettings
from model.views import View

_MAX_SHOWN = 60  # characters of a key or a value


def unreadable_lines(settings: StackSettings, views: Iterable[View]) -> Iterator[str]:
    """Sentences for people about each view that has unreadable records."""
    for view in views:
        counts = _counts(settings, view)
        if counts is not None and (counts["keys"] or counts["values"]):
            yield from sentences(view, counts, _newest_letter(settings, view))


def sentences(
    view: View, counts: Mapping[str, int], letter: Mapping[str, Any] | None
) -> Iterator[str]:
    """Sentences about one view. `counts`: the numbers of records with unreadable `keys` and
    `values`, of the view's `entries` (-1: unknown), and of the `refused` ones among them.
    `letter`: the newest dead letter, as in `GET /admin/views/{view}/dead-letters`."""
    keys, values = counts["keys"], counts["values"]
    entries = counts["entries"]
    if keys and entries == 0:
        yield f"view {view.name} has no entry: all of its {keys:,} records have an unreadable key"
    elif keys:
        yield f"view {view.name}: {keys:,} records have an unreadable key, and are in no answer"
    if values and counts["refused"] == entries:
        yield f"view {view.name}: the value of each of its {entries:,} entries is unreadable"
    elif values:
        yield f"view {view.name}: {values:,} records have an unreadable value"
    yield f'  expected: key = "{view.key}", value = "{view.value}"'
    if letter is not None:
        yield f"  the newest has the key {_shown(letter['key'])}, the value " + (
            f"{_shown(letter['value'])}, and is refused because of its {letter['reason']}"
        )
    yield f"  they are in the topic {view.topic}.dead-letter; `queryable check` looks at more"


def _counts(settings: StackSettings, view: View) -> dict[str, int] | None:
    """The counts of the whole view; None if no instance reports them."""
    document = _document(settings, "/admin/topology.json")
    for entry in () if document is None else document["views"]:
        if entry["name"] == view.name:
            partitions = entry["placement"]
            keys, values = (
                sum(partition.get(name) or 0 for partition in partitions)
                for name in ("unreadable_keys", "unreadable_values")
            )
            return {"keys": keys, "values": values, **_entries(settings, view)}
    return None


def _entries(settings: StackSettings, view: View) -> dict[str, int]:
    document = _document(settings, f"/views/{view.name}/count")
    if document is None or not document["exact"]:
        return {"entries": -1, "refused": 0}
    return {"entries": document["count"], "refused": document.get("unreadable", 0)}


def _newest_letter(settings: StackSettings, view: View) -> dict[str, Any] | None:
    document = _document(settings, f"/admin/views/{view.name}/dead-letters?limit=1")
    items: list[dict[str, Any]] = [] if document is None else document["items"]
    return items[0] if items else None


def _document(settings: StackSettings, target: str) -> Any:
    """The JSON document; None if the token does not allow it, or there is no answer."""
    answer = http.get(settings.url + target, headers=settings.headers)
    return json.loads(answer.body) if answer.status == 200 else None


def _shown(content: Mapping[str, Any] | None) -> str:
    if content is None:
        return "null"
    text = content.get("text")
    shown = f"(base64) {content['base64']}" if text is None else json.dumps(text, ensure_ascii=True)
    return shown if len(shown) <= _MAX_SHOWN else f"{shown[:_MAX_SHOWN]}…"

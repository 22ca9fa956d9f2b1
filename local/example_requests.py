"""A request for a real entry of a view, as an example for people."""

from __future__ import annotations

from itertools import islice
from typing import Any

from local import http
from local.settings import StackSettings
from model.http.answers import Answer
from model.kinds.registry import kind_of
from queryable import ALL_KEYS, Client, View


def example_request(
    settings: StackSettings, client: Client, name: str
) -> tuple[str, Answer] | None:
    """The target of a request and its answer, which has status 200; None if the view has no entry.

    Raises QueryableError.
    """
    view = client.view(name)
    keys = _first_key(client, view)
    if not keys:
        return None
    segment, is_base64 = view.key.path_segment(keys[0])
    kind = kind_of(view.store)
    target = f"{view.path or f'/views/{view.name}/keys'}/{segment}"
    parameters = ["encoding=base64url"] if is_base64 else []
    if not kind.has_points:
        target += f"/{kind.history}"
        parameters += ["order=desc", "limit=1"]
    target += f"?{'&'.join(parameters)}" if parameters else ""
    answer = http.get(settings.url + target, headers=settings.headers)
    return (target, answer) if answer.status == 200 else None


def _first_key(client: Client, view: View) -> list[Any]:
    """The first key of the view, in a list; an empty list if there is none."""
    match kind_of(view.store).resource:
        case "windows":
            return [row.key for row in islice(client.windows(view.name, ALL_KEYS, limit=1), 1)]
        case "sessions":
            return [row.key for row in islice(client.sessions(view.name, ALL_KEYS, limit=1), 1)]
        case "keys":
            return [row.key for row in islice(client.scan(view.name, limit=1), 1)]
    return []

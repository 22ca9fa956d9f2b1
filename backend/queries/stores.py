"""Which queries a view's kind of store can answer."""

from __future__ import annotations

from model.problems import BadRequest
from model.views import View

KEYS, WINDOWS, SESSIONS = "keys", "windows", "sessions"
"""What a page lists, and the last segment of its path."""


def refuse_custom(view: View) -> None:
    """Raises BadRequest if the view's store is a class, which answers reads by key only."""
    if view.is_custom:
        raise BadRequest(
            "wrong-store", f"View {view.name} has a custom store, which answers reads by key only."
        )


def refuse_store(view: View, resource: str) -> None:
    """Raises BadRequest if the view's store has no such entries."""
    refuse_custom(view)
    if view.kind.resource != resource:
        raise BadRequest(
            "wrong-store",
            f"View {view.name} has a {view.store} store: "
            f"GET /views/{view.name}/{view.kind.resource}.",
        )

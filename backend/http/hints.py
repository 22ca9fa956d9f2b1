"""Hints for requests with an unknown path: which path was probably meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from backend.admin.document import PATH as ADMIN
from model.views import View

_LISTED = "GET /views lists the views and their paths."


def hint(path: str, views: Iterable[View]) -> str:
    """A sentence for the error: what to request instead of `path`. `views`: the current version of
    each view."""
    if path == "/":
        return f"The admin page is {ADMIN}. {_LISTED}"
    by_path = {view.path: view for view in views if view.path is not None}
    view = by_path.get(path.rstrip("/"))
    if view is not None:
        return (
            f"{view.path}/KEY is the path of a key. GET /views/{view.base}/keys reads the keys of "
            f"view {view.base}."
        )
    above, _, key = path.rpartition("/")
    same_depth = [path for path in by_path if path.count("/") == above.count("/")]
    similar = get_close_matches(above, same_depth, 1)
    return f"Did you mean {similar[0]}/{key}? {_LISTED}" if similar and key else _LISTED

"""All queries of a whole view. A new one is a module next to this one, and a line here."""

from __future__ import annotations

from backend.queries.whole_view.aggregate import AGGREGATE
from backend.queries.whole_view.count import COUNT
from backend.queries.whole_view.top import TOP
from backend.queries.whole_view.view_query import ViewQuery

VIEW_QUERIES: tuple[ViewQuery, ...] = (
    COUNT,
    TOP,
    AGGREGATE,
)

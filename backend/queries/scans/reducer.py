"""Reduces the entries of a partition to the little that a query needs of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from backend.wire.scan import ScanResponse
from model.rows.row_view import Pair
from model.views import View


class Reducer(Protocol):
    """Reduces entries in bounded memory."""

    def add(self, pairs: list[Pair]) -> None:
        """The next entries in key order: stored keys with entries, without tombstones."""

    async def fill(self, response: ScanResponse) -> None:
        """Put the result into `response`: `counted`, or up to `ScanRequest.limit` rows."""


NewReducer = Callable[[View, Mapping[str, Any]], Reducer]
"""Creates a reducer from a view and `ScanRequest.arguments`. Raises ValueError if the arguments are
malformed, BadRequest if the query does not apply to the view."""

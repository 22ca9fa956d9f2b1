"""The values of a view as Python values: for queries of whole views, and for indexes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson

from model.formats.json_decoder import decode_json, with_long_integers
from model.rows.row_view import RowView


class Documents:
    """Parses the values of a view."""

    def __init__(self, view: RowView, long_integers: bool = True) -> None:
        """`long_integers`: integers of any size are exact. If not, those of more than 64 bits may
        be floats, which takes a third less time."""
        self._long_integers = long_integers
        self._as_json = None if view.value_codec.is_json else view.value_codec.to_json

    def parse(self, values: Iterable[bytes]) -> list[object]:
        """Record bytes as Python values. Raises ValueError."""
        documents = list(values) if self._as_json is None else list(map(self._as_json, values))
        together = b"[%b]" % b",".join(documents)
        try:
            # as one document: a fifth less work than one by one
            parsed: list[object] = orjson.loads(together)
        except orjson.JSONDecodeError:
            # orjson refuses some JSON, and a document of the greatest depth is one deeper here
            return list(map(parse_exactly, documents))
        if not self._long_integers:
            return parsed
        for index in with_long_integers(documents, together):
            parsed[index] = parse_exactly(documents[index])
        return parsed


def parse_exactly(document: bytes) -> Any:
    """The document with integers of any size. Raises ValueError."""
    return decode_json(document)

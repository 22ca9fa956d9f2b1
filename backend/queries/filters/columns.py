"""The parts of entries that queries compare and group by, as one list for each part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from backend.queries.filters.names import KEY, ROW, START, TIME_OF_RECORD
from model.formats.json_decoder import decode_json
from model.records import ENTRY_HEAD_SIZE, entry_time
from model.rows.documents import Documents
from model.rows.row_view import Pair
from model.views import View


class Columns:
    """Reads the variables of `names` from entries whose values can be read."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._documents = Documents(view)
        self._key = _reader_of_keys(view)

    def read(self, variable: str, pairs: Sequence[Pair]) -> list[Any]:
        """The variable's value for each entry: a document, a key, or a time in ms since 1970 (None
        if there is none)."""
        if variable == ROW:
            return self._documents.parse([stored[ENTRY_HEAD_SIZE:] for _, stored in pairs])
        if variable == TIME_OF_RECORD:
            return [entry_time(stored) for _, stored in pairs]
        entry_keys = [self._view.kind.row_key(self._view, key, False) for key, _ in pairs]
        if variable == KEY:
            return [self._key(entry_key.key) for entry_key in entry_keys]
        if variable == START:
            return [entry_key.start for entry_key in entry_keys]
        return [self._view.kind.end_of(self._view, entry_key) for entry_key in entry_keys]


def _reader_of_keys(view: View) -> Callable[[bytes], Any]:
    to_json = view.key_codec.to_json
    if view.key_codec.is_text:
        return bytes.decode
    return lambda key: decode_json(to_json(key))

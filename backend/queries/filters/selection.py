"""The fields that an answer has of each value: the parameter `select`."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import cast

import orjson

from backend.queries.filters.names import path_of_value
from model.records import ENTRY_HEAD_SIZE, is_tombstone, is_unreadable
from model.rows.json_members import members
from model.rows.row_view import Pair
from model.rows.unreadable import item_of, settle_now
from model.views import View

MAX_SELECTED = 100
_NULL = b"null"


class Selection:
    """Renders items whose values are objects with the selected fields, in this order. A field that
    is missing is null. All bytes of a field's value stay as they are."""

    def __init__(self, view: View, text: str) -> None:
        """`text`: names, separated by commas. Raises ValueError."""
        if not view.value_codec.is_document:
            raise ValueError(f"it names fields, and {view.value} values have none")
        names = split_names(text)
        if not 1 <= len(names) <= MAX_SELECTED:
            raise ValueError(f"it has {len(names)} names; 1 to {MAX_SELECTED} are allowed")
        paths = [path_of_value(name) for name in names]
        self._paths = [(orjson.dumps(".".join(path)), path) for path in paths]
        if len({name for name, _ in self._paths}) < len(names):
            raise ValueError("a name is in it twice")
        self._to_json = view.value_codec.to_json
        self._view = view
        self._render = view.kind.render(view.as_json)
        self._plain = view.kind.render(view)

    def items(self, pairs: Sequence[Pair]) -> list[bytes]:
        """The JSON items of entries; that of a tombstone is empty."""
        if any(stored[8] >= 0x80 for _, stored in pairs):
            return [self._item(pair) for pair in pairs]
        return self._render([(key, self._selected(stored)) for key, stored in pairs])

    def _item(self, pair: Pair) -> bytes:
        key, stored = pair
        if is_tombstone(stored):
            return b""
        if is_unreadable(stored):
            settled = settle_now(self._view, stored)
            if not isinstance(settled, bytes):
                return item_of(self._view, self._plain, pair)
            stored = settled
        [item] = self._render([(key, self._selected(stored))])
        return item

    def _selected(self, stored: bytes) -> bytes:
        """The entry with a document that has the selected fields alone."""
        document = self._to_json(stored[ENTRY_HEAD_SIZE:])
        by_path: dict[tuple[str, ...], dict[str, bytes]] = {(): members(document)}
        selected = []
        for name, path in self._paths:
            value = _NULL
            for depth, member in enumerate(path):
                outer = path[:depth]
                if outer not in by_path:
                    by_path[outer] = members(value)
                value = by_path[outer].get(member, _NULL)
            selected.append(b"%b:%b" % (name, value))
        return stored[:ENTRY_HEAD_SIZE] + b"{%b}" % b",".join(selected)


def split_names(text: str) -> list[str]:
    """The names between commas that are not in quotes."""
    names: list[str] = []
    name, is_quoted = "", False
    for character in text:
        if character == '"':
            is_quoted = not is_quoted
        if character == "," and not is_quoted:
            names.append(name.strip())
            name = ""
        else:
            name += character
    return [*names, name.strip()]


@lru_cache(maxsize=64)
def _parsed(view: View, _schemas: Hashable, text: str) -> Selection:
    return Selection(view, text)


def selection_of(view: View, text: str) -> Selection:
    """The selection, which is kept for further requests. Raises ValueError."""
    return _parsed(view, cast(Hashable, view.schemas), text)

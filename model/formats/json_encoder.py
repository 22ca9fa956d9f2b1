"""Encodes JSON documents with any number of levels, and with integers of any size."""

from __future__ import annotations

import json
from typing import Any

import orjson


def encode_json(document: object, sorted_: bool = False) -> bytes:
    """JSON text without spaces. `sorted_`: the members of objects are sorted by name.

    orjson writes 254 levels, and integers of up to 64 bits.
    """
    try:
        return orjson.dumps(document, option=orjson.OPT_SORT_KEYS if sorted_ else None)
    except TypeError:
        pass
    try:
        return json.dumps(document, sort_keys=sorted_, separators=(",", ":")).encode()
    except RecursionError:  # some 1,000 levels, less those of the callers
        return without_recursion(document, sorted_)


class _Text(str):
    """A part of a document that has been written."""


def without_recursion(document: object, sorted_: bool) -> bytes:
    """The text that `json.dumps` would write, for any number of levels. It takes ten times as
    long."""
    written: list[str] = []
    pending: list[Any] = [document]  # the next part last
    while pending:
        part = pending.pop()
        if type(part) is _Text:
            written.append(part)
        elif part and isinstance(part, dict):
            pending.append(_Text("}"))
            for name in sorted(part, reverse=True) if sorted_ else reversed(part):
                pending += (part[name], _Text(f",{json.dumps(name)}:"))
            pending[-1] = _Text("{" + pending[-1][1:])
        elif part and isinstance(part, list):
            pending.append(_Text("]"))
            for item in reversed(part):
                pending += (item, _Text(","))
            pending[-1] = _Text("[")
        else:
            written.append(json.dumps(part))
    return "".join(written).encode()

"""Parses raw paths into a view and a key.

The path is split first and each part percent-decoded once, so `a%2Fb` is one key and `%2561` is
the key `%61`. The proxy does the same in Lua (proxy/query.lua).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from model.problems import BadRequest
from model.views import View

_ABSOLUTE_FORM = re.compile(rb"(?i:https?)://[^/]+(/.*)?", re.DOTALL)
_BAD_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")


class KeyPath(NamedTuple):
    """A path that names a key: the view, the key's percent-decoded bytes, and the rest after it."""

    view: View
    text: bytes
    rest: bytes


class Paths:
    """The paths of keys: `/views/{view}/keys/{key}`, and `{path}/{key}` of views with a path."""

    def __init__(self, views: Iterable[View]) -> None:
        self._by_prefix: dict[bytes, View] = {}
        for view in views:
            self._by_prefix[f"/views/{view.name}/keys/".encode()] = view
            if view.path is not None:
                self._by_prefix[f"{view.path}/".encode()] = view
        self._by_plain_prefix = {p[:-1]: view for p, view in self._by_prefix.items()}
        # the longest prefix wins, so it is tried first
        self._depths = sorted({p.count(b"/") for p in self._by_prefix}, reverse=True)

    @property
    def prefixes(self) -> dict[bytes, View]:
        """Path before a key, without the last slash and not percent-encoded -> view."""
        return self._by_plain_prefix

    def key_path(self, raw_path: bytes) -> KeyPath | None:
        """The key in `raw_path` (percent-encoded, without the query); None if it has none.

        BadRequest if the key has a percent sign that is not followed by two hexadecimal digits.
        """
        plain, _, text = raw_path.rpartition(b"/")
        view = self._by_plain_prefix.get(plain)
        if view is not None and b"%" not in text:
            return KeyPath(view, text, b"")
        for depth in self._depths:
            parts = raw_path.split(b"/", depth)
            if len(parts) <= depth:
                continue
            tail = parts.pop()
            prefix = b"/".join(parts) + b"/"
            if b"%" in prefix:
                prefix = unquote_to_bytes(prefix)
                if prefix.count(b"/") != depth:
                    continue  # an encoded slash belongs to a name, and no name has one
            view = self._by_prefix.get(prefix)
            if view is None:
                continue
            key, _, rest = tail.partition(b"/")
            return KeyPath(view, _decoded(key) if b"%" in key else key, rest)
        return None


def of_absolute_form(target: bytes) -> bytes | None:
    """The raw path of `http://host:port/path`, which a proxy may send (RFC 9112, 3.2.2); None for
    any other target."""
    found = _ABSOLUTE_FORM.fullmatch(target)
    return None if found is None else found[1] or b"/"


def _decoded(key: bytes) -> bytes:
    if bad := _BAD_ESCAPE.search(key):
        raise BadRequest(
            "path-undecodable",
            f"The percent sign at byte {bad.start()} of the key is not followed by two hexadecimal "
            f"digits. Write %25 for a percent sign.",
        )
    return unquote_to_bytes(key)

"""Parses raw paths into a view and a key.

The path is split first and each part percent-decoded once, so `a%2Fb` is one key and `%2561` is
the key `%61`. The proxy does the same in Lua (proxy/query.lua).
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from model.problems import BadRequest, Unavailable
from model.versions import Versions
from model.views import View

_ABSOLUTE_FORM = re.compile(rb"(?i:https?)://[^/]+(/.*)?", re.DOTALL)
_BAD_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")


class KeyPath(NamedTuple):
    """A path that names a key: the view, the key's percent-decoded bytes, and the rest after it."""

    view: View
    text: bytes
    rest: bytes


class Paths:
    """The paths of keys: `/views/{view}/keys/{key}`, and `{path}/{key}` of views with a path.

    It is made again when another version of a view becomes current.
    """

    def __init__(self, versions: Versions) -> None:
        self._by_prefix: dict[bytes, View] = {}
        self._undecided: dict[bytes, str] = {}
        for name, view in versions.named.items():
            for prefix in _prefixes(name, versions):
                self._by_prefix[prefix] = view
        for name in versions.undecided:
            self._undecided |= dict.fromkeys(_prefixes(name, versions), name)
        self._by_plain_prefix = {p[:-1]: view for p, view in self._by_prefix.items()}
        prefixes = (*self._by_prefix, *self._undecided)
        # the longest prefix wins, so it is tried first
        self._depths = sorted({p.count(b"/") for p in prefixes}, reverse=True)

    @property
    def prefixes(self) -> dict[bytes, View]:
        """Path before a key, without the last slash and not percent-encoded -> view."""
        return self._by_plain_prefix

    def key_path(self, raw_path: bytes) -> KeyPath | None:
        """The key in `raw_path` (percent-encoded, without the query); None if it has none.

        BadRequest if the key has a percent sign that is not followed by two hexadecimal digits;
        Unavailable if the current version of the view is not known.
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
                if prefix in self._undecided:
                    raise undecided(self._undecided[prefix])
                continue
            key, _, rest = tail.partition(b"/")
            return KeyPath(view, _decoded(key) if b"%" in key else key, rest)
        return None


def _prefixes(name: str, versions: Versions) -> list[bytes]:
    """The paths before a key of the view with this name in requests."""
    path = versions.paths.get(name)
    return [f"/views/{name}/keys/".encode(), *([] if path is None else [f"{path}/".encode()])]


def check_escapes(raw_path: bytes) -> None:
    """BadRequest for what nginx does not take, so that backends and nginx answer alike."""
    if bad := _BAD_ESCAPE.search(raw_path):
        raise BadRequest(
            "bad-request",
            f"The percent sign before {raw_path[bad.end() : bad.end() + 2].decode('latin-1')!r} is "
            f"not followed by two hexadecimal digits. Write %25 for a percent sign.",
        )
    if b"%00" in raw_path:
        raise BadRequest(
            "bad-request",
            "A path has no NUL byte (%00). Send keys with one with ?encoding=base64url.",
        )


def undecided(name: str) -> Unavailable:
    """The problem of a request for the current version, which this instance does not know."""
    return Unavailable(
        "version-unknown",
        f"This instance does not know the current version of view {name} yet, or its views.toml "
        f"does not declare it. Retry after a second, or name a version, such as {name}@1.",
    )


def of_absolute_form(target: bytes) -> bytes | None:
    """The raw path of `http://host:port/path`, which a proxy may send (RFC 9112, 3.2.2); None for
    any other target."""
    found = _ABSOLUTE_FORM.fullmatch(target)
    return None if found is None else found[1] or b"/"


def _decoded(key: bytes) -> bytes:
    check_escapes(key)
    return unquote_to_bytes(key)

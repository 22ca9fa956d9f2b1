"""Parses raw paths into a view and a key.

The path is split first and each part percent-decoded once, so `a%2Fb` is one key and `%2561` is
the key `%61`. The proxy does the same in Lua (proxy/query.lua).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from model.problems import BadRequest, Problem, Unavailable
from model.view_versions import ViewVersions, base_of
from model.views import View

_ABSOLUTE_FORM = re.compile(rb"(?i:https?)://[^/]+(/.*)?", re.DOTALL)
_BAD_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")


class KeyPath(NamedTuple):
    """A path that names a key: the view, the key's percent-decoded bytes, and the rest after it."""

    view: View
    text: bytes
    rest: bytes


class Elsewhere(Unavailable):
    """The request is about a view that only other instances have, which can answer it: see
    `ViewVersions.elsewhere`.

    `base`: the name of the view without a version; `stored`: the name inside instances. `path`: the
    raw path for another instance; None: the path of the request. `key`: the raw text of the key.
    `rest`: what follows the key. `key` and `rest` are empty if the path has no key.
    """

    def __init__(self, name: str, stored: str) -> None:
        super().__init__(
            "definition-differs",
            f"The views.toml of this instance does not declare view {name} as most instances do. "
            "Others can answer. Retry, or give all instances the same views.toml.",
        )
        self.base, self.stored = base_of(name), stored
        self.path: bytes | None = None
        self.key = self.rest = b""


class Paths:
    """The paths of keys: `/views/{view}/keys/{key}`, and `{path}/{key}` of views with a path.

    It is made again when another version of a view becomes current, and when the topology has other
    views.
    """

    def __init__(self, versions: ViewVersions) -> None:
        self._by_prefix: dict[bytes, View] = {}
        self._elsewhere: dict[bytes, tuple[str, str]] = {}  # name in requests, name in instances
        self._undecided: dict[bytes, Callable[[], Problem]] = {}
        names = {f"/views/{name}/keys/": name for name in _names(versions)}
        names |= {f"{path}/": base for path, base in versions.leads_to.items()}
        for text, name in names.items():
            prefix = text.encode()
            if (view := versions.named.get(name)) is not None:
                self._by_prefix[prefix] = view
            elif name in versions.elsewhere:
                self._elsewhere[prefix] = name, versions.elsewhere[name]
            else:
                self._undecided[prefix] = partial(undecided, name)
        for path in versions.undecided_paths:
            self._undecided[f"{path}/".encode()] = partial(undecided_path, path)
        self._by_plain_prefix = {p[:-1]: view for p, view in self._by_prefix.items()}
        prefixes = (*self._by_prefix, *self._elsewhere, *self._undecided)
        # the longest prefix wins, so it is tried first
        self._depths = sorted({p.count(b"/") for p in prefixes}, reverse=True)

    @property
    def prefixes(self) -> dict[bytes, View]:
        """Path before a key, without the last slash and not percent-encoded -> view."""
        return self._by_plain_prefix

    def key_path(self, raw_path: bytes) -> KeyPath | None:
        """The key in `raw_path` (percent-encoded, without the query); None if it has none.

        Raises BadRequest if the key has a percent sign that is not followed by two hexadecimal
        digits, Elsewhere if other instances have the view, and Unavailable if it is not known which
        view, or which version of it, the path means.
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
                    continue  # the encoded slash would be part of a name, but no name has a slash
            view = self._by_prefix.get(prefix)
            if view is None:
                if prefix in self._elsewhere:
                    raise _elsewhere(*self._elsewhere[prefix], tail)
                if prefix in self._undecided:
                    raise self._undecided[prefix]()
                continue
            key, _, rest = tail.partition(b"/")
            return KeyPath(view, _decoded(key) if b"%" in key else key, rest)
        return None


def _names(versions: ViewVersions) -> tuple[str, ...]:
    return (*versions.named, *versions.elsewhere, *versions.undecided)


def _elsewhere(name: str, stored: str, tail: bytes) -> Elsewhere:
    """The problem of a request for a key. `tail`: the raw text of the key and what follows. Its
    path has the name of the view, because an instance of an older version may use another path."""
    problem = Elsewhere(name, stored)
    problem.path = b"/views/%b/keys/%b" % (name.encode(), tail)
    problem.key, _, problem.rest = tail.partition(b"/")
    return problem


def check_escapes(raw_path: bytes) -> None:
    """Raises BadRequest for escapes that nginx does not accept, so that backends and nginx answer
    alike."""
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


def undecided_path(path: str) -> Unavailable:
    """The problem of a request for a path that leads to no view, or not yet."""
    return Unavailable(
        "path-undecided",
        f"It is not decided which view {path} leads to: instances have different views.toml files. "
        "Use the name of the view, or give all instances the same file.",
    )


def path_of_absolute_form(target: bytes) -> bytes | None:
    """The raw path of `http://host:port/path`, which a proxy may send (RFC 9112, 3.2.2); None for
    any other target."""
    match = _ABSOLUTE_FORM.fullmatch(target)
    return None if match is None else match[1] or b"/"


def _decoded(key: bytes) -> bytes:
    check_escapes(key)
    return unquote_to_bytes(key)

"""Routes, and matching of raw paths to them.

A pattern is a path with variables:

    {view}    the name of a view
    {path}    /views/{view}/keys, and the view's short path, if it has one; only before /{key}
    {key}     one segment, percent-decoded once: a%2Fb is one key
    {...}     one segment of letters, digits and "._-"
    {rest}    the rest of the path, after a key

Fixed paths take precedence over variables. The Flask application gets paths that match no route.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from backend.http.paths import Paths
from backend.http.request import Request
from backend.wire.answer import Answer
from model.views import View

Handler = Callable[[Request], Awaitable[Answer | None]]
"""Returns the answer, or None if it has sent the answer itself; raises Problem."""

_OF_KEY = "{path}/{key}"
_SEGMENT = rb"([A-Za-z0-9._-]{1,249})"


@dataclass(frozen=True)
class Route:
    """One line of the API."""

    methods: tuple[str, ...]
    pattern: str
    handler: Handler
    gate: AbstractContextManager[None]  # limits concurrent requests
    body: int = 0  # max. bytes; 0: the body is not read
    counts_reads: bool = False  # whether refusals count as point reads of the view

    @property
    def is_internal(self) -> bool:
        """Whether only other instances and the proxy use it."""
        return self.pattern.startswith("/internal/")


class Match(NamedTuple):
    """A route and the values of its variables."""

    route: Route
    view: View | None = None
    key: bytes = b""
    more: Mapping[str, str] = {}


@dataclass
class RouteTable:
    """The routes, prepared for matching."""

    routes: tuple[Route, ...]
    paths: Paths
    views: Iterable[View]
    _below_key: dict[bytes, Route] = field(default_factory=dict)
    _with_any_rest: Route | None = None
    _fixed: dict[bytes, Match] = field(default_factory=dict)
    _patterns: list[tuple[re.Pattern[bytes], list[str], Route]] = field(default_factory=list)

    def __post_init__(self) -> None:
        for route in self.routes:
            if route.pattern.startswith(_OF_KEY):
                rest = route.pattern.removeprefix(_OF_KEY).removeprefix("/")
                if rest == "{rest}":
                    self._with_any_rest = route
                else:
                    self._below_key[rest.encode()] = route
            elif "{view}" in route.pattern:
                for view in self.views:
                    path = route.pattern.replace("{view}", view.name).encode()
                    self._fixed[path] = Match(route, view)
            elif "{" in route.pattern:
                names = re.findall(r"{(\w+)}", route.pattern)
                pattern = re.sub(rb"{\w+}", lambda _: _SEGMENT, route.pattern.encode())
                self._patterns.append((re.compile(pattern), names, route))
            else:
                self._fixed[route.pattern.encode()] = Match(route)

    def match(self, raw_path: bytes) -> Match | None:
        """The route of a path, or None; BadRequest if a key cannot be decoded."""
        found = self.paths.key_path(raw_path)
        if found is not None:
            route = self._below_key.get(found.rest, self._with_any_rest)
            if route is None:
                return None
            if not found.rest:
                return Match(route, found.view, found.text)
            return Match(route, found.view, found.text, {"rest": found.rest.decode("latin-1")})
        fixed = self._fixed.get(raw_path)
        if fixed is not None:
            return fixed
        if b"%" in raw_path:
            decoded = unquote_to_bytes(raw_path)
            # an encoded slash belongs to a name, and no name has one
            if decoded.count(b"/") == raw_path.count(b"/") and (
                (fixed := self._fixed.get(decoded)) is not None and fixed.view is not None
            ):
                return fixed
        for pattern, names, route in self._patterns:
            if (values := pattern.fullmatch(raw_path)) is not None:
                more = {n: v.decode() for n, v in zip(names, values.groups(), strict=True)}
                return Match(route, more=more)
        return None

"""Routes, and matching of raw paths to them.

A pattern is a path with variables:

    {view}    the name of a view
    {path}    /views/{view}/keys, and the view's short path, if it has one; only before /{key}
    {key}     one segment, percent-decoded once: a%2Fb is one key
    {topic}   one segment of letters, digits and "._-"
    {field}   with {value}: a field of a view's values, and its value, one segment each
    {...}     one segment, percent-decoded once, such as the id of an instance
    {rest}    the rest of the path, after a key

Fixed paths take precedence over variables. Each route says what its sender needs (`access`).

Pages are the routes that the Flask application answers. They are matched last, against the decoded
path, because Flask sees only the decoded path: an encoded letter must not lead to a page whose
access was not checked. A path that matches nothing else gets the last page, `other`.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from backend.http.access import Access
from backend.http.paths import Elsewhere, Paths, check_escapes, undecided
from backend.http.request import Request
from backend.wire.answer import Answer
from model.problems import Unavailable
from model.view_versions import ViewVersions, base_of
from model.views import View
from model.views_file import RESERVED_SEGMENTS

Handler = Callable[[Request], Awaitable[Answer | None]]
"""Returns the answer, or None if the handler has sent the answer itself. Raises Problem."""

OTHER = "{other}"
"""The pattern of the page that answers all other paths."""

BY_VALUE = "/{field}/{value}"
"""The end of the pattern of the entries with a value of a field."""

_KEY_PATTERN = "{path}/{key}"
_TOPIC = rb"([A-Za-z0-9._-]{1,249})"
_SEGMENT = rb"([^/]{1,1024})"
_VIEW_PATH = re.compile(r"/views/([^/]+)/")


@dataclass(frozen=True)
class Route:
    """One line of the API. `methods`: empty if the handler decides."""

    methods: tuple[str, ...]
    pattern: str
    access: Access
    handler: Handler
    gate: AbstractAsyncContextManager[None]  # limits concurrent requests
    body: int = 0  # max. bytes; 0: the body is not read
    counts_reads: bool = False  # whether refusals count as point reads of the view
    is_page: bool = False  # whether the Flask application answers it

    @property
    def is_internal(self) -> bool:
        """Whether only other instances and the proxy use it."""
        return self.pattern.startswith("/internal/")

    @cached_property
    def label(self) -> str:
        """The name of the route in metrics, the same as in the proxy's metrics
        (proxy/telemetry/routes.lua).

        "key" and "key/windows" for one key, "top" for `/views/{view}/top`, "internal/scan" for what
        instances ask one another, "views" for pages, "other" for unknown paths.
        """
        pattern = self.pattern
        if pattern == OTHER:
            return "other"
        if pattern.startswith(_KEY_PATTERN):
            return pattern.removeprefix("{path}/").replace("{", "").replace("}", "")
        if pattern.startswith("/views/{view}/"):
            return pattern.removeprefix("/views/{view}/").partition("/{")[0]
        if pattern.startswith("/topics/"):
            return "append"
        if self.is_internal:
            return pattern[1:]
        return pattern.split("/")[1].removesuffix(".json")


class Match(NamedTuple):
    """A route and the values of its variables. `base`: the name of a view that this instance does
    not have, without a version."""

    route: Route
    view: View | None = None
    key: bytes = b""
    more: Mapping[str, str] = {}
    base: str = ""

    @property
    def name(self) -> str:
        """The view or topic that `access` is about; empty if the path has none. A client that may
        read a view may read all its versions."""
        return self.more.get("topic", self.base) if self.view is None else self.view.base


@dataclass
class RouteTable:
    """The routes, prepared for matching. It is made again when another version of a view becomes
    current, and when the topology has other views."""

    routes: tuple[Route, ...]
    paths: Paths
    versions: ViewVersions
    _below_key: dict[bytes, Route] = field(default_factory=dict)
    _with_any_rest: Route | None = None
    _fixed: dict[bytes, Match] = field(default_factory=dict)
    _by_value: dict[bytes, Match] = field(default_factory=dict)
    _patterns: list[tuple[re.Pattern[bytes], list[str], Route]] = field(default_factory=list)
    _pages: list[tuple[re.Pattern[str], Route]] = field(default_factory=list)
    _other: Match = field(init=False)

    def __post_init__(self) -> None:
        self._by_name = self.versions.named
        for route in self.routes:
            if route.pattern == OTHER:
                self._other = Match(route)
            elif route.is_page:
                self._pages.append((_page_pattern(route.pattern), route))
            elif route.pattern.startswith(_KEY_PATTERN):
                rest = route.pattern.removeprefix(_KEY_PATTERN).removeprefix("/")
                if rest == "{rest}":
                    self._with_any_rest = route
                else:
                    self._below_key[rest.encode()] = route
            elif "{view}" in route.pattern:
                self._add_view_paths(route)
            elif "{" in route.pattern:
                names = re.findall(r"{(\w+)}", route.pattern)
                pattern = route.pattern.encode().replace(b"{topic}", _TOPIC)
                pattern = re.sub(rb"{[a-z]+}", lambda _: _SEGMENT, pattern)
                self._patterns.append((re.compile(pattern), names, route))
            else:
                self._fixed[route.pattern.encode()] = Match(route)

    def _add_view_paths(self, route: Route) -> None:
        versions = self.versions
        named: dict[str, View | None] = {**versions.named}
        for name in (*versions.elsewhere, *versions.undecided):
            # requests about the versions themselves need no current version
            by_version = (
                {} if route.access is Access.READ else versions.by_base.get(base_of(name), {})
            )
            named[name] = next(iter(by_version.values()), None)
        for name, view in named.items():
            path = route.pattern.replace("{view}", name).removesuffix(BY_VALUE).encode()
            paths = self._by_value if route.pattern.endswith(BY_VALUE) else self._fixed
            paths[path] = Match(route, view, more={} if view is not None else {"view": name})

    def match(self, raw_path: bytes) -> Match:
        """The route of a path. Raises BadRequest if it cannot be decoded, and Elsewhere if other
        instances have the view, Unavailable if it is not known which view, or which version of it,
        the path means."""
        if b"%" in raw_path:
            check_escapes(raw_path)
        return self._match(raw_path) or self._page(page_path(raw_path))

    def _page(self, path: str) -> Match:
        for pattern, route in self._pages:
            if (match := pattern.fullmatch(path)) is not None:
                name = match.groupdict().get("view")
                if name is None:
                    return Match(route)
                if name in self._by_name:
                    return Match(route, self._by_name[name])
                self._check_absent(name)
        if (match := _VIEW_PATH.match(path)) is not None:
            self._check_absent(match[1])
        elif self.versions.group is None and _may_be_of_view(path):
            raise Unavailable("no-topology", "This instance has not joined its group yet.")
        return self._other

    def _check_absent(self, name: str) -> None:
        """Returns only if it is known that no view has this name. Otherwise it raises Elsewhere or
        Unavailable."""
        if name in self.versions.elsewhere:
            raise Elsewhere(name, self.versions.elsewhere[name])
        if name in self.versions.undecided:
            raise undecided(name)
        if self.versions.group is None and name not in self._by_name:
            raise Unavailable(
                "no-topology",
                f"This instance does not declare view {name}, and has not joined its group yet, so "
                "it does not know whether others do. Retry after a second.",
            )

    def _match(self, raw_path: bytes) -> Match | None:
        key_path = self.paths.key_path(raw_path)
        if key_path is not None:
            route = self._below_key.get(key_path.rest, self._with_any_rest)
            if route is None:
                return None
            if not key_path.rest:
                return Match(route, key_path.view, key_path.text)
            return Match(
                route, key_path.view, key_path.text, {"rest": key_path.rest.decode("latin-1")}
            )
        fixed = self._fixed.get(raw_path)
        if fixed is not None:
            return self._decided(fixed)
        if (by_value := self._match_by_value(raw_path)) is not None:
            return self._decided(by_value)
        if b"%" in raw_path:
            decoded = unquote_to_bytes(raw_path)
            # the encoded slash would be part of a name, but no name has a slash
            if decoded.count(b"/") == raw_path.count(b"/") and (
                (fixed := self._fixed.get(decoded)) is not None and "{view}" in fixed.route.pattern
            ):
                return self._decided(fixed)
        for pattern, names, route in self._patterns:
            if (values := pattern.fullmatch(raw_path)) is not None:
                try:
                    decoded_values = [unquote_to_bytes(value).decode() for value in values.groups()]
                except UnicodeDecodeError:
                    return None
                return Match(route, more=dict(zip(names, decoded_values, strict=True)))
        return None

    def _match_by_value(self, raw_path: bytes) -> Match | None:
        """The route of the entries with a value of a field."""
        view_path, *segments = raw_path.rsplit(b"/", 2)
        match = self._by_value.get(view_path)
        if match is None or not all(segments):
            return None
        try:
            name, value = (unquote_to_bytes(segment).decode() for segment in segments)
        except UnicodeDecodeError:
            return None
        return match._replace(more={**match.more, "field": name, "value": value})

    def _decided(self, match: Match) -> Match:
        if match.view is None and "view" in match.more:
            self._check_absent(match.more["view"])
        return match


def page_path(raw_path: bytes) -> str:
    """The path as the Flask application matches it: decoded, with one slash at its start."""
    return "/" + unquote_to_bytes(raw_path).decode(errors="replace").lstrip("/")


def _may_be_of_view(path: str) -> bool:
    """Whether this path may belong to the short path of a view that another instance declares."""
    first, _, rest = path[1:].partition("/")
    return rest != "" and first not in RESERVED_SEGMENTS


def _page_pattern(pattern: str) -> re.Pattern[str]:
    """The regular expression of a pattern: `{view}` is one segment, `{rest}` is any text, also
    empty."""
    escaped = re.escape(pattern)
    for name, text in (("{view}", "(?P<view>[^/]+)"), ("{rest}", ".*")):
        escaped = escaped.replace(re.escape(name), text)
    return re.compile(escaped, re.DOTALL)


def is_state(path: str) -> bool:
    """Whether proxies and supervisors request this page, so that requests for other pages must not
    delay it."""
    return path == "/processors" or path.startswith("/health/")

"""The version of a view that a request is about.

The path decides, when it is matched: a view's name and path mean the current version. There are two
exceptions. An instance that forwards a request says which version it asks for, so that a request
has one version although instances learn of a switch one after the other. And a cursor continues in
the version that it comes from.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar
from urllib.parse import unquote_to_bytes

from backend.cluster.group_state import VIEW_VERSION
from backend.http.request import Request
from backend.http.route_table import RouteTable
from backend.wire.answer import MARK, Header
from model.problems import BadRequest, Problem, Unavailable
from model.view_versions import ViewVersions
from model.views import View

_T = TypeVar("_T")


def pin(request: Request, versions: ViewVersions) -> None:
    """Sets the view to the version that another instance asks for. Raises Unavailable."""
    view = request.view
    if view is None or view.base not in versions.with_versions:
        return
    if request.header(MARK) is None or (given := request.header(VIEW_VERSION)) is None:
        return
    version = int(given) if given.isdigit() and len(given) < 7 else 0
    pinned = versions.by_base[view.base].get(version)
    if pinned is None or not versions.is_here(pinned):
        raise Unavailable(
            "not-here", f"This instance has no version {version} of view {view.base}."
        )
    request.view, request.is_pinned = pinned, True


def pinned_headers(headers: list[Header], view: View, versions: ViewVersions) -> list[Header]:
    """The headers of a request that is forwarded: they name the version."""
    if view.base not in versions.with_versions:
        return headers
    others = [header for header in headers if header[0] != VIEW_VERSION]
    return [*others, (VIEW_VERSION, b"%d" % view.version)]


def follows_current(request: Request) -> bool:
    """Whether the request is about the current version, not about one that it names."""
    parts = request.raw_path.split(b"/", 3)
    names_view = len(parts) > 2 and unquote_to_bytes(parts[1]) == b"views"
    return not request.is_pinned and not (names_view and b"@" in unquote_to_bytes(parts[2]))


def is_outdated(table: RouteTable, request: Request) -> bool:
    """Whether the path of an open stream means another version by now, or one that is not known."""
    try:
        means = table.match(request.raw_path).view
    except Problem:
        means = None
    return not request.is_pinned and means != request.view


def in_version_of_cursor(
    request: Request, versions: ViewVersions, parse: Callable[[View], _T]
) -> tuple[View, _T]:
    """The version of the view, and what `parse` makes of the request in that version. If the
    request has a cursor, it is the version that the cursor comes from. Raises BadRequest."""
    view = request.routed_view
    try:
        return view, parse(view)
    except BadRequest as problem:
        if problem.code != "cursor-invalid" or not follows_current(request):
            raise
        for other in versions.other_versions(view):
            try:
                parsed = parse(other)
            except BadRequest:
                continue
            request.view = other
            return other, parsed
        raise

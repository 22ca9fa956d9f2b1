"""Questions about what has times: windows, sessions and versions, of a key or of all keys."""

from __future__ import annotations

from functools import partial
from typing import Any

from queryable.core.answers import Session, Version, Window
from queryable.core.core import Core
from queryable.core.effects import Call
from queryable.core.errors import BadUse
from queryable.core.pages import PAGE, CursorPages, Pager, StreamPages
from queryable.core.parameters import Order, Parameters, Span, Stale, Time
from queryable.core.parts import (
    ALL_KEYS,
    anybody,
    can_resume,
    check_page,
    fresh_parameters,
    narrowed,
    note_seen,
    place_of_session,
    place_of_version,
    place_of_window,
    session_of,
    version_of,
    window_of,
)
from queryable.core.views import View


def windows(
    core: Core,
    view: str,
    key: Any = ALL_KEYS,
    *,
    from_: Time | None = None,
    to: Time | None = None,
    key_from: Any = None,
    key_to: Any = None,
    order: Order = "asc",
    limit: int | None = None,
    page: int = PAGE,
    stream: bool = False,
    stale: Stale | None = None,
    max_lag: int | None = None,
    max_staleness: Span | None = None,
    timeout: float | None = None,
) -> Call[Pager[Window]]:
    """The windows of a key, or of all keys within `key_from` and `key_to`, that start within
    `from_` and `to`; in the order of key, start, sequence."""
    described = yield from core.view(view, core.until(timeout))
    pager: Pager[Window] = _timed(
        core, described, "windows", partial(window_of, described), place_of_window, key,
        (from_, to), (key_from, key_to), order, limit, page, stream,
        (stale, max_lag, max_staleness), timeout,
    )  # fmt: skip
    return pager


def sessions(
    core: Core,
    view: str,
    key: Any = ALL_KEYS,
    *,
    from_: Time | None = None,
    to: Time | None = None,
    key_from: Any = None,
    key_to: Any = None,
    order: Order = "asc",
    limit: int | None = None,
    page: int = PAGE,
    stream: bool = False,
    stale: Stale | None = None,
    max_lag: int | None = None,
    max_staleness: Span | None = None,
    timeout: float | None = None,
) -> Call[Pager[Session]]:
    """The sessions of a key, or of all keys within `key_from` and `key_to`, that overlap
    `from_`–`to`; in the order of key, end, start."""
    described = yield from core.view(view, core.until(timeout))
    pager: Pager[Session] = _timed(
        core, described, "sessions", partial(session_of, described), place_of_session, key,
        (from_, to), (key_from, key_to), order, limit, page, stream,
        (stale, max_lag, max_staleness), timeout,
    )  # fmt: skip
    return pager


def versions(
    core: Core,
    view: str,
    key: Any,
    *,
    from_: Time | None = None,
    to: Time | None = None,
    order: Order = "asc",
    limit: int | None = None,
    page: int = PAGE,
    stale: Stale | None = None,
    max_lag: int | None = None,
    max_staleness: Span | None = None,
    timeout: float | None = None,
) -> Call[Pager[Version]]:
    """The versions of a key that were valid at any moment within `from_` and `to`."""
    described = yield from core.view(view, core.until(timeout))
    pager: Pager[Version] = _timed(
        core, described, "versions", partial(version_of, described), place_of_version, key,
        (from_, to), (None, None), order, limit, page, False,
        (stale, max_lag, max_staleness), timeout,
    )  # fmt: skip
    return pager


def _timed(
    core: Core,
    described: View,
    kind: str,
    read: Any,
    place: Any,
    key: Any,
    times: tuple[Time | None, Time | None],
    keys: tuple[Any, Any],
    order: Order,
    limit: int | None,
    page: int,
    stream: bool,
    fresh: tuple[Stale | None, int | None, Span | None],
    timeout: float | None,
) -> Any:
    """The pager of what has times: of one key, or of all."""
    check_page(page, limit)
    if key is not ALL_KEYS:
        if keys != (None, None):
            raise BadUse("key_from and key_to are for the entries of all keys.")

        def of_key() -> Parameters:
            query = fresh_parameters(core, described, *fresh)
            if described.key.segment(key)[1]:
                query.add("encoding", "base64url")
            return query.add_time("from", times[0]).add_time("to", times[1]).add("order", order)

        segment, _ = described.key.segment(key)
        return CursorPages(
            core, f"/views/{described.name}/keys/{segment}/{kind}", of_key,
            partial(read, key=key), limit=limit, page=page, timeout=timeout,
            holders=lambda until: core.holders(described, key, until),
            note=partial(note_seen, core, described),
        )  # fmt: skip
    stale, max_lag, max_staleness = fresh
    if max_lag is not None or max_staleness is not None:
        raise BadUse("max_lag and max_staleness are for the entries of one key.")

    def of_all(last: Any = None) -> Parameters:
        first, end = narrowed(order, *keys, last)
        return (
            Parameters()
            .add_time("from", times[0])
            .add_time("to", times[1])
            .add_key("key_from", described, first)
            .add_key("key_to", described, end)
            .add("order", order)
            .add("stale", stale)
        )

    def has_come(item: Any, last: Any) -> bool:
        if item.key != last.key:
            return False
        before = place(item) <= place(last) if order == "asc" else place(item) >= place(last)
        return bool(before)

    path = f"/views/{described.name}/{kind}"
    if stream and can_resume(described):
        return StreamPages(core, path, of_all, read, has_come, limit=limit, timeout=timeout)
    return CursorPages(
        core, path, of_all, read, limit=limit, page=page, timeout=timeout, holders=anybody
    )

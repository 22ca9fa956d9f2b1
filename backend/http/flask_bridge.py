"""Runs the Flask application in threads. There are three kinds of pages, each with its own threads
and its own bound on requests: documents, pages of KIQR's dialect, whose requests wait for other
instances, and pages for the state of the instance."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from a2wsgi import WSGIMiddleware
from flask import Flask

from backend.http.asgi import App, Receive, Scope, Send
from backend.http.kiqr.routes import PREFIX
from backend.http.limits.gates import Gate
from backend.http.route_table import is_state

PAGE_KIND = "queryable.page_kind"
"""The key in an ASGI scope for the kind of the page."""

_STATE, _KIQR, _DOCUMENTS = "state", "kiqr", "documents"
_THREADS = {_STATE: 2, _KIQR: 8, _DOCUMENTS: 4}
_MAX_PAGES = 256  # requests in progress; most of them wait for a thread
_KIQR_PATIENCE = 10.0  # s; few run at the same time, and each may take seconds


def page_kind(pattern: str) -> str:
    """The kind of the page with this pattern in the route table."""
    if is_state(pattern):
        return _STATE
    return _KIQR if pattern.startswith(f"{PREFIX}/") else _DOCUMENTS


def page_gates() -> dict[str, Gate]:
    """The gate of each kind of page. Clients take turns for KIQR's threads, because its requests
    may take long."""
    return {
        _STATE: Gate("requests", _MAX_PAGES),
        _KIQR: Gate("KIQR requests", _THREADS[_KIQR], _KIQR_PATIENCE),
        _DOCUMENTS: Gate("documents", _MAX_PAGES),
    }


def flask_bridge(flask_app: Flask) -> App:
    """An ASGI application that runs Flask in the threads of the page's kind."""
    threads = {
        kind: cast(App, WSGIMiddleware(cast(Any, flask_app), workers=workers))
        for kind, workers in _THREADS.items()
    }

    async def bridge(scope: Scope, receive: Receive, send: Send) -> None:
        page = asyncio.ensure_future(threads[scope[PAGE_KIND]](scope, receive, send))
        try:
            await asyncio.shield(page)
        finally:
            # If the client has left, the thread still cannot be ended. It would wait forever if
            # nothing took what it sends. So the request keeps its place until the thread has ended.
            await asyncio.wait([page])

    return bridge

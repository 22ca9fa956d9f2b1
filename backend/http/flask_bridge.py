"""Runs the Flask application in threads."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from a2wsgi import WSGIMiddleware
from flask import Flask

from backend.http.asgi import App, Receive, Scope, Send
from backend.http.kiqr.routes import PREFIX
from backend.http.route_table import is_state


def flask_bridge(flask_app: Flask) -> App:
    """An ASGI application that runs Flask in threads. KIQR requests wait for other instances, so
    they have their own threads, and so have those for the state of the instance."""
    state = cast(App, WSGIMiddleware(cast(Any, flask_app), workers=2))
    other = cast(App, WSGIMiddleware(cast(Any, flask_app), workers=4))
    kiqr = cast(App, WSGIMiddleware(cast(Any, flask_app), workers=8))

    async def bridge(scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        middleware = state if is_state(path) else kiqr if path.startswith(f"{PREFIX}/") else other
        page = asyncio.ensure_future(middleware(scope, receive, send))
        try:
            await asyncio.shield(page)
        finally:
            # If the client has left: the thread cannot be ended, and would wait for ever for
            # someone who takes what it sends. The request keeps its place until it has ended.
            await asyncio.wait([page])

    return bridge

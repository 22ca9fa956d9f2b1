"""The types of ASGI. Source: the ASGI specification, version 3.0."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

CLIENT_EXTENSION = "queryable.client"
"""An extension of our server: a function that tells the server the client of the request, as
`backend/http/limits/clients.py` names it. With it, the server counts unread bytes by client."""

RECEIVED_EXTENSION = "queryable.received_at"
"""An extension of our server: when the head of the request had arrived (s, of perf_counter)."""

ENDED_EARLY_EXTENSION = "queryable.ended_early"
"""An extension of our server: the application sets it when it has to stop a response that is not
complete, and has logged why. The server then closes the connection, and logs nothing."""

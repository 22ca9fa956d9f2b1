"""The ASGI 3.0 scope of a parsed request."""

from __future__ import annotations

from typing import Any

from gunicorn.asgi.parser import CallbackRequest

from backend.wire.answer import Header

Address = tuple[str, int] | None


def checked_headers(request: CallbackRequest) -> list[Header]:
    """The headers of a request. Raises ValueError if other servers may read the request
    differently, or if it wants WebSocket."""
    # The parser accepts what other servers read differently: fragments in the target, folded lines,
    # as headers without a name, and obsolete codings before `chunked` (RFC 9112, 3.2, 5.2 and 6.1).
    if b"#" in request.raw_path or "#" in request.query:
        raise ValueError("Fragments are not supported: write %23 for #")
    for name, value in request.headers_bytes:
        if not name:
            raise ValueError("Folded header lines are not supported")
        if name == b"transfer-encoding" and value.strip().lower() != b"chunked":
            raise ValueError("Transfer-Encoding other than chunked is not supported")
    # In a WSGI environment, X_Name and X-Name would be the same header.
    headers = [header for header in request.headers_bytes if b"_" not in header[0]]
    if request.may_upgrade() and any(
        name == b"upgrade" and b"websocket" in value.lower() for name, value in headers
    ):
        raise ValueError("WebSocket is not supported")
    return headers


def scope_of(
    request: CallbackRequest,
    headers: list[Header],
    scheme: str,
    server: Address,
    client: Address,
    extensions: dict[str, Any],
) -> dict[str, Any]:
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": f"{request.version[0]}.{request.version[1]}",
        "method": request.method,
        "scheme": scheme,
        "path": request.path,
        "raw_path": request.raw_path,
        "query_string": request.query.encode("latin-1"),
        "root_path": "",
        "headers": headers,
        "server": server,
        "client": client,
        "extensions": extensions,
    }

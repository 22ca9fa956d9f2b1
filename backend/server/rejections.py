"""Why a request is refused before it reaches the application: a status, and a sentence."""

from __future__ import annotations

from gunicorn_h1c import LimitRequestHeaders, LimitRequestLine

MAX_UNPARSED = 64 * 1024
"""Maximum bytes of a head, a chunk's size or trailers. The parser has no limit for incomplete ones,
and scans them again with each `feed`."""


def refused_by_parser(error: Exception) -> tuple[int, str]:
    """Status and sentence for what the parser has raised."""
    if isinstance(error, LimitRequestLine):
        return 414, str(error)
    if isinstance(error, LimitRequestHeaders):
        return 431, str(error)
    return 400, str(error)


def endless(is_body: bool, has_request_line: bool) -> tuple[int, str]:
    """Status and sentence for more than MAX_UNPARSED bytes of one part."""
    if is_body:
        return 400, f"A chunk's size or the trailers exceed {MAX_UNPARSED} bytes"
    if has_request_line:
        return 431, f"The headers exceed {MAX_UNPARSED} bytes"
    return 414, f"The request line exceeds {MAX_UNPARSED} bytes"

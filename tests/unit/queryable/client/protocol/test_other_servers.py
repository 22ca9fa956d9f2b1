"""Responses of servers that do not have this API: the error says so in one line."""

from __future__ import annotations

import pytest

from queryable.cli.exit_codes import advice
from queryable.client.protocol.calls import metadata
from queryable.client.protocol.errors import ServerError, Unavailable, error_from_response
from queryable.client.protocol.transport import Response
from tests.support.clients.scripted_transport import Driver

PAGE = b"""<!DOCTYPE HTML>
<html lang="en"><head><meta charset="utf-8"><title>Error</title>
<style>p { color: red }</style><script>if (1 < 2) {}</script></head>
<body><h1>Error response</h1>
<p>Error&nbsp;code: 404</p></body></html>
"""


@pytest.mark.parametrize(
    ("status", "headers", "body", "text"),
    [
        (404, {}, PAGE, 'status 404, "Error Error response Error code: 404"'),
        (404, {}, b"", "status 404, without a body"),
        (500, {}, b"a\n\tb \xff", 'status 500, "a b \ufffd"'),
        # a terminal must not obey it
        (404, {}, b"\x1b[2J\x9b", 'status 404, "\ufffd[2J\ufffd"'),
        (302, {"location": "\x1b[2J"}, b"", "status 302, which leads to \ufffd[2J"),
        (400, {}, b"x" * 500, f'status 400, "{"x" * 100}…"'),
        (302, {"location": "https://example.org/login"}, b"",
         "status 302, which leads to https://example.org/login"),
        (200, {}, PAGE, 'status 200, "Error Error response Error code: 404"'),
    ],
)  # fmt: skip
def test_the_error_is_one_line(
    status: int, headers: dict[str, str], body: bytes, text: str
) -> None:
    with pytest.raises(ServerError) as failed:
        Driver(Response(status, headers, body)).call(metadata.views)
    assert failed.value.detail == f"Not an answer of this API: {text}."
    assert failed.value.code == "not-understood"
    assert advice(failed.value).startswith("Is this the right URL?")


def test_a_proxy_that_reaches_no_server_is_unavailable() -> None:
    error = error_from_response(502, {}, b"<h1>502 Bad Gateway</h1>")
    assert isinstance(error, Unavailable)
    assert error.detail == 'Not an answer of this API: status 502, "502 Bad Gateway".'

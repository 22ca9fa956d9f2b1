"""The settings of a client: which URLs and times it accepts."""

from __future__ import annotations

import asyncio
import math

import pytest

from queryable import BadUse, Client
from tests.support.clients.scripted_transport import orders
from tests.unit.queryable.client.fake_server import RequestHandler, serving
from tests.unit.queryable.client.test_connection_errors import KINDS, make_client, runner

__all__ = ["runner"]

WRONG = [
    "http://127.0.0.1:abc",
    "http://127.0.0.1:-1",
    "http://proxy:65536",
    "http://a proxy:8080",
    "http://[::1",
    "http://a..b",
    "http://.proxy",
    f"http://{'a' * 64}.example.org",
    "localhost:8080",
    "http://",
    "http://proxy?x=1",
]


@pytest.mark.parametrize("url", WRONG)
def test_a_url_that_cannot_be_asked_is_refused_at_once(url: str) -> None:
    with pytest.raises(BadUse, match="is not a valid URL"):
        Client(["http://proxy", url])


@pytest.mark.parametrize(
    "url",
    [
        "http://proxy", "HTTPS://Proxy.example.org.:8443/topics/", "http://[::1]:8080",
        "http://[fe80::1%25eth0]:8080",
        "http://bücher.example.org", "http://my_proxy:1",
    ],
)  # fmt: skip
def test_other_urls_are_accepted(url: str) -> None:
    Client(url).close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_time_without_an_end_is_accepted(runner: asyncio.Runner, kind: str) -> None:
    """Sockets do not accept it."""

    def answer(request: RequestHandler) -> None:
        request.respond(200, {"key": "a", "value": 1})

    with serving(answer) as server:
        client = make_client(kind, server.url, runner, timeout=math.inf)
        for timeout in (None, 1e300, math.inf):
            assert client.get("orders", "a", timeout=timeout).value == 1
        client.close()


def test_a_time_that_is_no_number_is_refused() -> None:
    with pytest.raises(BadUse, match="timeout=nan is invalid"):
        Client("http://127.0.0.1:1", timeout=math.nan)
    with pytest.raises(BadUse, match="timeout=nan is invalid"):
        orders().context.deadline(math.nan)

"""Why there is no answer, in words: nothing of urllib3 or aiohttp is in an error."""

from __future__ import annotations

import asyncio
import re
import socket
from typing import Any

import pytest

from local.ports import free_ports
from queryable import AsyncClient, Client, NoAnswer
from tests.unit.model.http.servers import speaking
from tests.unit.queryable.client.fake_server import RequestHandler, serving

_LIBRARY = re.compile(
    r"urllib3|aiohttp|HTTPConnection|Errno|object at 0x|Pool|ssl:|\(|Exception|Error", re.I
)

# too long for a query, so the resolver fails at once and asks no server
_UNRESOLVABLE = ".".join(["no-such-host"] * 25)


def problem(kind: str, url: str, timeout: float = 1.5) -> str:
    """The text of the error without the URL."""
    with pytest.raises(NoAnswer) as raised:
        _ask(url, timeout) if kind == "threads" else asyncio.run(_ask_async(url, timeout))
    return str(raised.value).removeprefix(f"{url}: ")


def _ask(url: str, timeout: float) -> None:
    with Client(url, timeout=timeout) as client:
        client.get("orders", "a")


async def _ask_async(url: str, timeout: float) -> None:
    async with AsyncClient(url, timeout=timeout) as client:
        await client.get("orders", "a")


@pytest.mark.parametrize("kind", ["threads", "asyncio"])
@pytest.mark.slow
def test_problems_in_words(kind: str) -> None:
    texts: dict[str, Any] = {
        "refused": problem(kind, f"http://127.0.0.1:{free_ports(1)[0]}"),
        "name": problem(kind, f"http://{_UNRESOLVABLE}"),
    }
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        texts["silent"] = problem(kind, url, timeout=0.5)
    with serving(RequestHandler.hang_up) as server:
        texts["closed"] = problem(kind, server.url)
    with speaking(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf") as url:
        texts["half"] = problem(kind, url)
    with speaking(b"SSH-2.0-OpenSSH\r\n\r\n") as url:
        texts["other"] = problem(kind, url)
    with speaking(b"") as url:
        texts["no TLS"] = problem(kind, url.replace("http:", "https:"))
    closed = "the connection was closed before the answer was complete. [no-answer]"
    assert texts == {
        "refused": "connection refused. [no-answer]",
        "name": "the name of the host cannot be resolved. [no-answer]",
        "silent": "no answer in time. [no-answer]",
        "closed": closed,
        "half": closed,
        "other": "the answer is not HTTP. [no-answer]",
        "no TLS": closed,
    }
    assert [text for text in texts.values() if _LIBRARY.search(text)] == []

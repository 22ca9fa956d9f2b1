"""Sends requests. Each has a separate connection, and no redirect is followed. URLs begin with http
or https."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Unpack
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit
from urllib.request import getproxies, proxy_bypass

from urllib3 import BaseHTTPResponse, PoolManager, ProxyManager, Timeout
from urllib3.exceptions import HTTPError

from model.http.answers import Answer, AnswerTooLong, Options, RequestFailed, basic
from model.http.problems import connection_problem, tls_problem
from model.http.timed_connections import READ_TIMEOUT, use_timed_connections

_PIECE = 1 << 16


def send(url: str, timeout_s: float, max_bytes: int, **options: Unpack[Options]) -> Answer:
    """Return the answer, whatever its status is. `timeout_s`: until the whole answer has arrived.
    Raises RequestFailed, and AnswerTooLong if the body has more than `max_bytes`."""
    with opened(url, timeout_s, **options) as response:
        content = bytearray()
        while piece := response.read(_PIECE):  # an empty piece is the end of the body
            content += piece
            if len(content) > max_bytes:
                raise AnswerTooLong(f"the answer has more than {max_bytes} bytes")
    return Answer(response.status, response.headers, bytes(content))


@contextmanager
def opened(
    url: str, timeout_s: float, read_timeout_s: float | None = None, **options: Unpack[Options]
) -> Iterator[BaseHTTPResponse]:
    """Send a request, and close its connection at the end. With `read_timeout_s`, `timeout_s` is
    for the head of the answer only, and `read_timeout_s` for each read of its body. Raises
    RequestFailed, also if the body cannot be read."""
    READ_TIMEOUT.set(read_timeout_s)
    proxy = ""
    try:
        with ExitStack() as stack:
            try:
                server = urlsplit(url)
                manager = stack.enter_context(_manager(server, options))
                proxy = f" (through the proxy {manager.proxy})" if manager.proxy else ""
                pool = manager.connection_from_url(url)
                use_timed_connections(pool)
                target = urlunsplit(("", "", server.path or "/", server.query, ""))
                if manager.proxy and server.scheme == "http":
                    target = f"http://{server.netloc.rpartition('@')[2]}{target}"
                response = pool.urlopen(
                    "POST" if "body" in options else "GET",
                    target,
                    options.get("body"),
                    dict(options.get("headers", {})),
                    retries=False,
                    redirect=False,
                    assert_same_host=False,
                    timeout=Timeout(total=timeout_s),
                    preload_content=False,
                    decode_content=False,
                )
                stack.enter_context(closing(response))
            except ValueError:  # its text may have what was sent
                raise RequestFailed("the URL or a header of the request is not valid") from None
            yield response
    except HTTPError as error:
        reason = tls_problem(error) or connection_problem(error)
        raise RequestFailed(reason + proxy) from None


def _manager(server: SplitResult, options: Options) -> PoolManager:
    """Makes the connection to a server, or to its proxy."""
    tls = options.get("tls", ssl.create_default_context)
    url = getproxies().get(server.scheme) if options.get("use_proxies") else None
    if not url or proxy_bypass(server.netloc):
        return PoolManager(ssl_context=tls() if server.scheme == "https" else None)
    proxy = urlsplit(url if "://" in url else f"{server.scheme}://{url}")
    headers = {}
    if proxy.username and proxy.password:
        credentials = f"{unquote(proxy.username)}:{unquote(proxy.password)}"
        headers["Proxy-Authorization"] = basic(credentials)
    port = proxy.port or (443 if proxy.scheme == "https" else 80)
    # the request CONNECT to a proxy for https has no TLS, even if the proxy's URL begins with https
    scheme = "http" if server.scheme == "https" else proxy.scheme
    host = proxy.netloc.rpartition("@")[2].removesuffix(f":{proxy.port}")
    return ProxyManager(f"{scheme}://{host}:{port}", proxy_headers=headers, ssl_context=tls())

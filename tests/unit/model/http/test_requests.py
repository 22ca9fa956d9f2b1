"""Requests from threads: what bounds them, whom they reach, and what their errors say."""

from __future__ import annotations

import re
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from local.ports import free_ports
from local.waiting import wait_until
from model.http.answers import AnswerTooLong, RequestFailed, basic
from model.http.requests import opened, send
from model.topology import Member
from tests.support.security.tls import Authority
from tests.unit.model.http.servers import HEADS, Proxy, accepting, dripping, proxy, speaking
from tests.unit.queryable.client.fake_server import RequestHandler, Server, serving, use_tls

LIMITS = (10.0, 1000)  # s, bytes
CLOSED = "the connection was closed before the answer was complete"
UNRESOLVABLE = ".".join(["no-such-host"] * 25)  # too long for a query: no server is asked


@pytest.fixture(autouse=True)
def without_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "no_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def echo(request: RequestHandler) -> None:
    body = getattr(request, "body", b"")
    request.respond(
        404, f"{request.command} {request.path} {request.headers['X']} {body!r}".encode(), Lag="3"
    )


def test_an_answer_has_its_status_headers_and_body() -> None:
    with serving(echo) as server:
        answer = send(f"{server.url}/a/../%C3%A4%2Fb?c=1&d=%20", *LIMITS, headers={"X": "y"})
        assert (answer.status, answer.headers["lag"], answer.headers["LAG"]) == (404, "3", "3")
        assert answer.body == b"GET /a/../%C3%A4%2Fb?c=1&d=%20 y b''"
        assert not answer.is_success
        posted = send(server.url, *LIMITS, body=b"form")
        assert posted.body == b"POST / None b'form'"


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
def test_a_server_that_drips_is_not_waited_for(head: bytes) -> None:
    """It is never silent for as long as the time-out."""
    with dripping(head) as url:
        started = time.monotonic()
        with pytest.raises(RequestFailed, match="no answer in time"):
            send(url, 0.2, 1 << 30)
        assert 0.19 < time.monotonic() - started < 3


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 9000000\r\n\r\n" + bytes(9_000_000),
        b"HTTP/1.1 200 OK\r\n\r\n" + bytes(9_000_000),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8954400\r\n" + bytes(9_000_000),
        b"HTTP/1.1 500 Wrong\r\n\r\n" + bytes(1001),
        # it is not decompressed
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + bytes(1001),
    ],
)
def test_a_body_that_is_too_long_is_not_read(answer: bytes) -> None:
    with speaking(answer) as url, pytest.raises(AnswerTooLong, match="more than 1000 bytes"):
        send(url, *LIMITS)


def test_the_longest_body() -> None:
    with speaking(b"HTTP/1.1 200 OK\r\n\r\n" + bytes(1000)) as url:
        assert send(url, *LIMITS).body == bytes(1000)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}", CLOSED),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n{}", CLOSED),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n", CLOSED),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n", CLOSED),
        (b"", CLOSED),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000, "the head of the answer is too long"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: x\r\n" * 200, "the head of the answer is too long"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "the answer is not HTTP"),
        (b"HTTP/7.1 200 OK\r\n\r\n", "the answer is not HTTP"),
    ],
)
def test_an_answer_that_is_incomplete_or_no_http(answer: bytes, why: str) -> None:
    with speaking(answer) as url, pytest.raises(RequestFailed) as raised:
        send(url, *LIMITS)
    assert str(raised.value) == why
    assert raised.value.__cause__ is None


def test_no_redirect_is_followed() -> None:
    with serving(lambda request: request.respond(200, b"")) as other:
        with serving(lambda request: request.respond(302, b"", Location=other.url)) as server:
            assert send(server.url, *LIMITS).status == 302
        assert other.paths == []


@pytest.mark.parametrize(
    "url",
    ["file:///etc/hostname", "file://127.0.0.1/etc/hostname", "ftp://127.0.0.1/a", "data:,a",
     "http://a..b/", "http://[::1", "http://127.0.0.1:99999/", ""],
)  # fmt: skip
def test_a_url_that_is_not_http_is_refused(url: str) -> None:
    with pytest.raises(RequestFailed, match="URL"):
        send(url, *LIMITS)
    with pytest.raises(RequestFailed, match="URL"):
        send(url, *LIMITS, use_proxies=True)


def test_a_header_that_is_not_valid_is_not_in_the_error() -> None:
    with pytest.raises(RequestFailed, match="a header of the request is not valid") as raised:
        send("http://127.0.0.1:1", *LIMITS, headers={"Authorization": "a\r\ns3cret"})
    assert "s3cret" not in str(raised.value)


def test_an_instance_at_an_ipv6_address_is_reached() -> None:
    """Regression: no copies and no topologies were fetched from one."""
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as listener:
        port = listener.getsockname()[1]

        def serve() -> None:
            accepted, _ = listener.accept()
            with accepted:
                heads.append(accepted.recv(1000))
                accepted.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

        heads: list[bytes] = []
        thread = threading.Thread(target=serve)
        thread.start()
        assert send(Member("b2", "[::1]", port).origin, *LIMITS).status == 200
        thread.join()
    assert b"\r\nHost: [::1]:%d\r\n" % port in heads[0]


def test_a_server_that_is_away() -> None:
    for url, why in (
        (f"http://127.0.0.1:{free_ports(1)[0]}", "connection refused"),
        (f"http://{UNRESOLVABLE}", "the name of the host cannot be resolved"),
    ):
        with pytest.raises(RequestFailed) as raised:
            send(url, *LIMITS)
        assert str(raised.value) == why


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def secure(authority: Authority) -> Iterator[Server]:
    """A server with a certificate of the authority for 127.0.0.1."""
    with serving(lambda request: request.respond(200, repr(request.headers.keys()))) as server:
        use_tls(server, authority)
        yield server


def trusting(authority: Authority) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(authority.ca))


def test_tls_trusts_the_given_authorities(
    secure: Server, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert send(secure.url, *LIMITS, tls=lambda: trusting(authority)).status == 200
    with pytest.raises(RequestFailed, match=r"certificate is not accepted: unable to get local"):
        send(secure.url, *LIMITS)
    with pytest.raises(RequestFailed, match=r"not accepted: Hostname mismatch"):
        send(secure.url.replace("127.0.0.1", "localhost"), *LIMITS, tls=lambda: trusting(authority))
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.ca))
    assert send(secure.url, *LIMITS).status == 200


@pytest.mark.slow
def test_handshakes_that_fail() -> None:
    refused = pytest.raises(RequestFailed, match="does not speak TLS at this port")
    with speaking(b"HTTP/1.1 400 No\r\n\r\n") as url, refused:
        send(url.replace("http:", "https:"), *LIMITS)
    with speaking(b"") as url, pytest.raises(RequestFailed) as raised:
        send(url.replace("http:", "https:"), *LIMITS)
    assert str(raised.value) == CLOSED, "the number of an SSLEOFError is no errno"
    with accepting(lambda connection: time.sleep(5)) as url:
        started = time.monotonic()
        with pytest.raises(RequestFailed, match="no answer in time"):
            send(url.replace("http:", "https:"), 0.2, 1)
        assert time.monotonic() - started < 3


@pytest.fixture
def running_proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """The proxy that the environment names for all URLs."""
    with proxy() as running:
        with_password = running.url.replace("//", "//me:p%40ss@")
        monkeypatch.setenv("HTTP_PROXY", with_password)  # as some programs do
        monkeypatch.setenv("http_proxy", with_password)
        monkeypatch.setenv("https_proxy", with_password)
        yield running


def test_proxies_of_the_environment_are_not_used_by_default(
    running_proxy: Proxy, secure: Server, authority: Authority
) -> None:
    with serving(echo) as server:
        assert send(server.url, *LIMITS).status == 404
    assert send(secure.url, *LIMITS, tls=lambda: trusting(authority)).status == 200
    assert running_proxy.heads == []


def test_http_by_a_proxy(running_proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(url: str) -> bytes:
        return send(url, *LIMITS, headers={"X": "y"}, use_proxies=True).body

    assert ask("http://registry.test:8081/schemas/../ids/1?a=b#c") == b"by the proxy"
    [head] = running_proxy.heads
    assert head.startswith("GET http://registry.test:8081/")
    assert {"Host: registry.test:8081", "X: y", f"Proxy-Authorization: {basic('me:p@ss')}"} <= set(
        head.split("\r\n")
    )
    monkeypatch.setenv("no_proxy", "elsewhere.test,127.0.0.1")
    with serving(echo) as server:
        assert b"None" not in ask(server.url)
    monkeypatch.setenv("http_proxy", running_proxy.url.removeprefix("http://"))
    assert ask("http://registry.test") == b"by the proxy"
    assert len(running_proxy.heads) == 2
    assert "Proxy-Authorization" not in running_proxy.heads[1]


@pytest.mark.parametrize("scheme", ["http://", "https://", ""])
def test_https_by_a_tunnel_of_a_proxy(
    running_proxy: Proxy,
    secure: Server,
    authority: Authority,
    scheme: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A proxy is asked without TLS, whatever the scheme of its URL is. It sees no header."""
    address = running_proxy.url.removeprefix("http://")
    monkeypatch.setenv("https_proxy", f"{scheme}me:p%40ss@{address}")
    answer = send(
        secure.url,
        *LIMITS,
        headers={"Authorization": "s3cret"},
        tls=lambda: trusting(authority),
        use_proxies=True,
    )
    assert b"Authorization" in answer.body
    assert b"Proxy-Authorization" not in answer.body
    [head] = running_proxy.heads
    assert head.startswith(f"CONNECT {secure.url.removeprefix('https://')} HTTP/1.")
    assert f"Proxy-Authorization: {basic('me:p@ss')}" in head
    assert "s3cret" not in head


def test_a_proxy_that_does_not_connect(
    running_proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    running_proxy.refusal = b"HTTP/1.1 407 Who are you\r\n\r\n"
    address = re.escape(running_proxy.url)
    with pytest.raises(
        RequestFailed,
        match=rf"tunnel connection failed: 407 Who are you \(through the proxy {address}\)",
    ):
        send("https://registry.test", *LIMITS, use_proxies=True)
    assert send("http://registry.test", *LIMITS, use_proxies=True).status == 407
    monkeypatch.setenv("https_proxy", f"http://me:s3cret@127.0.0.1:{free_ports(1)[0]}")
    with pytest.raises(RequestFailed, match=r"connection refused \(through the proxy http://127"):
        send("https://registry.test", *LIMITS, use_proxies=True)
    monkeypatch.setenv("http_proxy", "socks5://me:s3cret@127.0.0.1:1")
    with pytest.raises(RequestFailed) as raised:
        send("http://registry.test", *LIMITS, use_proxies=True)
    assert "s3cret" not in str(raised.value)


def test_a_proxy_that_drips(monkeypatch: pytest.MonkeyPatch) -> None:
    with dripping(b"HTTP/1.1 200 ") as url:
        monkeypatch.setenv("https_proxy", url)
        started = time.monotonic()
        with pytest.raises(RequestFailed, match="no answer in time"):
            send("https://registry.test", 0.2, 1, use_proxies=True)
        assert time.monotonic() - started < 3


def slowly(request: RequestHandler) -> None:
    request.begin_chunked()
    for line in (b"one\n", b"two\n", b"three"):
        time.sleep(0.3)
        request.chunk(line)
    request.chunk(b"")


@pytest.mark.slow
def test_a_body_in_pieces_has_a_time_out_for_each_of_them() -> None:
    with (
        serving(slowly) as server,
        opened(server.url, 0.5, 5.0) as answer,
    ):
        assert answer.status == 200
        assert answer.readline(100) == b"one\n"
        assert answer.readline(2) == b"tw"
        assert [answer.read(4), answer.read(100), answer.read(1)] == [b"o\nth", b"ree", b""]
    for head, began in ((HEADS["head"], False), (HEADS["body"], True)):
        with dripping(head) as url:
            started, opened_at = time.monotonic(), 0.0
            with (
                pytest.raises(RequestFailed, match="no answer in time") if not began
                else pytest.raises(KeyError),
                opened(url, 0.3, 0.3) as answer,
            ):  # fmt: skip
                opened_at = time.monotonic()
                assert answer.read(10) == b"xxxxxxxxxx"
                raise KeyError  # an error of the caller passes
            assert bool(opened_at) == began
            assert time.monotonic() - started < 3


def test_the_connection_ends_with_the_answer() -> None:
    """Also if its body is not read, or has not ended."""
    ended: list[str] = []

    def watch(request: RequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Length", "3")
        request.end_headers()
        request.wfile.write(b"abc")
        with suppress(OSError):
            request.rfile.read(1)
        ended.append(request.path)
        request.close_connection = True

    with serving(watch) as server:
        send(server.url, *LIMITS)
        with opened(server.url, 10.0):
            pass
        with opened(server.url, 10.0) as answer, pytest.raises(RequestFailed):
            raise RequestFailed(str(answer.status))
        wait_until(lambda: len(ended) == 3, 10, "the ends of the connections", 0.01)

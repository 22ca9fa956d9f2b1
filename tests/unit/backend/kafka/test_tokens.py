"""Tests of kafka-python's OAuth tokens: fetched over TLS, kept for most of their life, and no error
has a secret. tests/system/security has the real broker."""

from __future__ import annotations

import dataclasses
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import jwt
import pytest
from kafka.errors import KafkaConnectionError

from backend.kafka.tokens import TokenProvider
from local.ports import free_ports
from model.kafka.config import OidcClient
from tests.support.secure_kafka.certificates import Authority
from tests.support.secure_kafka.token_endpoint import TokenEndpoint

SECRET = "s3cret:é"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def endpoint(authority: Authority, tmp_path: Path) -> Iterator[TokenEndpoint]:
    with TokenEndpoint(tmp_path, authority.issue("endpoint"), ("me", SECRET)) as running:
        yield running


def client_of(endpoint: TokenEndpoint, authority: Authority) -> OidcClient:
    extensions = (("logicalCluster", "a"),)
    return OidcClient(endpoint.url, "me", SECRET, "kafka", extensions, str(authority.path))


def test_a_token_is_fetched_once(endpoint: TokenEndpoint, authority: Authority) -> None:
    provider = TokenProvider(client_of(endpoint, authority))
    token = provider.token()
    assert jwt.decode(token, options={"verify_signature": False})["sub"] == "me"
    assert provider.token() == token
    assert provider.extensions() == {"logicalCluster": "a"}
    assert endpoint.forms == [{"grant_type": ["client_credentials"], "scope": ["kafka"]}]


def test_a_token_is_renewed_before_it_expires(
    endpoint: TokenEndpoint, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint.life = 100
    now = 1000.0
    monkeypatch.setattr("backend.kafka.tokens.time.monotonic", lambda: now)
    provider = TokenProvider(client_of(endpoint, authority))
    for later, fetched in ((0, 1), (79, 1), (81, 2), (159, 2), (170, 3)):
        now = 1000.0 + later
        provider.token()
        assert len(endpoint.forms) == fetched, later


def test_a_wrong_secret_is_not_in_the_error(endpoint: TokenEndpoint, authority: Authority) -> None:
    client = dataclasses.replace(client_of(endpoint, authority), client_secret="guessed")
    with pytest.raises(KafkaConnectionError) as raised:
        TokenProvider(client).token()
    assert str(raised.value).endswith(
        f"no OAuth token from {endpoint.url} for client me: status 401"
    )
    assert raised.value.__cause__ is None
    assert "guessed" not in repr(raised.value)


def test_an_endpoint_of_another_authority_is_refused(endpoint: TokenEndpoint) -> None:
    client = OidcClient(endpoint.url, "me", SECRET)
    with pytest.raises(KafkaConnectionError, match="CERTIFICATE_VERIFY_FAILED"):
        TokenProvider(client).token()
    assert not endpoint.forms


def test_an_endpoint_that_is_away_is_named() -> None:
    [port] = free_ports(1)
    client = OidcClient(f"http://127.0.0.1:{port}/token", "me", SECRET)
    with pytest.raises(KafkaConnectionError, match=rf"127\.0\.0\.1:{port}/token .*refused"):
        TokenProvider(client).token()


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"HTTP/1.0 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n", "status 302"),
        (b"no http\r\n\r\n", "no http"),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 9\r\n\r\n{}", "no access_token"),
        (b"HTTP/1.0 200 OK\r\n\r\n{}", "no access_token"),
        (b"HTTP/1.0 200 OK\r\n\r\n[]", "no access_token"),
        (b"HTTP/1.0 200 OK\r\n\r\ns3cret", "no access_token"),
        (b'HTTP/1.0 200 OK\r\n\r\n{"access_token": "a\\u0001b"}', "no access_token"),
        (b"HTTP/1.0 200 OK\r\n\r\n" + b" " * 70_000, "no access_token"),
    ],
)
def test_odd_answers_are_errors(answer: bytes, why: str) -> None:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        client = OidcClient(f"http://127.0.0.1:{server.server_port}/", "me", SECRET)
        with pytest.raises(KafkaConnectionError, match=why) as raised:
            TokenProvider(client).token()
        thread.join(10)
    assert "s3cret" not in str(raised.value)

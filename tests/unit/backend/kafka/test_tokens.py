"""Tests of kafka-python's OAuth tokens: fetched over TLS, kept for most of their life, and no error
has a secret. tests/system/security has the real broker."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import jwt
import pytest
from kafka.errors import KafkaConnectionError

from backend.kafka import tokens
from backend.kafka.tokens import FunctionTokens, TokenProvider
from local.ports import free_ports
from model.kafka.config import OidcClient
from model.kafka.token_function import TokenFunction
from tests.support.secure_kafka.certificates import Authority
from tests.support.secure_kafka.token_endpoint import TokenEndpoint
from tests.unit.model.http.servers import HEADS, dripping, proxy, speaking

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


def test_a_token_of_a_function_is_kept_for_most_of_its_life(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, wall, calls = 1000.0, 5e8, 0

    def function() -> tuple[str, float, str, dict[str, str]]:
        nonlocal calls
        calls += 1
        return f"t{calls}", wall + 100, "", {"call": str(calls)}

    monkeypatch.setattr("backend.kafka.tokens.time.monotonic", lambda: now)
    monkeypatch.setattr("backend.kafka.tokens.time.time", lambda: wall)
    monkeypatch.setattr(f"{__name__}.FUNCTION", function, raising=False)
    provider = FunctionTokens(TokenFunction(f"{__name__}:FUNCTION"))
    for later, expected in ((0, "1"), (79, "1"), (81, "2"), (159, "2"), (170, "3")):
        now, wall = 1000.0 + later, 5e8 + later
        assert provider.token() == f"t{expected}"
        assert provider.extensions() == {"call": expected}


def test_an_error_of_a_function_is_one_after_which_kafka_python_tries_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(f"{__name__}.FUNCTION", lambda: ("s3cret", 1), raising=False)
    provider = FunctionTokens(TokenFunction(f"{__name__}:FUNCTION"))
    with pytest.raises(KafkaConnectionError, match="the token has expired") as raised:
        provider.token()
    assert "s3cret" not in repr(raised.value)


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
    with pytest.raises(
        KafkaConnectionError, match="certificate is not accepted: unable to get local"
    ):
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
        (b"no http\r\n\r\n", "the answer is not HTTP"),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 9\r\n\r\n{}", "before the answer was complete"),
        (b"HTTP/1.0 200 OK\r\n\r\n{}", "no access_token"),
        (b"HTTP/1.0 200 OK\r\n\r\n[]", "no access_token"),
        (b"HTTP/1.0 200 OK\r\n\r\n" + b"[" * 2000 + b"]" * 2000, "no access_token"),
        (b"HTTP/1.0 200 OK\r\n\r\ns3cret", "no access_token"),
        (b'HTTP/1.0 200 OK\r\n\r\n{"access_token": "a\\u0001b"}', "no access_token"),
        (b"HTTP/1.0 200 OK\r\n\r\n" + b" " * 70_000, "more than 65536 bytes"),
    ],
)
def test_odd_answers_are_errors(answer: bytes, why: str) -> None:
    with speaking(answer) as url, pytest.raises(KafkaConnectionError, match=why) as raised:
        TokenProvider(OidcClient(url, "me", SECRET)).token()
    assert "s3cret" not in str(raised.value)


@pytest.mark.slow
@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
def test_an_endpoint_that_drips_is_not_waited_for(
    head: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: it held kafka-python's thread for as long as it sent a byte now and then."""
    monkeypatch.setattr(tokens, "_TIMEOUT", 0.2)
    with dripping(head) as url, pytest.raises(KafkaConnectionError, match="no answer in time"):
        TokenProvider(OidcClient(url, "me", SECRET)).token()


def test_a_file_is_no_endpoint(tmp_path: Path) -> None:
    """Regression: the token was read from it."""
    file = tmp_path / "token"
    file.write_text('{"access_token": "a"}')
    with pytest.raises(KafkaConnectionError, match="URL"):
        TokenProvider(OidcClient(file.as_uri(), "me", SECRET)).token()


def test_the_proxy_of_the_environment_is_used(
    endpoint: TokenEndpoint, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "")
    with proxy() as running:
        monkeypatch.setenv("https_proxy", running.url)
        assert TokenProvider(client_of(endpoint, authority)).token()
    [head] = running.heads
    assert head.startswith("CONNECT ")
    assert "Authorization" not in head

"""Tokens of clients: where they come from, where they are sent, and the errors about them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from queryable import BadUse, Client, Forbidden, Unauthenticated
from queryable.client.tokens import token_source
from tests.support.clients.scripted_transport import BASE, PROCESSORS
from tests.unit.queryable.client.fake_server import RequestHandler, serving
from tests.unit.queryable.client.test_connection_errors import KINDS, make_client

SECRET = "aSecret.That-No_Error/Shows=="


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as running:
        yield running


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QUERYABLE_TOKEN", raising=False)


def recording(seen: list[str | None], document: Any = None) -> Callable[[RequestHandler], None]:
    def respond(request: RequestHandler) -> None:
        seen.append(request.headers["Authorization"])
        request.respond(200, document or {"key": "a", "value": 1})

    return respond


@pytest.mark.parametrize("kind", KINDS)
def test_every_request_has_the_token(runner: asyncio.Runner, kind: str) -> None:
    seen: list[str | None] = []
    with serving(recording(seen)) as server:
        client = make_client(kind, server.url, runner, token="one")
        client.get("orders", "a")
        client.get("orders", "b")
        client.close()
        without = make_client(kind, server.url, runner)
        without.get("orders", "a")
        without.close()
    assert seen == ["Bearer one", "Bearer one", None]


@pytest.mark.parametrize("kind", KINDS)
def test_a_function_is_asked_for_each_request(runner: asyncio.Runner, kind: str) -> None:
    seen: list[str | None] = []
    tokens = iter(["one", "two\n", "three"])
    with serving(recording(seen)) as server:
        client = make_client(kind, server.url, runner, token=lambda: next(tokens))
        client.view("orders")
        client.get("orders", "a")
        client.get("orders", "a")
        client.close()
    assert seen == ["Bearer two", "Bearer three"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_token_file_is_read_again_when_it_changes(
    runner: asyncio.Runner, kind: str, tmp_path: Path
) -> None:
    seen: list[str | None] = []
    file, new = tmp_path / "token", tmp_path / "new"
    file.write_text("one\n")
    with serving(recording(seen)) as server:
        client = make_client(kind, server.url, runner, token_file=file)
        client.get("orders", "a")
        new.write_text("two\n")
        new.replace(file)
        client.get("orders", "a")
        file.unlink()  # while it is being replaced, the last token stays in use
        client.get("orders", "a")
        file.write_text("")
        client.get("orders", "a")
        file.write_text("three")
        client.get("orders", "a")
        client.close()
    assert seen == [f"Bearer {token}" for token in ("one", "two", "two", "two", "three")]


@pytest.mark.parametrize("kind", KINDS)
def test_a_redirect_to_another_host_does_not_get_the_token(
    runner: asyncio.Runner, kind: str
) -> None:
    seen: list[str | None] = []
    with serving(recording(seen)) as other:

        def redirect(request: RequestHandler) -> None:
            request.respond(307, {}, Location=f"{other.url}{request.path}")

        with serving(redirect) as server:
            client = make_client(kind, server.url, runner, token=SECRET)
            with pytest.raises(Exception, match="307") as raised:
                client.get("orders", "a")
            assert SECRET not in str(raised.value)
            client.close()
    assert other.paths == []
    assert seen == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_direct_client_sends_the_token_to_the_instances(
    runner: asyncio.Runner, kind: str
) -> None:
    at_instance: list[str | None] = []
    at_proxy: list[str | None] = []
    with serving(recording(at_instance)) as instance:
        address = {"host": "127.0.0.1", "port": int(instance.url.rpartition(":")[2])}
        processors = [{**each, **address} for each in PROCESSORS["processors"]]  # type: ignore[attr-defined]
        with serving(recording(at_proxy, {**PROCESSORS, "processors": processors})) as proxy:
            client = make_client(kind, proxy.url, runner, direct=True, token="one")
            client.get("orders", "a")
            client.close()
    assert at_instance == at_proxy == ["Bearer one"]


@pytest.mark.parametrize("kind", KINDS)
def test_refusals_have_their_types(runner: asyncio.Runner, kind: str) -> None:
    challenge = 'Bearer realm="x", error="insufficient_scope", scope="read:orders"'

    def refuse(request: RequestHandler) -> None:
        status, code = (401, "unauthenticated") if "/a" in request.path else (403, "forbidden")
        document = {"code": code, "detail": "A detail.", "status": status}
        request.respond(status, document, WWW_Authenticate=challenge)

    with serving(refuse) as server:
        client = make_client(kind, server.url, runner, token="one")
        with pytest.raises(Unauthenticated, match="A detail") as unauthenticated:
            client.get("orders", "a")
        with pytest.raises(Forbidden) as forbidden:
            client.get("orders", "b")
        client.close()
        assert len(server.paths) == 2, "refusals are not retried"
    assert (unauthenticated.value.status, unauthenticated.value.code) == (401, "unauthenticated")
    assert (forbidden.value.status, forbidden.value.scope) == (403, "read:orders")


def test_the_environment_has_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUERYABLE_TOKEN", "one\n")
    source = token_source(None, None)
    assert source is not None
    assert source() == "one"
    assert token_source("", None) is None
    monkeypatch.setenv("QUERYABLE_TOKEN", "")
    assert token_source(None, None) is None


@pytest.mark.parametrize("token", ["x y", "a\r\nHost: x", "é", " ", "{}"])
def test_a_text_that_is_no_token_is_rejected_without_naming_it(token: str, tmp_path: Path) -> None:
    with pytest.raises(BadUse, match="token has") as raised:
        Client(token=token)
    assert token == " " or token not in str(raised.value)
    source = token_source(lambda: token, None)
    assert source is not None
    with pytest.raises(BadUse, match="the function for the token has"):
        source()
    (tmp_path / "token").write_text(token)
    with pytest.raises(BadUse, match=r"the token file .* has"):
        Client(token_file=tmp_path / "token")


def test_a_token_file_that_cannot_be_read_is_an_error_at_once(tmp_path: Path) -> None:
    with pytest.raises(BadUse, match=r"Cannot read the token file .*: No such file"):
        Client(token_file=tmp_path / "missing")
    with pytest.raises(BadUse, match="not both"):
        Client(token="a", token_file=os.devnull)


def test_no_representation_shows_the_token() -> None:
    from queryable.client.protocol.calls import point
    from queryable.client.protocol.context import ClientContext, Settings

    context = ClientContext(Settings(BASE, token=lambda: SECRET), lambda: 1.0)
    operation = next(point.get(context, "orders", "a"))
    assert SECRET in operation.request.headers["authorization"]  # type: ignore[union-attr]
    assert SECRET not in repr(operation)
    assert SECRET not in repr(context.settings)

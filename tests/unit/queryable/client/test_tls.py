"""The TLS options of both clients, and their errors."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from queryable import AsyncClient, BadUse, Client, NoAnswer
from tests.support.clients.both_clients import AnyClient
from tests.support.security.tls import Authority
from tests.unit.queryable.client.fake_server import Server, serving, use_tls

DOCUMENT = {"views": []}
BOTH = pytest.mark.parametrize("client_class", [Client, AsyncClient])
AnyClass = type[Client] | type[AsyncClient]


@pytest.fixture
def authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Authority:
    for name in ("QUERYABLE_CA_FILE", "SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
    return Authority(tmp_path)


@pytest.fixture
def server(authority: Authority) -> Iterator[Server]:
    """A server of this API with a certificate of the authority for 127.0.0.1."""
    with serving(lambda handler: handler.respond(200, DOCUMENT)) as server:
        use_tls(server, authority)
        yield server


def views(client_class: AnyClass, url: str, **options: Any) -> Any:
    with asyncio.Runner() as runner:
        client = AnyClient(client_class(url, timeout=30, **options), runner, "")
        try:
            return client.views()
        finally:
            client.close()


@BOTH
def test_the_authority_is_an_argument_or_in_the_environment(
    server: Server,
    authority: Authority,
    client_class: AnyClass,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    assert views(client_class, server.url, ca_file=authority.ca) == []
    with pytest.raises(NoAnswer, match="certificate is not accepted: unable to get local issuer"):
        views(client_class, server.url)
    for name in ("QUERYABLE_CA_FILE", "SSL_CERT_FILE"):
        monkeypatch.setenv(name, str(authority.ca))
        assert views(client_class, server.url) == []
        monkeypatch.delenv(name)

    # the argument is more than the environment
    monkeypatch.setenv("QUERYABLE_CA_FILE", str(authority.ca))
    other = Authority(tmp_path / "other")
    with pytest.raises(NoAnswer, match="certificate is not accepted"):
        views(client_class, server.url, ca_file=other.ca)


@BOTH
def test_the_host_name_is_verified(
    server: Server, authority: Authority, client_class: AnyClass
) -> None:
    url = server.url.replace("127.0.0.1", "localhost")
    with pytest.raises(NoAnswer, match=r"not accepted: Hostname mismatch.*'localhost'") as error:
        views(client_class, url, ca_file=authority.ca)
    assert not error.value.may_have_arrived
    assert server.paths == []


@BOTH
@pytest.mark.filterwarnings("ignore:Unverified HTTPS request")
def test_verification_can_be_turned_off(server: Server, client_class: AnyClass) -> None:
    assert views(client_class, server.url, verify=False) == []


@BOTH
def test_a_server_without_tls_is_a_clear_error(client_class: AnyClass) -> None:
    with (
        serving(lambda handler: handler.respond(200, DOCUMENT)) as plain,
        pytest.raises(NoAnswer, match=r"does not speak TLS at this port. Is it http://"),
    ):
        views(client_class, plain.url.replace("http:", "https:"))


@BOTH
def test_wrong_options_are_an_error_at_once(client_class: AnyClass, tmp_path: Path) -> None:
    text = tmp_path / "text.pem"
    text.write_text("no certificate")
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"ca_file": tmp_path / "missing"}, "missing as ca_file: No such file"),
        ({"ca_file": text}, "text.pem as ca_file: it has no certificates"),
        ({"ca_file": text, "verify": False}, "no effect with verify=False"),
    ]
    for options, message in wrong:
        with pytest.raises(BadUse, match=message):
            client_class("https://127.0.0.1:1", **options)

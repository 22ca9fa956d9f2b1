"""How instances reach each other by TLS: whom they trust, and the certificate that they show."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest

from backend.admin.topology import UNREACHABLE, Peers
from backend.cluster import peer_client, peer_posts
from backend.cluster.peer_client import PeerClient
from backend.http.asgi import Receive, Scope, Send
from backend.instance.settings import Settings
from backend.security.certificates import Certificates
from model.problems import Unavailable
from model.topology import Member
from tests.support.running_server import App, answer, run, running_server
from tests.support.security.tls import Authority


@pytest.fixture(autouse=True)
def handshakes_of_a_busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (peer_client, peer_posts):
        monkeypatch.setattr(module, "CONNECT_SECONDS", 10.0)


async def respond_name(scope: Scope, receive: Receive, send: Send) -> None:
    """The subject of the client's certificate, as the /instance of b2."""
    name = scope["extensions"]["tls"]["client_cert_name"]
    await answer(send, b'{"id": "b2", "name": "%s"}' % name.encode())


def certificates(authority: Authority, name: str, *hosts: str) -> Certificates:
    cert, key = authority.issue(name, *hosts)
    return Certificates(
        Settings(
            tls_cert_file=cert,
            tls_key_file=key,
            tls_client_ca_file=authority.ca,
            tls_ca_file=authority.ca,
        )
    )


def requiring(used: Certificates) -> ssl.SSLContext:
    """A server that refuses connections without a client certificate."""
    assert used.listening is not None
    used.listening.verify_mode = ssl.CERT_REQUIRED
    return used.listening


def test_all_clients_of_an_instance_verify_the_peer_and_show_their_certificate(
    tmp_path: Path,
) -> None:
    authority = Authority(tmp_path)
    mine = certificates(authority, "b1")
    peer = requiring(certificates(authority, "b2", "127.0.0.1"))

    async def main() -> None:
        async with running_server(App(respond_name), tls=peer) as (_, port):
            member = Member("b2", "127.0.0.1", port, scheme="https")
            client = PeerClient("b1", 10.0, certificates=mine)
            forwarded = await client.forward(member, "GET", b"/any", [])
            assert forwarded.body == b'{"id": "b2", "name": "CN=b1"}'
            posted = await client.post(member, b"/any", b"x")
            assert posted.body == forwarded.body
            async with client.stream(member, b"/any", []) as (head, chunks):
                assert head.status == 200
                assert b"".join([chunk async for chunk in chunks]) == forwarded.body

            # a renewed certificate is shown by the next request
            authority.issue("renewed", file="b1")
            mine.refresh()
            renewed = await client.forward(member, "GET", b"/any", [])
            assert renewed.body == b'{"id": "b2", "name": "CN=renewed"}'
            assert (await client.post(member, b"/any", b"x")).body == renewed.body
            await client.close()

            peers = Peers(timeout=10, deadline=20, certificates=mine)
            statuses = await asyncio.to_thread(peers.ask, [member])
            assert statuses == [{"id": "b2", "name": "CN=renewed"}]

    run(main())


@pytest.mark.parametrize("wrong", ["name", "authority"])
def test_a_peer_with_a_wrong_certificate_is_unreachable(tmp_path: Path, wrong: str) -> None:
    authority, other = Authority(tmp_path / "a"), Authority(tmp_path / "b", "other")
    mine = certificates(authority, "b1")
    if wrong == "name":
        peer = certificates(authority, "b2", "192.0.2.1")
    else:
        peer = certificates(other, "b2", "127.0.0.1")
    app = App(respond_name)

    async def main() -> None:
        async with running_server(app, tls=peer.listening) as (_, port):
            member = Member("b2", "127.0.0.1", port, scheme="https")
            client = PeerClient("b1", 10.0, certificates=mine)
            try:
                with pytest.raises(Unavailable, match="certificate verify failed"):
                    await client.forward(member, "GET", b"/any", [])
                with pytest.raises(Unavailable, match="certificate verify failed"):
                    await client.post(member, b"/any", b"x")
            finally:
                await client.close()
            peers = Peers(timeout=10, deadline=20, certificates=mine)
            [status] = await asyncio.to_thread(peers.ask, [member])
            assert status["state"] == UNREACHABLE
            assert "the server's certificate is not accepted" in status["error"]
        assert app.calls == 0

    run(main())

"""Connections over TLS: all requests as without it, renewed certificates, client certificates."""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from backend.http.asgi import Receive, Scope, Send
from backend.instance.settings import Settings
from backend.security.certificates import Certificates
from backend.security.mutual_tls import has_cluster_certificate, is_from_proxy
from backend.server.tls_extension import tls_extension
from tests.support.running_server import (
    LIMITS,
    TIMEOUT,
    App,
    answer,
    client,
    run,
    running_server,
    until,
)
from tests.support.security.tls import Authority

GET = b"GET %s HTTP/1.1\r\nHost: h\r\nX-Other: 1\r\n\r\n"
PASSED_ON = (b"Queryable-Final-Status: 530", b"X-Forwarded-For: 203.0.113.7", b"Via: 1.1 edge")


async def respond_tls(scope: Scope, receive: Receive, send: Send) -> None:
    """What the application sees of the connection."""
    seen = {
        "scheme": scope["scheme"],
        "cluster": has_cluster_certificate(scope),
        "proxy": is_from_proxy(scope),
        **scope.get("extensions", {}).get("tls", {}),
    }
    await answer(send, orjson.dumps(seen))


class Connected:
    """A client's connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def body(self, request: bytes) -> bytes:
        """The body of the answer, which has a Content-Length."""
        self._writer.write(request)
        async with asyncio.timeout(TIMEOUT):
            head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
            length = int(head.partition(b"content-length: ")[2].split(b"\r\n")[0])
            return await self._reader.readexactly(length)

    async def seen(self, request: bytes = GET % b"/slow") -> Any:
        return orjson.loads(await self.body(request))

    def server_name(self) -> str:
        """The common name of the server's certificate."""
        certificate = self._writer.get_extra_info("ssl_object").getpeercert()
        return str(dict(part[0] for part in certificate["subject"])["commonName"])

    def close(self) -> None:
        self._writer.close()


async def connect(port: int, context: ssl.SSLContext, name: str = "127.0.0.1") -> Connected:
    async with asyncio.timeout(TIMEOUT):
        return Connected(
            *await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=name)
        )


def settings_of(authority: Authority, client_ca: Path | None = None) -> Settings:
    cert, key = authority.issue("b1", "127.0.0.1", "localhost", file="server")
    return Settings(tls_cert_file=cert, tls_key_file=key, tls_client_ca_file=client_ca)


def test_plain_and_other_requests_are_answered_as_without_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    used = Certificates(settings_of(authority))
    app = App(respond_tls)

    async def main() -> None:
        async with running_server(app, tls=used.listening) as (_, port):
            connection = await connect(port, authority.context())
            path = b"/fast/" + b"k" * 3000
            assert await connection.body(b"GET " + path + b" HTTP/1.1\r\nHost: h\r\n\r\n") == path
            assert app.calls == 0
            seen = await connection.seen()
            assert seen["scheme"] == "https"
            assert seen["tls_version"] == "TLSv1.3"
            assert seen["client_cert_name"] is None
            assert app.calls == 1
            large = b"x" * 300_000
            request = b"POST /internal/reads HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n"
            assert await connection.body(request % len(large) + large) is not None
            connection.close()

            old = authority.context()
            old.maximum_version = ssl.TLSVersion.TLSv1_2
            connection = await connect(port, old)
            assert (await connection.seen())["tls_version"] == "TLSv1.2"
            connection.close()
            with pytest.warns(DeprecationWarning, match="TLSv1_1"):
                old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
            old.set_ciphers("ALL:@SECLEVEL=0")
            assert used.listening is not None
            assert used.listening.minimum_version == ssl.TLSVersion.TLSv1_2
            with pytest.raises(ConnectionError):
                await connect(port, old)

    run(main())


def test_handshakes_that_do_not_end_are_counted(tmp_path: Path) -> None:
    """Regression: they could use up the open files of the process."""
    authority = Authority(tmp_path)
    used = Certificates(settings_of(authority))

    async def main() -> None:
        limits = replace(LIMITS, worker_connections=3)
        async with running_server(App(), limits, used.listening) as (server, port):
            honest = await connect(port, authority.context())
            assert await honest.body(GET % b"/fast") == b"ok"
            silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(5)]
            silent[0][1].write(b"GET /fast HTTP/1.1\r\n\r\n")  # no TLS
            for reader, writer in silent[:3]:
                async with asyncio.timeout(TIMEOUT):
                    with suppress(ConnectionError):
                        await reader.read()  # until the server closes it
                writer.close()
            assert len(server.open) <= 3
            assert await honest.body(GET % b"/fast") == b"ok"
            other = await connect(port, authority.context())
            assert await other.body(GET % b"/fast") == b"ok"
            for _, writer in silent[3:]:
                writer.close()
            honest.close()
            other.close()
            await until(lambda: not server.connections and not len(server.open), "all to end")

    run(main())


def test_a_request_that_arrives_with_the_end_of_the_handshake(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    used = Certificates(settings_of(authority))

    async def main() -> None:
        async with (
            running_server(App(), tls=used.listening) as (_, port),
            client(port) as (reader, writer),
        ):
            received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
            tls = authority.context().wrap_bio(received, sent, server_hostname="127.0.0.1")
            answered = b""
            is_shaken = False
            async with asyncio.timeout(TIMEOUT):
                while not answered.endswith(b"ok"):
                    try:
                        if not is_shaken:
                            tls.do_handshake()
                            is_shaken = True
                            tls.write(GET % b"/fast")  # in the same packet
                        answered += tls.read(1000)
                    except ssl.SSLWantReadError:
                        writer.write(sent.read())
                        data = await reader.read(65536)
                        assert data, "the server has closed the connection"
                        received.write(data)
            assert answered.startswith(b"HTTP/1.1 200")

    run(main())


def test_renewed_certificates_are_shown_to_new_connections_and_open_ones_stay(
    tmp_path: Path,
) -> None:
    authority = Authority(tmp_path)
    used = Certificates(settings_of(authority))

    async def main() -> None:
        async with running_server(App(respond_tls), tls=used.listening) as (_, port):
            before = await connect(port, authority.context())
            assert before.server_name() == "b1"
            authority.issue("renewed", "127.0.0.1", "localhost", file="server")
            used.refresh()
            for name in ("127.0.0.1", "localhost"):  # without and with a server name in TLS
                after = await connect(port, authority.context(), name)
                assert after.server_name() == "renewed"
                assert (await after.seen())["scheme"] == "https"
                after.close()
            assert (await before.seen())["scheme"] == "https"
            before.close()

    run(main())


def test_client_certificates_are_verified_and_their_authority_can_be_replaced(
    tmp_path: Path,
) -> None:
    authority, cluster = Authority(tmp_path / "a"), Authority(tmp_path / "b", "cluster")
    new, stranger = Authority(tmp_path / "c", "new"), Authority(tmp_path / "d", "stranger")
    used = Certificates(settings_of(authority, cluster.ca))
    of_cluster = cluster.issue("b2", organization="Shop, Inc.")

    async def main() -> None:
        async with running_server(App(respond_tls), tls=used.listening) as (_, port):
            with_certificate = await connect(port, authority.context(of_cluster))
            seen = await with_certificate.seen()
            assert seen["cluster"]
            assert seen["client_cert_name"] == "CN=b2,O=Shop\\, Inc."

            without = await connect(port, authority.context())
            assert not (await without.seen())["cluster"]
            without.close()

            async def is_refused(context: ssl.SSLContext) -> bool:
                try:
                    # TLS 1.3: the client gets the refusal with its first read
                    connection = await connect(port, context)
                    await connection.seen()
                except (ssl.SSLError, OSError, asyncio.IncompleteReadError):
                    return True
                return False

            assert await is_refused(authority.context(stranger.issue("b2")))
            assert await is_refused(authority.context(cluster.issue("b2", file="x", days=-1)))

            cluster.ca.write_bytes(new.ca.read_bytes())
            used.refresh()
            assert await is_refused(authority.context(of_cluster))
            renewed = await connect(port, authority.context(new.issue("b2")))
            assert (await renewed.seen())["cluster"]
            renewed.close()
            assert (await with_certificate.seen())["cluster"]  # an open connection stays
            with_certificate.close()

    run(main())


def test_a_request_that_a_proxy_passes_on_is_not_one_of_the_cluster(tmp_path: Path) -> None:
    """nor is any later request of that connection, should a client have smuggled it in."""
    authority = Authority(tmp_path)
    used = Certificates(settings_of(authority, authority.ca))
    proxy, app = authority.context(authority.issue("proxy")), App(respond_tls)

    async def main() -> None:
        async with running_server(app, tls=used.listening) as (_, port):
            for header in PASSED_ON:
                request = b"GET /slow HTTP/1.1\r\nHost: h\r\nX-Other: 1\r\n%b\r\n\r\n" % header
                connection = await connect(port, proxy)
                assert (await connection.seen())["cluster"]
                assert not (await connection.seen(request))["cluster"]
                assert not (await connection.seen())["cluster"]
                assert (await connection.seen())["proxy"]
                connection.close()
                # without a parser
                plain, calls = b"GET /fast/k HTTP/1.1\r\nHost: h\r\n%b\r\n\r\n", app.calls
                connection = await connect(port, proxy)
                assert await connection.body(plain % b"Accept: */*") == b"/fast/k"
                assert (await connection.seen())["cluster"]
                assert await connection.body(plain % header) == b"/fast/k"
                assert app.calls == calls + 1
                assert not (await connection.seen())["cluster"]
                connection.close()
            again = await connect(port, proxy)
            seen = await again.seen()
            assert (seen["cluster"], seen["proxy"]) == (True, False)
            again.close()

    run(main())


def test_a_resumed_session_does_not_count_as_a_verified_certificate(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    used = Certificates(settings_of(authority, authority.ca))

    def names(version: ssl.TLSVersion, port: int) -> list[tuple[bool | None, str | None]]:
        """Of two connections, of which the second offers the session of the first: whether it was
        resumed, and the name that the application sees."""
        context = authority.context(authority.issue("b2"))
        context.minimum_version = context.maximum_version = version
        session, seen = None, []
        for _ in range(2):
            with (
                socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT) as connection,
                context.wrap_socket(
                    connection, server_hostname="127.0.0.1", session=session
                ) as tls,
            ):
                tls.sendall(GET % b"/slow")
                body = tls.recv(10_000).partition(b"\r\n\r\n")[2] or tls.recv(10_000)
                seen.append((tls.session_reused, orjson.loads(body)["client_cert_name"]))
                session = tls.session
        return seen

    async def main() -> None:
        async with running_server(App(respond_tls), tls=used.listening) as (_, port):
            of_tls_1_2 = await asyncio.to_thread(names, ssl.TLSVersion.TLSv1_2, port)
            assert of_tls_1_2 == [(False, "CN=b2"), (True, None)]
            of_tls_1_3 = await asyncio.to_thread(names, ssl.TLSVersion.TLSv1_3, port)
            assert of_tls_1_3 == [(False, "CN=b2"), (False, "CN=b2")]

    run(main())


def test_names_of_certificates_are_escaped() -> None:
    class Handshake:
        session_reused = False

        def getpeercert(self) -> dict[str, Any]:
            parts = (
                (("organizationName", " a+b "),),
                (("commonName", '#"\\'), ("serialNumber", "1")),
            )
            return {"subject": parts}

        def version(self) -> str:
            return "TLSv1.3"

    expected = r"CN=\#\"\\+serialNumber=1,O=\ a\+b\ "
    assert tls_extension(Handshake())["client_cert_name"] == expected

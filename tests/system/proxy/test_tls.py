"""TLS at nginx, as in docker/listen-tls.conf and docker/redirect-to-https.conf."""

from __future__ import annotations

import http.client
import re
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from local.ports import free_ports
from local.settings import REPOSITORY
from local.waiting import wait_until
from tests.support.client import Client
from tests.support.nginx import Nginx
from tests.support.security.tls import Authority, public_folder
from tests.system.proxy.backends import EPOCH, Cluster

READERS = 8


def example(name: str) -> str:
    """An example of the repository, with an address of the test."""
    text = (REPOSITORY / "docker" / name).read_text()
    return text.replace("0.0.0.0:8443", "127.0.0.1:{port}")


@pytest.fixture
def folder() -> Iterator[Path]:
    with public_folder() as path:
        yield path


@pytest.fixture
def authority(folder: Path) -> Authority:
    """It has issued the certificate of nginx."""
    authority = Authority(folder)
    authority.issue("first", "127.0.0.1", "localhost", file="server")
    return authority


@pytest.fixture
def redirect_port() -> int:
    return free_ports(1)[0]


@pytest.fixture
def nginx(
    cluster: Cluster, folder: Path, authority: Authority, redirect_port: int, tmp_path: Path
) -> Iterator[Nginx]:
    files = {
        "listen.conf": example("listen-tls.conf").replace(" tls/", f" {folder}/"),
        "conf.d/redirect-to-https.conf": example("redirect-to-https.conf").replace(
            "0.0.0.0:8080", f"127.0.0.1:{redirect_port}"
        ),
    }
    with Nginx(
        tmp_path / "prefix", cluster.addresses(), files=files, context=authority.context()
    ) as nginx:
        nginx.wait_for_map(EPOCH)
        yield nginx


def test_the_example(nginx: Nginx, redirect_port: int, authority: Authority) -> None:
    with nginx.client() as client:
        answer = client.get("/words/a")
        assert answer.status == 200
        assert answer.headers["Strict-Transport-Security"] == "max-age=31536000"
        # also with answers of nginx itself
        refused = client.get("/internal/scan")
        assert refused.status == 404
        assert refused.headers["Strict-Transport-Security"] == "max-age=31536000"
        # a header of listen.conf does not replace those of nginx.conf
        for each in (answer, refused):
            assert each.headers.get_all("X-Content-Type-Options") == ["nosniff"]

    connection = http.client.HTTPConnection("127.0.0.1", redirect_port, timeout=10)
    connection.request("GET", "/words/a%2Fb//c?x=1")
    redirect = connection.getresponse()
    assert redirect.status == 308
    assert redirect.headers["Location"] == "https://topics.example.org/words/a%2Fb//c?x=1"
    connection.close()

    plain = http.client.HTTPConnection("127.0.0.1", nginx.port, timeout=10)
    plain.request("GET", "/words/a")
    assert plain.getresponse().status == 400
    plain.close()


def test_the_pages_of_nginx_can_be_kept_from_clients(cluster: Cluster, tmp_path: Path) -> None:
    """As docs/security/authentication.md says."""
    document = (REPOSITORY / "docs" / "security" / "authentication.md").read_text()
    (location,) = re.findall(r"^```nginx\n(location .*?)^```", document, re.DOTALL | re.MULTILINE)

    def statuses(allowed: str) -> list[int]:
        listen = "listen 127.0.0.1:{port};\n" + location.replace("10.0.0.0/8", allowed)
        prefix = tmp_path / allowed.replace("/", "-")
        with Nginx(prefix, cluster.addresses(), files={"listen.conf": listen}) as nginx:
            wait_until(lambda: get(nginx, "/words/a") == 200, 10, "nginx to have a topology")
            paths = ("/proxy/health", "/proxy/metrics", "/%70roxy/health")
            return [get(nginx, path) for path in paths]

    def get(nginx: Nginx, path: str) -> int:
        with nginx.client() as client:
            return client.get(path).status

    assert statuses("127.0.0.0/8")[:2] == [200, 200]
    assert statuses("10.0.0.0/8") == [403, 403, 403]


def test_versions_before_1_2_are_refused(nginx: Nginx, authority: Authority) -> None:
    def version(latest: ssl.TLSVersion) -> str | None:
        context = authority.context()
        context.set_ciphers("ALL:@SECLEVEL=0")
        context.minimum_version = context.maximum_version = latest
        with (
            socket.create_connection(("127.0.0.1", nginx.port), timeout=10) as connection,
            context.wrap_socket(connection, server_hostname="127.0.0.1") as tls,
        ):
            return tls.version()

    assert version(ssl.TLSVersion.TLSv1_3) == "TLSv1.3"
    assert version(ssl.TLSVersion.TLSv1_2) == "TLSv1.2"
    with (
        pytest.warns(DeprecationWarning, match="TLSv1_1"),
        pytest.raises(ssl.SSLError, match="PROTOCOL_VERSION"),
    ):
        version(ssl.TLSVersion.TLSv1_1)


def test_a_reload_reads_the_certificate_again_and_loses_no_read(
    nginx: Nginx, authority: Authority
) -> None:
    """The clients keep their connections open. nginx may close one on which a request is just
    arriving: as any HTTP client (RFC 9112, 9.3.1), they repeat that one on a new connection."""
    done = threading.Event()
    answered = [0] * READERS
    failed: list[str] = []
    repeated: list[int] = []

    def get(client: Client, number: int) -> int:
        try:
            return client.get(f"/words/k{number}").status
        except ConnectionError:
            repeated.append(number)
            return client.get(f"/words/k{number}").status

    def read(number: int) -> None:
        with nginx.client() as client:
            while not done.is_set():
                try:
                    assert get(client, number) == 200
                    answered[number] += 1
                except (OSError, AssertionError) as error:
                    failed.append(repr(error))

    def shown() -> str:
        """The name in the certificate that a new connection gets."""
        context = authority.context()
        with (
            socket.create_connection(("127.0.0.1", nginx.port), timeout=10) as connection,
            context.wrap_socket(connection, server_hostname="127.0.0.1") as tls,
        ):
            certificate = tls.getpeercert()
        assert certificate
        subject: tuple[tuple[tuple[str, str], ...], ...] = certificate["subject"]  # type: ignore[assignment]
        return subject[0][0][1]

    def all_read_again() -> None:
        before = list(answered)
        wait_until(
            lambda: all(now > then + 5 for now, then in zip(answered, before, strict=True)),
            20,
            "reads from all",
        )

    threads = [threading.Thread(target=read, args=(number,)) for number in range(READERS)]
    for thread in threads:
        thread.start()
    try:
        all_read_again()
        assert shown() == "first"
        for name in ("second", "third"):
            authority.issue(name, "127.0.0.1", "localhost", file="server")
            nginx.reload()
            assert shown() == name
            all_read_again()
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert failed == []
    assert len(repeated) <= 2 * READERS  # at most once for each connection and reload

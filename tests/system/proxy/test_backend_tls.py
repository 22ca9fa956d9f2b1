"""TLS and mutual TLS from nginx to backends: requests that it passes on, and those of Lua."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from local.settings import REPOSITORY
from local.waiting import wait_until
from tests.support.nginx import Nginx
from tests.support.security.tls import Authority, public_folder
from tests.system.proxy.backends import EPOCH, Answer, Backend, Cluster, always
from tests.system.proxy.conftest import KEY, PARTITION

NAME = "backends.test"
TLS_CONF = (REPOSITORY / "docker" / "backend-tls.conf").read_text()

Start = Callable[..., Nginx]


@pytest.fixture
def folder() -> Iterator[Path]:
    """The folder `tls` of docker/backend-tls.conf."""
    with public_folder() as path:
        yield path


@pytest.fixture
def authority(folder: Path) -> Authority:
    return Authority(folder, "backends-ca")


@pytest.fixture
def mutual(authority: Authority) -> ssl.SSLContext:
    """Of backends that require a client certificate of the authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("backend", NAME))
    context.load_verify_locations(authority.ca)
    context.verify_mode = ssl.CERT_REQUIRED
    authority.issue("proxy")
    return context


@pytest.fixture
def start(tmp_path: Path, folder: Path) -> Iterator[Start]:
    """`start(backends, QUERYABLE_…=…)`: nginx with one worker and docker/backend-tls.conf."""
    with ExitStack() as running:

        def begin(backends: str, **environment: str) -> Nginx:
            settings = {
                "QUERYABLE_PROXY_REFRESH": "0.1",
                "QUERYABLE_PROXY_TLS_NAME": NAME,
                "QUERYABLE_PROXY_TLS_CERT_FILE": str(folder / "proxy.pem"),
                "QUERYABLE_PROXY_TLS_KEY_FILE": str(folder / "proxy-key.pem"),
                **environment,
            }
            files = {"conf.d/backend-tls.conf": TLS_CONF.replace(" tls/", f" {folder}/")}
            nginx = Nginx(tmp_path / "prefix", backends, settings, 1, files=files)
            running.callback(nginx.stop)
            return nginx

        yield begin


@pytest.fixture
def cluster(mutual: ssl.SSLContext) -> Iterator[Cluster]:
    """Three backends with mutual TLS; each is the standby of the previous one."""
    cluster = Cluster(["b1", "b2", "b3"], mutual)
    cluster.with_standbys()
    yield cluster
    cluster.stop()


def read(nginx: Nginx, path: str = KEY, **headers: str) -> tuple[int, bytes]:
    with nginx.client() as client:
        answer = client.get(path, **headers)
        return answer.status, answer.body


def read_together(nginx: Nginx, owner: Backend) -> None:
    """Reads from many connections until some of them were coalesced; checks all answers."""
    failed: list[object] = []
    before = len(owner.batches)

    def reader() -> None:
        with nginx.client() as client:
            for _ in range(40):
                answer = client.get(KEY)
                if (answer.status, answer.body) != (200, b'{"by": "%s"}' % owner.name.encode()):
                    failed.append(answer)

    threads = [threading.Thread(target=reader) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert max(owner.batches[before:], default=0) > 1


def test_a_backend_is_asked_about_a_token_on_kept_connections_of_their_own(
    cluster: Cluster, start: Start
) -> None:
    """A connection on which a request of a client was passed on is not nginx's own any more."""
    cluster.more = {"token_headers": ["Authorization"]}
    for backend in cluster.backends:
        backend.behave = always(Answer(404))
    nginx = start(cluster.addresses())
    nginx.token = "t"
    nginx.wait_for_map(EPOCH)
    for _ in range(30):
        assert read(nginx, "/proxy/health", Authorization="Bearer t")[0] == 200
    asked = [request for backend in cluster.backends for request in backend.requests]
    assert len(asked) >= 30
    for backend in cluster.backends:
        about_tokens = {request.connection for request in backend.requests}
        own = {request.connection for request in backend.topology_requests}
        assert about_tokens.isdisjoint(own)
        assert len(about_tokens) <= 2
        assert len(own) <= 3


def test_all_requests_use_mutual_tls(cluster: Cluster, start: Start) -> None:
    nginx = start(cluster.addresses())
    nginx.wait_for_map(EPOCH)
    owner = cluster.owner("words", PARTITION)
    assert read(nginx) == (200, b'{"by": "%s"}' % owner.name.encode())
    with nginx.client() as client:
        answer = client.request("POST", "/views/words/batch", b'{"keys": ["a"]}')
        assert answer.status == 200
    read_together(nginx, owner)

    # the standby is tried next, and the topology is read from another backend
    owner.stop()
    cluster.epoch = "1001-1"
    (standby,) = [b for b in cluster.backends if PARTITION in b.standby["words"]]
    assert read(nginx) == (200, b'{"by": "%s"}' % standby.name.encode())
    nginx.wait_for_map("1001-1")
    assert "[crit]" not in nginx.error_log()


def test_a_reload_reads_the_certificates_again(
    cluster: Cluster, start: Start, authority: Authority, folder: Path, tmp_path: Path
) -> None:
    nginx = start(cluster.addresses())
    nginx.wait_for_map(EPOCH)
    new = Authority(tmp_path / "new", "new")
    for name in ("proxy", "backend"):
        for file in new.issue(name, NAME):
            (folder / file.name).write_bytes(file.read_bytes())
    authority.ca.write_bytes(new.ca.read_bytes())
    renewed = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    renewed.load_cert_chain(*(tmp_path / "new" / f"backend{end}.pem" for end in ("", "-key")))
    renewed.load_verify_locations(new.ca)
    renewed.verify_mode = ssl.CERT_REQUIRED
    for backend in cluster.backends:
        backend.stop()
        backend.tls = renewed
        backend.start()
    nginx.reload()
    cluster.epoch = "1001-1"
    nginx.wait_for_map("1001-1")
    owner = cluster.owner("words", PARTITION)
    assert read(nginx)[0] == 200
    read_together(nginx, owner)


@pytest.mark.parametrize("wrong", ["name", "authority"])
def test_a_backend_with_a_wrong_certificate_gets_no_requests(
    cluster: Cluster, start: Start, authority: Authority, tmp_path: Path, wrong: str
) -> None:
    """The document of /processors comes from b1, whose certificate is right."""
    for backend in cluster.backends[1:]:
        backend.stop()
        issuer = Authority(tmp_path / "other") if wrong == "authority" else authority
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        host = "other.test" if wrong == "name" else NAME
        context.load_cert_chain(*issuer.issue("wrong", host))
        backend.tls = context
        backend.start()
    nginx = start(cluster.addresses().split(",")[0])
    nginx.wait_for_map(EPOCH)
    answers = {read(nginx, f"/words/k{n}") for n in range(12)}
    assert answers == {(200, b'{"by": "b1"}')}
    assert [backend.requests for backend in cluster.backends[1:]] == [[], []]
    expected = "does not match" if wrong == "name" else "verify error"
    assert expected in nginx.error_log()


def test_while_tls_is_turned_on_each_backend_is_reached_by_its_own_scheme(
    cluster: Cluster, start: Start
) -> None:
    plain, standby = cluster.owner("words", PARTITION), None
    plain.stop()
    plain.tls = None
    plain.start()
    nginx = start(cluster.addresses())
    nginx.wait_for_map(EPOCH)
    answers = {read(nginx, f"/words/k{n}") for n in range(20)}
    assert answers == {(200, b'{"by": "%s"}' % b.name.encode()) for b in cluster.backends}

    # its standby is reached by the other scheme: nginx does not try it, but another backend does
    plain.stop()
    standby = read(nginx)
    assert standby[0] == 200
    assert standby[1] != b'{"by": "%s"}' % plain.name.encode()


def test_backends_with_tls_get_no_requests_unless_the_proxy_is_told_so(
    cluster: Cluster, start: Start
) -> None:
    plain = cluster.backends[0]
    plain.stop()
    plain.tls = None
    plain.start()
    nginx = start(f"127.0.0.1:{plain.port}")
    nginx.wait_for_map(EPOCH)
    answers = {read(nginx, f"/words/k{n}")[1] for n in range(12)}
    assert answers == {b'{"by": "b1"}'}
    log = nginx.error_log()
    assert "backend b2 gets no requests: it speaks HTTPS" in log
    wait_until(lambda: nginx.health()["age_s"] is not None, 10, "the topology to be read")

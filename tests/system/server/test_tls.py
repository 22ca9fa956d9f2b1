"""A deployment in which everything speaks TLS: clients, nginx and instances."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from local.settings import REPOSITORY
from queryable import AsyncClient, Client, NoAnswer
from tests.support.backends import Backend
from tests.support.client import Client as Http
from tests.support.client import key_path
from tests.support.deployment import Deployment, settle, views_toml
from tests.support.nginx import Nginx
from tests.support.plugins.fixtures import Deploy, MakeTopic
from tests.support.security.tls import Authority, public_folder
from tests.support.topics import Writer
from tests.system.security.readers import ClientReader, HttpReader, Load, reading

HOSTS = ("127.0.0.1", "backends.test")
TABLE = {f"k{n}": {"n": n} for n in range(300)}


@dataclass
class World:
    deployment: Deployment
    authority: Authority
    nginx: Nginx

    @property
    def backends(self) -> list[Backend]:
        return self.deployment.all

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.nginx.port}"

    def issue(self) -> None:
        """New certificates of all, in the same files."""
        for name in ("instance", "server", "proxy"):
            self.authority.issue(name, *HOSTS)


@pytest.fixture(scope="module")
def world(module_deploy: Deploy, make_topic: MakeTopic, writer: Writer) -> Iterator[World]:
    """Two instances with a standby of each partition, and nginx, with mutual TLS between them."""
    topic = make_topic(4)
    writer.table(topic, TABLE)
    with public_folder() as folder:
        authority = Authority(folder, "backends-ca")
        certificate, key = authority.issue("instance", *HOSTS)
        authority.issue("server", *HOSTS)
        proxy = authority.issue("proxy", *HOSTS)
        deployment = module_deploy(
            views_toml(v={"topic": topic}),
            tls_cert_file=str(certificate),
            tls_key_file=str(key),
            tls_client_ca_file=str(authority.ca),
            tls_ca_file=str(authority.ca),
            standby_replicas="1",
            copy_threshold="20",
        )
        settle([deployment.new().launch(), deployment.new().launch()])
        nginx = deployment.proxy(
            environment={
                "QUERYABLE_PROXY_TLS_NAME": "backends.test",
                "QUERYABLE_PROXY_TLS_CERT_FILE": str(proxy[0]),
                "QUERYABLE_PROXY_TLS_KEY_FILE": str(proxy[1]),
            },
            workers=1,
            files={
                "listen.conf": _example("listen-tls.conf", folder),
                "conf.d/backend-tls.conf": _example("backend-tls.conf", folder),
            },
            context=authority.context(),
        )
        yield World(deployment, authority, nginx)


def _example(name: str, folder: Path) -> str:
    text = (REPOSITORY / "docker" / name).read_text().replace(" tls/", f" {folder}/")
    return text.replace("0.0.0.0:8443", "127.0.0.1:{port}")


def test_each_instance_says_that_it_speaks_https(world: World) -> None:
    schemes = [each["scheme"] for each in world.backends[0].processors()["processors"]]
    assert schemes == ["https", "https"]
    assert "listening on https://" in world.backends[0].log()
    with pytest.raises(ConnectionError), Http(world.backends[0].port) as plain:
        plain.get("/health/live")


@pytest.mark.parametrize("direct", [False, True], ids=["proxy", "direct"])
@pytest.mark.parametrize("kind", ["threads", "asyncio"])
def test_clients_read_by_https(world: World, direct: bool, kind: str) -> None:
    keys = list(TABLE)
    expected = {key: value["n"] for key, value in TABLE.items()}
    ca_file = world.authority.ca
    if kind == "threads":
        with Client(world.url, direct=direct, ca_file=ca_file) as client:
            assert {key: client.get("v", key).value["n"] for key in keys[:40]} == {
                key: expected[key] for key in keys[:40]
            }
            assert {row.key: row.value["n"] for row in client.scan("v")} == expected
            assert [each.value["n"] for each in client.get_many("v", keys)] == [
                expected[key] for key in keys
            ]
        return

    async def read() -> tuple[dict[str, int], dict[Any, int]]:
        async with AsyncClient(world.url, direct=direct, ca_file=ca_file) as client:
            points = await asyncio.gather(*(client.get("v", key) for key in keys[:40]))
            rows = {row.key: row.value["n"] async for row in client.scan("v")}
            return {point.key: point.value["n"] for point in points}, rows

    points, rows = asyncio.run(read())
    assert points == {key: expected[key] for key in keys[:40]}
    assert rows == expected


@pytest.mark.parametrize("kind", ["threads", "asyncio"])
def test_a_certificate_of_another_authority_is_a_clear_error_at_once(
    world: World, kind: str, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"ca_file": Authority(tmp_path).ca, "timeout": 30}

    def read() -> None:
        with Client(world.url, **options) as client:
            client.get("v", "k1")

    async def read_async() -> None:
        async with AsyncClient(world.url, **options) as client:
            await client.get("v", "k1")

    expected = r"certificate is not accepted: .*authority.*ca_file"
    with pytest.raises(NoAnswer, match=expected) as error:
        read() if kind == "threads" else asyncio.run(read_async())
    assert not error.value.may_have_arrived


def test_instances_forward_stream_and_copy_by_https(world: World) -> None:
    """A new instance gets copies of partitions, and those that it does not have are forwarded."""
    third = world.deployment.new().launch()
    settle(world.backends)
    assert "received a snapshot of" in third.log()
    with third.client() as client:
        answers = {key: client.get(key_path("v", key)) for key in TABLE}
    assert {key: answer.json()["value"] for key, answer in answers.items()} == TABLE
    assert len({answer.headers["Served-By"].split(";")[0] for answer in answers.values()}) > 1

    elsewhere = next(k for k, a in answers.items() if not a.headers["Served-By"].startswith("b3"))
    redirect = third.get(key_path("v", elsewhere) + "?route=redirect")
    assert redirect.status == 307, redirect
    assert redirect.headers["Location"].startswith("https://127.0.0.1:")

    document = third.get("/admin/topology.json").json()
    assert {each["state"] for each in document["instances"]} == {"running"}, document["instances"]
    # heartbeats: an instance whose heartbeats fail is dead
    for backend in world.backends:
        states = {each["state"] for each in backend.processors()["processors"]}
        assert states == {"running"}
        assert "ssl" not in backend.log().lower().replace("sslv", "")


def load(world: World, ca_file: Path) -> AbstractContextManager[Load]:
    """Through nginx, at each instance, and with a client that asks the instances itself.
    `ca_file`: the authorities that it trusts."""
    client = Client(world.url, direct=True, ca_file=ca_file)
    return reading(
        [
            *(HttpReader(world.nginx.client(), TABLE, is_proxy=True) for _ in range(3)),
            *(HttpReader(each.client(), TABLE, is_proxy=False) for each in world.backends),
            ClientReader(client, TABLE),
        ]
    )


def certificates_at(ports: list[int]) -> list[str]:
    """The certificate that a new connection gets, in PEM."""
    return [ssl.get_server_certificate(("127.0.0.1", port)) for port in ports]


def test_renewed_certificates_are_used_without_a_failed_read(world: World) -> None:
    ports = [world.nginx.port, *(backend.port for backend in world.backends)]
    with load(world, world.authority.ca) as reads:
        before = certificates_at(ports)
        world.issue()
        for backend in world.backends:
            backend.wait_log("new connections use them")
        world.nginx.reload()
        assert not set(before) & set(certificates_at(ports))
        reads.all_again()
    for backend in world.backends:
        states = {each["state"] for each in backend.processors()["processors"]}
        assert states == {"running"}


def test_a_replaced_authority_without_a_failed_read(world: World) -> None:
    """The last test: it replaces the authority, in the documented steps."""
    old, new = world.authority, Authority(world.authority.ca.parent, "next-ca")
    file, context = old.ca, world.nginx.context
    assert context is not None
    old_client = old.issue("old-client")

    def trust(*authorities: bytes) -> None:
        changed = file.with_name("changed")
        changed.write_bytes(b"".join(authorities))
        changed.rename(file)

    def take_effect(change: Callable[[], None]) -> None:
        with all_read_files(world.backends):
            change()
        world.nginx.reload()
        reads.all_again()

    certificates = old.ca.read_bytes(), new.ca.read_bytes()
    of_client = file.with_name("client-ca.pem")
    of_client.write_bytes(b"".join(certificates))
    with load(world, of_client) as reads:
        take_effect(lambda: trust(*certificates))
        context.load_verify_locations(new.ca)  # of the clients of nginx
        world.authority = new
        take_effect(world.issue)
        take_effect(lambda: trust(certificates[1]))
    for backend in world.backends:
        with backend.client() as client:  # it trusts the new authority alone
            assert client.get(key_path("v", "k1")).status == 200
        with (
            Http(backend.port, context=new.context(old_client)) as stranger,
            pytest.raises(OSError, match=r"(?i)unknown.ca|verify|reset|closed"),
        ):
            stranger.get("/health/live")
        states = {each["state"] for each in backend.processors()["processors"]}
        assert states == {"running"}


@contextmanager
def all_read_files(backends: list[Backend]) -> Iterator[None]:
    """Wait until all backends use the files that were written in the block."""
    text = "new connections use them"
    before = {backend.id: backend.log().count(text) for backend in backends}
    yield
    for backend in backends:
        backend.wait(lambda b=backend: b.log().count(text) > before[b.id], "the new files")

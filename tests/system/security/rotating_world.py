"""Instances and nginx that clients read from while a secret is replaced."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import queryable
from local.kafka.broker import Broker, quiet_admin
from local.kafka.topics import Topic, create_topics
from tests.support.backends import Backend
from tests.support.deployment import Deployment, settle
from tests.support.nginx import Nginx
from tests.support.security.cluster_secret import SECRET
from tests.system.security.readers import ClientReader, HttpReader, Load, Reader, reading
from tests.system.security.token_keys import Issuer, into_file, pem_of

TABLE = {f"k{n}": n for n in range(16)}
KEYS = list(TABLE)
PASSWORDS = ("the first password", "the second password")


@dataclass
class World:
    deployment: Deployment
    issuer: Issuer
    nginx: Nginx

    @property
    def backends(self) -> list[Backend]:
        return self.deployment.all


@contextmanager
def running_world(
    folder: Path, bootstrap_servers: str, views: str, issuer: Issuer, **settings: str
) -> Iterator[World]:
    """Two instances with a standby of each partition, and nginx. `settings`: where the keys of the
    issuer are, and others."""
    deployment = Deployment(
        folder / "deployment",
        bootstrap_servers,
        views,
        auth="jwt",
        standby_replicas="1",
        **settings,
    )
    deployment.use_secrets(SECRET)
    deployment.token = issuer.token
    with deployment:
        deployment.start(2)
        yield World(deployment, issuer, deployment.proxy(workers=1))


@contextmanager
def world_with_pem_keys(
    folder: Path, bootstrap_servers: str, views: str, **settings: str
) -> Iterator[World]:
    """The public keys of the issuer are in a PEM file."""
    path = folder / "keys.pem"
    issuer = Issuer("EdDSA", into_file(path, pem_of))
    settings = {"jwt_key_file": str(path), **settings}
    with running_world(folder, bootstrap_servers, views, issuer, **settings) as world:
        yield world


def compacted_topic(broker: Broker, name: str) -> str:
    """A new topic of four partitions."""
    admin = quiet_admin(broker.bootstrap_servers)
    create_topics(admin, [Topic(name, 4, {"cleanup.policy": "compact"})])
    return name


def write_password(folder: Path, password: str) -> None:
    """Into the properties file that `reference_in` refers to."""
    (folder / "secrets.properties").write_text(f"password={password}\n")


def reference_in(folder: Path) -> str:
    """To what `write_password` writes."""
    return f"${{file:{folder / 'secrets.properties'}:password}}"


def load(
    world: World, *, at_instances: bool, waits_for_keys: bool = False
) -> AbstractContextManager[Load]:
    """Through nginx, and directly. With `at_instances` also at each instance without a retry,
    which fails while that one is stopped. `waits_for_keys`: see HttpReader."""

    def token() -> str:
        return world.issuer.token

    def reader_of(server: Nginx | Backend) -> HttpReader:
        is_proxy = isinstance(server, Nginx)
        return HttpReader(
            server.client(), TABLE, token, is_proxy=is_proxy, waits_for_keys=waits_for_keys
        )

    url = f"http://127.0.0.1:{world.nginx.port}"
    readers: list[Reader] = [
        *(reader_of(world.nginx) for _ in range(4)),
        ClientReader(queryable.Client(url, direct=True, token=token), TABLE),
    ]
    if at_instances:
        readers += map(reader_of, world.backends)
    return reading(readers)


def restart_all(world: World, reads: Load) -> None:
    """One after the other, while clients read."""
    for backend in world.backends:
        assert backend.stop() == 0
        backend.launch()
        settle(world.backends)
        reads.all_again()

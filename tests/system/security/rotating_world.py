"""Instances and nginx that clients read from while a secret is replaced."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.client import RemoteDisconnected
from pathlib import Path
from typing import Protocol

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

import queryable
from local.kafka.broker import quiet_admin
from local.kafka.topics import Topic, create_topics
from local.waiting import wait_until
from tests.support.backends import Backend
from tests.support.background import Background
from tests.support.client import Client, Response, key_path
from tests.support.cluster_secret import SECRET
from tests.support.deployment import Deployment, settle, views_toml
from tests.support.nginx import Nginx
from tests.support.secure_kafka.broker import SecureBroker
from tests.support.topics import Writer

TABLE = {f"k{n}": n for n in range(16)}
KEYS = list(TABLE)
PASSWORDS = ("the first password", "the second password")


class Issuer:
    """Signs tokens with the newest of its keys, and writes the public keys into a file."""

    def __init__(self, key_file: Path) -> None:
        self._file = key_file
        self._keys: list[Ed25519PrivateKey] = []
        self.token = ""
        self.add_key()
        self.use_new_key()

    def add_key(self) -> None:
        self._keys.append(Ed25519PrivateKey.generate())
        self._write()

    def use_new_key(self) -> None:
        self.token = self.token_of_new_key()

    def token_of_new_key(self) -> str:
        claims = {"sub": "reader", "scope": "read:*", "exp": time.time() + 3600}
        return jwt.encode(claims, self._keys[-1], algorithm="EdDSA")

    def remove_old_key(self) -> None:
        del self._keys[0]
        self._write()

    def _write(self) -> None:
        """As an operator should: under another name, then renamed."""
        new = self._file.with_name("new")
        form = (Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        new.write_bytes(b"".join(key.public_key().public_bytes(*form) for key in self._keys))
        new.rename(self._file)


@dataclass
class World:
    deployment: Deployment
    issuer: Issuer
    nginx: Nginx
    password_file: Path

    @property
    def backends(self) -> list[Backend]:
        return self.deployment.all


def write_password(path: Path, password: str) -> None:
    """As the properties file that views.toml refers to."""
    path.write_text(f"password={password}\n")


@contextmanager
def running_world(
    broker: SecureBroker, mechanism: str, folder: Path, kafka: dict[str, str]
) -> Iterator[World]:
    """Two instances with a standby of each partition, and nginx. `kafka`: what is other than in
    the table of the mechanism; secrets are in the file kafka.properties of the folder."""
    servers, topic = broker.bootstrap_servers, f"rotation-{mechanism}"
    create_topics(quiet_admin(servers), [Topic(topic, 4, {"cleanup.policy": "compact"})])
    Writer(servers).table(topic, TABLE)
    password_file = folder / "kafka.properties"
    issuer = Issuer(folder / "keys.pem")
    deployment = Deployment(
        folder / "deployment",
        broker.address(mechanism),
        views_toml({**broker.table(mechanism), **kafka}, v={"topic": topic}),
        auth="jwt",
        jwt_key_file=str(folder / "keys.pem"),
        standby_replicas="1",
    )
    deployment.use_secrets(SECRET)
    deployment.token = issuer.token
    write_password(password_file, PASSWORDS[0])
    with deployment:
        deployment.start(2)
        yield World(deployment, issuer, deployment.proxy(workers=1), password_file)


def reference_in(folder: Path) -> str:
    """To what `write_password` writes."""
    return f"${{file:{folder / 'kafka.properties'}:password}}"


class Reader(Protocol):
    """Reads until an answer is not right; for one thread."""

    def read(self) -> None: ...
    def close(self) -> None: ...


class HttpReader:
    """Reads keys, a batch and a page at one port, without a retry."""

    def __init__(self, port: int, issuer: Issuer) -> None:
        self._client = Client(port)
        self._issuer = issuer
        self.close = self._client.close

    def read(self) -> None:
        for key in KEYS:
            assert self._ask("GET", key_path("v", key)).json()["value"] == TABLE[key]
        body = json.dumps({"keys": KEYS}).encode()
        batch = self._ask("POST", "/views/v/batch", body).json()["items"]
        assert {item["key"]: item["value"] for item in batch} == TABLE
        page = self._ask("GET", "/views/v/keys?limit=1000").json()["items"]
        assert {item["key"]: item["value"] for item in page} == TABLE

    def _ask(self, method: str, path: str, body: bytes | None = None) -> Response:
        headers = {
            "Authorization": f"Bearer {self._issuer.token}",
            "Content-Type": "application/json",
        }
        try:
            answer = self._client.request(method, path, body, headers)
        except (RemoteDisconnected, BrokenPipeError, ConnectionResetError):
            # nginx closes idle connections when it reloads. As any HTTP client, repeat the request
            # on a new connection (RFC 9112, 9.3.1)
            answer = self._client.request(method, path, body, headers)
        assert answer.status == 200, f"{time.strftime('%X')} {method} {path}: {answer}"
        return answer


class DirectReader:
    """The same with the Python client, which asks the instances themselves."""

    def __init__(self, port: int, issuer: Issuer) -> None:
        url = f"http://127.0.0.1:{port}"
        self._client = queryable.Client(url, direct=True, token=lambda: issuer.token)
        self.close = self._client.close

    def read(self) -> None:
        for key in KEYS:
            assert self._client.get("v", key).value == TABLE[key]
        answers = self._client.get_many("v", KEYS)
        assert [answer.value for answer in answers] == list(TABLE.values())
        assert {row.key: row.value for row in self._client.scan("v")} == TABLE


class Load(Background):
    """Repeats each reader in a thread. The first read that fails ends the test."""

    def __init__(self, readers: list[Reader]) -> None:
        super().__init__("load", len(readers))
        self._readers = readers
        self._rounds = [0] * len(readers)

    def _work(self, number: int) -> None:
        with closing(self._readers[number]) as reader:
            while not self._stop.is_set():
                reader.read()
                self._stop.wait(0.01)  # the instances need processors, too
                self._rounds[number] += 1

    def all_again(self) -> None:
        """Wait until each reader has begun and ended a round."""
        before = list(self._rounds)
        wait_until(
            lambda: self.failures
            or all(now > then + 1 for now, then in zip(self._rounds, before, strict=True)),
            20, "all readers to read again", 0.02,
        )  # fmt: skip
        self.check()


@contextmanager
def load(world: World, *, at_instances: bool) -> Iterator[Load]:
    """Through nginx, and directly. With `at_instances` also at each instance without a retry,
    which fails while that one is stopped."""
    readers: list[Reader] = [
        *(HttpReader(world.nginx.port, world.issuer) for _ in range(4)),
        DirectReader(world.nginx.port, world.issuer),
    ]
    if at_instances:
        readers += [HttpReader(backend.port, world.issuer) for backend in world.backends]
    with Load(readers) as running:
        running.all_again()
        yield running
        running.all_again()


def restart_all(world: World, reads: Load) -> None:
    """One after the other, while clients read."""
    for backend in world.backends:
        assert backend.stop() == 0
        backend.launch()
        settle(world.backends)
        reads.all_again()


def read_new_records(world: World, broker: SecureBroker, mechanism: str) -> None:
    Writer(broker.bootstrap_servers).table(f"rotation-{mechanism}", {"new": 1})
    for backend in world.backends:
        backend.wait(lambda b=backend: b.get(key_path("v", "new")).status == 200, "new records")

"""Every secret is replaced while clients read, and no read fails.

test_kafka_rotation.py does the same with those for Kafka, and tests/system/server/test_tls.py with
certificates.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest

from local.waiting import stretch, wait_until
from tests.support.background import Background
from tests.support.client import Client, key_path
from tests.support.cluster_secret import OTHER_SECRET, SECRET
from tests.support.nginx import Nginx
from tests.support.secure_kafka.broker import SecureBroker
from tests.system.security.rotating_world import (
    KEYS,
    World,
    load,
    running_world,
)

pytestmark = [pytest.mark.system, pytest.mark.broker]

REVOKED_WITHIN = 1.0  # s, as docs/security/authentication.md says
SECRETS_CHANGED = "it has changed"  # in the log of a backend


@pytest.fixture(scope="module")
def world(secure_broker: SecureBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("secrets")
    with running_world(secure_broker, "PLAIN", folder, {}) as world:
        yield world


class Holder(Background):
    """Reads with one token at each port until it is refused everywhere. It notes when a read that
    was accepted began, and when one that was refused ended."""

    def __init__(self, ports: list[int], token: str) -> None:
        super().__init__("holder", len(ports))
        self._ports = ports
        self._token = token
        self.reads = [0] * len(ports)
        self.accepted: list[float] = []
        self.refused: list[float] = []

    def _work(self, number: int) -> None:
        with Client(self._ports[number]) as client:
            while not self._stop.is_set():
                began = time.monotonic()
                path = key_path("v", KEYS[self.reads[number] % len(KEYS)])
                answer = client.get(path, Authorization=f"Bearer {self._token}")
                self.reads[number] += 1
                if answer.status == 200:
                    self.accepted.append(began)
                else:
                    assert answer.code == "unauthenticated", answer
                    self.refused.append(time.monotonic())

    def wait_for_more(self) -> None:
        before = list(self.reads)
        wait_until(
            lambda: self.failures
            or all(now > then + 20 for now, then in zip(self.reads, before, strict=True)),
            20, "reads with the old token", 0.02,
        )  # fmt: skip
        self.check()


def test_the_key_that_signs_tokens(world: World) -> None:
    issuer = world.issuer
    ports = [world.nginx.port, *(backend.port for backend in world.backends)]
    with load(world, at_instances=True) as reads, Holder(ports, issuer.token) as holder:
        issuer.add_key()
        for backend in world.backends:
            backend.token = issuer.token_of_new_key()
            backend.wait(lambda b=backend: b.get("/views").status == 200, "the new key", 5)
        reads.all_again()
        issuer.use_new_key()
        reads.all_again()
        holder.wait_for_more()
        assert not holder.refused
        removed = time.monotonic()
        issuer.remove_old_key()
        wait_until(lambda: holder.refused, 5, "the old token to be refused", 0.02)
        reads.all_again()
        holder.wait_for_more()
        assert min(holder.refused) > removed
        assert max(holder.accepted) - removed < REVOKED_WITHIN * stretch()
    world.deployment.token = issuer.token


def test_the_cluster_secret(world: World) -> None:
    batches = coalesced(world.nginx)
    with load(world, at_instances=True) as reads:
        steps = [(SECRET, OTHER_SECRET), (OTHER_SECRET, SECRET), (OTHER_SECRET,)]
        for number, secrets in enumerate(steps, 1):
            world.deployment.use_secrets(*secrets)
            for backend in world.backends:
                backend.wait(
                    lambda b=backend, n=number: b.log().count(SECRETS_CHANGED) == n, "the secrets"
                )
            world.nginx.reload()
            reads.all_again()
    for backend in world.backends:
        assert "internal request from" not in backend.log().partition(SECRETS_CHANGED)[2]
    assert coalesced(world.nginx) > batches
    assert "refuses batches" not in world.nginx.error_log()


def coalesced(nginx: Nginx) -> int:
    """The number of batches of reads that backends have answered to nginx."""
    with nginx.client() as client:
        text = client.get("/proxy/metrics", **nginx.headers).body.decode()
    [count] = re.findall(r"^queryable_proxy_batch_reads_count (\d+)$", text, re.M)
    return int(count)

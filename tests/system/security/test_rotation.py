"""The cluster secret, and the keys that sign tokens, are replaced while clients read.

No read fails. Other modules do the same with certificates (tests/system/server/test_tls.py), and
with the secrets for Kafka and for the schema registry.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from local.kafka.broker import Broker
from local.waiting import stretch, wait_until
from tests.support.deployment import views_toml
from tests.support.in_process.avro_examples import registry as web_server
from tests.support.security.cluster_secret import OTHER_SECRET, SECRET
from tests.support.topics import Writer
from tests.system.security.rotating_world import (
    KEYS,
    TABLE,
    World,
    compacted_topic,
    load,
    running_world,
    world_with_pem_keys,
)
from tests.system.security.token_keys import (
    Holder,
    Issuer,
    into_file,
    jwk_set_of,
    on_web_server,
)

# s, as docs/security/authentication.md says
REVOKED_WITHIN = 1.0
KNOWN_WITHIN = 5.0  # of a URL
SECRETS_CHANGED = "it has changed"  # in the log of a backend


@pytest.fixture(scope="module")
def views(broker: Broker) -> str:
    topic = compacted_topic(broker, "rotation")
    Writer(broker.bootstrap_servers).table(topic, TABLE)
    return views_toml(v={"topic": topic})


@pytest.fixture(scope="module")
def world(broker: Broker, views: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("secrets")
    with world_with_pem_keys(folder, broker.bootstrap_servers, views) as world:
        yield world


def holder_of(world: World) -> Holder:
    """Of the token that is in use, at nginx and at each instance."""
    ports = [world.nginx.port, *(backend.port for backend in world.backends)]
    return Holder(ports, KEYS, world.issuer.token)


def replace_key_in_file(world: World) -> None:
    issuer = world.issuer
    with load(world, at_instances=True) as reads, holder_of(world) as holder:
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


def test_a_key_in_a_pem_file(world: World) -> None:
    replace_key_in_file(world)
    world.deployment.token = world.issuer.token


@pytest.mark.parametrize(
    ("algorithm", "with_ids"), [("ES256", True), ("HS256", False)], ids=["public", "secrets"]
)
def test_a_key_in_a_file_with_a_jwk_set(
    broker: Broker, views: str, tmp_path: Path, algorithm: str, with_ids: bool
) -> None:
    path = tmp_path / "keys.json"
    issuer = Issuer(algorithm, into_file(path, jwk_set_of), with_ids=with_ids)
    with running_world(
        tmp_path, broker.bootstrap_servers, views, issuer, jwt_jwks=str(path)
    ) as world:
        replace_key_in_file(world)


def test_a_key_at_a_url(broker: Broker, views: str, tmp_path: Path) -> None:
    """Tokens of the new key are used at once: instances fetch it. When the old key has been
    removed, a token of an unknown key makes them read the URL before the next interval."""
    with web_server() as server:
        issuer = Issuer("ES256", on_web_server(server, "/keys"), with_ids=True)
        with running_world(
            tmp_path, broker.bootstrap_servers, views, issuer, jwt_jwks=f"{server.url}/keys"
        ) as world:
            replace_key_at_url(world)


def replace_key_at_url(world: World) -> None:
    issuer = world.issuer
    with (
        load(world, at_instances=True, waits_for_keys=True) as reads,
        holder_of(world) as holder,
    ):
        issuer.add_key()
        issuer.use_new_key()
        used = time.monotonic()
        for backend in world.backends:
            backend.token = issuer.token
            backend.wait(lambda b=backend: b.get("/views").status == 200, "the new key", 20)
        assert time.monotonic() - used < (KNOWN_WITHIN + 1) * stretch()
        reads.all_again()
        holder.wait_for_more()
        assert not holder.refused
        removed = time.monotonic()
        issuer.remove_old_key()
        for backend in world.backends:
            backend.token = issuer.token_of_unknown_key()
            backend.wait(lambda b=backend: b.get("/views").status == 401, "a new look", 20)
        refused = time.monotonic()
        reads.all_again()
        holder.wait_for_more()
        assert min(holder.refused) > removed
        assert max(holder.accepted) < refused
        assert refused - removed < (KNOWN_WITHIN + 1) * stretch()


def test_the_cluster_secret(world: World) -> None:
    batches = coalesced(world)
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
    assert coalesced(world) > batches
    assert "refuses batches" not in world.nginx.error_log()


def coalesced(world: World) -> int:
    """The number of batches of reads that backends have answered to nginx."""
    world.nginx.token = world.issuer.token
    with world.nginx.client() as client:
        text = client.get("/proxy/metrics", **world.nginx.headers).body.decode()
    [count] = re.findall(r"^queryable_proxy_batch_reads_count (\d+)$", text, re.M)
    return int(count)

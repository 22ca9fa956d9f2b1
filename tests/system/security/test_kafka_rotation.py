"""The secrets for Kafka are replaced while clients read, and no read fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from local.waiting import wait_until
from tests.support.client import key_path
from tests.support.deployment import views_toml
from tests.support.secure_kafka.broker import ROTATED, SecureBroker
from tests.support.topics import Writer
from tests.system.security.rotating_world import (
    PASSWORDS,
    TABLE,
    World,
    compacted_topic,
    load,
    reference_in,
    restart_all,
    world_with_pem_keys,
    write_password,
)

MECHANISM = "SCRAM-SHA-256"


@contextmanager
def authenticating_world(
    broker: SecureBroker, mechanism: str, folder: Path, kafka: dict[str, str]
) -> Iterator[World]:
    """`kafka`: what is other than in the table of the mechanism."""
    topic = compacted_topic(broker, f"rotation-{mechanism}")
    Writer(broker.bootstrap_servers).table(topic, TABLE)
    write_password(folder, PASSWORDS[0])
    views = views_toml({**broker.table(mechanism), **kafka}, v={"topic": topic})
    with world_with_pem_keys(folder, broker.address(mechanism), views) as world:
        yield world


def read_new_records(world: World, broker: SecureBroker, mechanism: str) -> None:
    Writer(broker.bootstrap_servers).table(f"rotation-{mechanism}", {"new": 1})
    for backend in world.backends:
        backend.wait(lambda b=backend: b.get(key_path("v", "new")).status == 200, "new records")


def test_the_password_of_kafka(secure_broker: SecureBroker, tmp_path: Path) -> None:
    old, new = PASSWORDS
    secure_broker.set_password(ROTATED, MECHANISM, old)
    assert secure_broker.accepts(ROTATED, MECHANISM, old)
    kafka = {"sasl.username": ROTATED, "sasl.password": reference_in(tmp_path)}
    with authenticating_world(secure_broker, MECHANISM, tmp_path, kafka) as world:
        with load(world, at_instances=False) as reads:
            secure_broker.set_password(ROTATED, MECHANISM, new)
            wait_until(
                lambda: secure_broker.accepts(ROTATED, MECHANISM, new), 10, "the new password"
            )
            write_password(tmp_path, new)
            reads.all_again()
            restart_all(world, reads)
        assert not secure_broker.accepts(ROTATED, MECHANISM, old)
        read_new_records(world, secure_broker, MECHANISM)


def test_the_client_certificate_of_kafka(secure_broker: SecureBroker, tmp_path: Path) -> None:
    """The key of the new one has another password, so the old password is not enough for it."""
    old, new = PASSWORDS
    certificate, key = secure_broker.authority.issue("tls", old, tmp_path)
    kafka = {
        "ssl.certificate.location": str(certificate),
        "ssl.key.location": str(key),
        "ssl.key.password": reference_in(tmp_path),
    }
    with authenticating_world(secure_broker, "TLS", tmp_path, kafka) as world:
        with load(world, at_instances=False) as reads:
            secure_broker.authority.issue("tls", new, tmp_path)
            write_password(tmp_path, new)
            reads.all_again()
            restart_all(world, reads)
        read_new_records(world, secure_broker, "TLS")


def test_the_oauth_secret_for_kafka(secure_broker: SecureBroker, tmp_path: Path) -> None:
    old, new = PASSWORDS
    accepted = secure_broker.tokens.secrets
    before = set(accepted)
    kafka = {"sasl.oauthbearer.client.secret": reference_in(tmp_path)}
    accepted.add(old)
    try:
        with authenticating_world(secure_broker, "OAUTHBEARER", tmp_path, kafka) as world:
            with load(world, at_instances=False) as reads:
                accepted.add(new)
                write_password(tmp_path, new)
                reads.all_again()
                restart_all(world, reads)
                accepted.discard(old)
                reads.all_again()
            read_new_records(world, secure_broker, "OAUTHBEARER")
    finally:
        accepted.clear()
        accepted.update(before)

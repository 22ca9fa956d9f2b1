"""Permissions that are missing for a moment: what is not there now is not "never there"."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from local.kafka.broker import quiet_admin
from local.kafka.topics import Topic, create_topics
from tests.support.client import Client, key_path
from tests.support.deployment import settle, views_toml
from tests.support.plugins.fixtures import Deploy
from tests.support.secure_kafka.broker import LIMITED, SecureBroker
from tests.support.topics import Writer

TOPIC, GROUP = "acl-lost", "acl-lost-application"
KEYS = [f"k{n}" for n in range(20)]
ROUNDS = 10  # of reads while a permission is missing


Permission = tuple[ResourceType, str, AclOperation]

READ = ResourceType.TOPIC, TOPIC, AclOperation.READ
CONFIGS = ResourceType.TOPIC, TOPIC, AclOperation.DESCRIBE_CONFIGS
OF_GROUP = ResourceType.GROUP, GROUP, AclOperation.READ


def grant(broker: SecureBroker, *permissions: Permission) -> None:
    bindings = [
        AclBinding(
            kind, name, ResourcePatternType.LITERAL, f"User:{LIMITED}", "*", operation,
            AclPermissionType.ALLOW,
        )
        for kind, name, operation in permissions
    ]  # fmt: skip
    admin = quiet_admin(broker.bootstrap_servers)
    for future in admin.create_acls(bindings).values():
        future.result(20)


def revoke(broker: SecureBroker, of: Permission) -> None:
    kind, name, operation = of
    wanted = AclBindingFilter(
        kind, name, ResourcePatternType.LITERAL, f"User:{LIMITED}", "*", operation,
        AclPermissionType.ALLOW,
    )  # fmt: skip
    admin = quiet_admin(broker.bootstrap_servers)
    for future in admin.delete_acls([wanted]).values():
        assert len(future.result(20)) == 1


@pytest.mark.parametrize("lost", [READ, OF_GROUP], ids=["the topic", "the group"])
def test_no_key_is_missing_meanwhile(
    lost: Permission, secure_broker: SecureBroker, deploy: Deploy
) -> None:
    topic_config = {"cleanup.policy": "compact"}
    create_topics(quiet_admin(secure_broker.bootstrap_servers), [Topic(TOPIC, 2, topic_config)])
    grant(secure_broker, READ, CONFIGS, OF_GROUP)
    writer = Writer(secure_broker.bootstrap_servers)
    writer.table(TOPIC, dict.fromkeys(KEYS, 1))
    table = secure_broker.table("PLAIN")
    table |= {"sasl.username": LIMITED, "sasl.password": secure_broker.reference(LIMITED)}
    deployment = deploy(
        views_toml(table, v={"topic": TOPIC}),
        bootstrap_servers=secure_broker.address("PLAIN"),
        application_id=GROUP,
        wait_timeout="0",
    )
    backends = deployment.start(2)

    def answers(key: str, expected: int) -> bool:
        """From both; an answer that is no 503 is right."""
        found = [backend.get(key_path("v", key)) for backend in backends]
        for answer in found:
            if answer.status != 503:
                assert (answer.status, answer.json()["value"]) == (200, expected)
        return all(answer.status == 200 for answer in found)

    revoke(secure_broker, lost)
    third = deployment.new().launch()  # the group has a new member, if it may have one
    third.wait_listening()
    for _ in range(ROUNDS):
        for key in KEYS:
            answers(key, 1)
        with Client(third.port) as client:
            assert client.get(key_path("v", KEYS[0])).status in (200, 503)
    writer.table(TOPIC, {"late": 2})
    grant(secure_broker, lost)
    settle([*backends, third])
    for backend in backends:
        backend.wait(
            lambda b=backend: b.get(key_path("v", "late")).status == 200,
            "the record that was written meanwhile",
        )
    assert all(answers(key, 1) for key in KEYS)
    assert answers("late", 2)


def test_a_topic_that_may_be_read_only_later_is_placed_then(
    secure_broker: SecureBroker, deploy: Deploy
) -> None:
    """Regression: nothing noticed the permission, and all reads got 503 until a restart."""
    topic, group = "acl-late", "acl-late-application"
    config = {"cleanup.policy": "compact"}
    create_topics(quiet_admin(secure_broker.bootstrap_servers), [Topic(topic, 2, config)])
    grant(secure_broker, (ResourceType.GROUP, group, AclOperation.READ))
    Writer(secure_broker.bootstrap_servers).table(topic, dict.fromkeys(KEYS, 1))
    table = secure_broker.table("PLAIN")
    table |= {"sasl.username": LIMITED, "sasl.password": secure_broker.reference(LIMITED)}
    deployment = deploy(
        views_toml(table, v={"topic": topic}),
        bootstrap_servers=secure_broker.address("PLAIN"),
        application_id=group,
    )
    backend = deployment.new().launch()
    backend.wait(lambda: "placed 0 partitions" in backend.log(), "a topology without the topic")
    for operation in (AclOperation.READ, AclOperation.DESCRIBE_CONFIGS):
        grant(secure_broker, (ResourceType.TOPIC, topic, operation))
    path = key_path("v", KEYS[0])
    backend.wait(lambda: backend.get(path).status == 200, "the topic to be placed", 60)
    assert backend.get(path).json()["value"] == 1

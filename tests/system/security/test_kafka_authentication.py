"""Backends authenticate with a broker by each mechanism, with the permissions that the docs list,
and no secret is anywhere but in its own file."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from local.kafka.broker import quiet_admin
from local.kafka.topics import Topic, create_topics
from tests.support.backends import Backend
from tests.support.client import Client, Response, key_path
from tests.support.deployment import Deployment, settle, views_toml
from tests.support.plugins.fixtures import Deploy
from tests.support.secure_kafka.broker import LIMITED, MECHANISMS, PASSWORDS, SecureBroker
from tests.support.topics import Writer, commit_offsets

WRONG = "Wr0ng-S3cret"
START_TIMEOUT = 6  # s


def append(backend: Backend, topic: str, key: str, value: str) -> Response:
    body = json.dumps({"key": key, "value": value}).encode()
    with Client(backend.port) as client:
        return client.request("POST", f"/topics/{topic}/records", body)


def traces(deployment: Deployment, backend: Backend) -> Iterator[tuple[str, bytes]]:
    """All that a backend has written and, while it runs, its command lines."""
    for path in deployment.folder.rglob("*"):
        if path.is_file():
            yield str(path), path.read_bytes()
    if backend.is_running:
        for pid in (backend.pid, *backend.workers()):
            yield f"command line of {pid}", Path(f"/proc/{pid}/cmdline").read_bytes()


def assert_no_secret(deployment: Deployment, backend: Backend) -> None:
    secrets = [text.encode() for text in (*PASSWORDS.values(), WRONG)]
    secrets += [base64.b64encode(b"oauth:" + secret) for secret in secrets]
    for where, content in traces(deployment, backend):
        assert not any(secret in content for secret in secrets), where


@pytest.fixture(scope="module")
def refused(
    secure_broker: SecureBroker,
    module_deploy: Deploy,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, tuple[Deployment, Backend]]:
    """For each mechanism: a deployment whose backend has been started with a wrong secret."""
    secret = tmp_path_factory.mktemp("wrong") / "secret"
    secret.write_text(WRONG)
    started = {}
    for mechanism in MECHANISMS:
        table = secure_broker.table(mechanism)
        if mechanism == "TLS":  # without a certificate of the client
            table = {name: table[name] for name in ("security.protocol", "ssl.ca.location")}
        else:
            name = "oauthbearer.client.secret" if mechanism == "OAUTHBEARER" else "password"
            table |= {f"sasl.{name}": f"${{file:{secret}}}"}
        deployment = module_deploy(
            views_toml(table, v={"topic": "t"}),
            bootstrap_servers=secure_broker.address(mechanism),
            start_timeout="8",
        )
        backend = deployment.new()
        backend.uses_command = mechanism == "PLAIN"
        started[mechanism] = (deployment, backend.launch())
        assert_no_secret(deployment, backend)  # on its command line
    return started


@pytest.fixture(scope="module")
def deployments(
    secure_broker: SecureBroker,
    module_deploy: Deploy,
    refused: dict[str, tuple[Deployment, Backend]],
) -> dict[str, tuple[Deployment, Backend]]:
    """For each mechanism: a deployment whose backend has been started, and may not be ready.

    Those with wrong secrets wait for the broker meanwhile.
    """
    topics = [Topic(f"by-{mechanism}", 1) for mechanism in MECHANISMS]
    create_topics(quiet_admin(secure_broker.bootstrap_servers), topics)
    started = {}
    for topic, mechanism in zip(topics, MECHANISMS, strict=True):
        view = {"topic": topic.name, "append": "on"}
        views = views_toml(secure_broker.table(mechanism), v=view)
        deployment = module_deploy(views, bootstrap_servers=secure_broker.address(mechanism))
        started[mechanism] = deployment, deployment.new().launch()
    return started


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_backend_reads_and_writes_with_each_mechanism(
    mechanism: str, deployments: dict[str, tuple[Deployment, Backend]]
) -> None:
    deployment, backend = deployments[mechanism]
    settle([backend])  # its member has joined the group, with the other client

    def is_appended() -> bool:
        """The broker has just started, and may need longer for its first records."""
        appended = append(backend, f"by-{mechanism}", "k", mechanism)
        assert appended.status == 200 or appended.code == "append-unconfirmed", appended
        return appended.status == 200

    backend.wait(is_appended, "a confirmed record")
    backend.wait(lambda: backend.get(key_path("v", "k")).status == 200, "the record")
    assert backend.get(key_path("v", "k")).json()["value"] == mechanism
    for path in ("/instance", "/views", "/views/v", "/processors", "/metrics", "/admin"):
        body = backend.get(path).body
        assert not any(secret.encode() in body for secret in PASSWORDS.values()), path
    assert_no_secret(deployment, backend)


def test_a_rejected_setting_is_not_quoted(secure_broker: SecureBroker, deploy: Deploy) -> None:
    # tests/unit/backend/kafka/test_clients.py has more
    table = secure_broker.table("PLAIN") | {"security.protocol": secure_broker.reference("plain")}
    deployment = deploy(views_toml(table, v={"topic": "t"}))
    backend = deployment.new().launch()
    assert backend.wait_end() > 0
    assert "[kafka]: Invalid value" in backend.log()
    assert "Traceback" not in backend.log()
    assert_no_secret(deployment, backend)


def test_the_documented_permissions_suffice(secure_broker: SecureBroker, deploy: Deploy) -> None:
    """The table in docs/security/kafka.md, with a view that appends, one with a pipeline, and a
    record that is a dead letter."""
    servers = secure_broker.bootstrap_servers
    admin = quiet_admin(servers)
    create_topics(admin, [Topic("acl-orders", 1), Topic("acl-counts", 1), Topic("acl-source", 1)])
    commit_offsets(admin, "acl-job", [TopicPartition("acl-source", 0, 0)])
    group, topic = ResourceType.GROUP, ResourceType.TOPIC
    read, write, describe = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
    permissions = [
        (group, "acl-application", read),
        *((topic, name, each)
          for name in ("acl-orders", "acl-counts", "acl-source")
          for each in (read, AclOperation.DESCRIBE_CONFIGS)),
        *((topic, "acl-orders.dead-letter", each) for each in (AclOperation.CREATE, write)),
        (topic, "acl-orders", write),
        (group, "acl-job", describe),
    ]  # fmt: skip
    bindings = [
        AclBinding(kind, name, ResourcePatternType.LITERAL, f"User:{LIMITED}", "*", operation,
                   AclPermissionType.ALLOW)
        for kind, name, operation in permissions
    ]  # fmt: skip
    for future in admin.create_acls(bindings).values():
        future.result(20)
    table = secure_broker.table("PLAIN")
    table |= {"sasl.username": LIMITED, "sasl.password": secure_broker.reference(LIMITED)}
    views = views_toml(
        table,
        orders={"topic": "acl-orders", "append": "on"},
        counts={"topic": "acl-counts", "pipeline": "acl-job"},
    )
    backend = deploy(
        views,
        bootstrap_servers=secure_broker.address("PLAIN"),
        application_id="acl-application",
    ).new()
    backend.launch()
    settle([backend])
    assert append(backend, "acl-orders", "k", "v").status == 200
    Writer(servers).send("acl-orders", [(b"bad", b"{no json")])
    backend.wait(lambda: backend.get(key_path("orders", "k")).status == 200, "the record")
    backend.wait(
        lambda: "acl-orders.dead-letter" in admin.list_topics(timeout=5).topics, "a dead letter"
    )
    backend.wait(
        lambda: backend.get(key_path("counts", "k")).headers.get("Pipeline-Lag") == "0",
        "the lag of the pipeline",
        10,
    )
    log = backend.log().lower()
    assert "authoriz" not in log
    assert "could not write" not in log


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_secret_ends_the_start_with_a_reason(
    mechanism: str, refused: dict[str, tuple[Deployment, Backend]]
) -> None:
    deployment, backend = refused[mechanism]
    assert backend.wait_end() > 0
    log = backend.log()
    assert "no connection to the broker at" in log
    reasons = {"OAUTHBEARER": "Authentication by OAUTHBEARER fails", "TLS": "needs a certificate"}
    assert reasons.get(mechanism, "refuses the user or the password") in log
    assert "[kafka]" in log
    assert "Traceback" not in log
    assert_no_secret(deployment, backend)

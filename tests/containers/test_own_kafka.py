"""Containers for Kafka that a user has: no profile, and the profile `derive`."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from local.kafka.topics import Topic, create_topics
from local.settings import REPOSITORY
from local.waiting import wait_until
from model.kafka.clients import closing
from tests.support.containers.compose import IMAGES, Compose, get, wait_for_status
from tests.support.containers.engine import Engine

BROKER = "own-broker"
SERVERS = "127.0.0.1:9094"
PROJECT = "own"
BACKENDS = ("backend-1", "backend-2", "backend-3")
LATE_S = 20
ORDERS = {"o1": {"customer": "c1", "total": 5}, "o2": {"customer": "c1", "total": 7},
          "o3": {"customer": "c2", "total": 1}}  # fmt: skip

VIEWS = """
[views.orders]
topic = "orders"
path = "/orders"
key = "string"
value = "json"
"""
DERIVED = """
[views.totals]
path = "/totals"

[views.totals.derive]
from = "orders"
fields = { customer = "string", total = "int" }
key = "customer"
sum = "total"
"""


@pytest.fixture(scope="module")
def views(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("own") / "views.toml"
    file.write_text(VIEWS)
    file.chmod(0o644)
    return file


@pytest.fixture(scope="module")
def own(engine: Engine, views: Path) -> Iterator[Compose]:
    """Backends and nginx, and a broker that is not in docker-compose.yml and starts later."""
    variables = {
        "QUERYABLE_BOOTSTRAP_SERVERS": f"{BROKER}:9092",
        "QUERYABLE_VIEWS": str(views),
    }
    compose = Compose(engine, PROJECT, ["derive"], variables)
    try:
        compose.up(*BACKENDS, "proxy")
        time.sleep(LATE_S)  # as long as a broker needs that starts after the backends
        start_broker(engine)
        yield compose
    finally:
        engine.docker("rm", "--force", "--volumes", BROKER)
        compose.down()


def start_broker(engine: Engine) -> None:
    service = yaml.safe_load((REPOSITORY / "docker-compose.yml").read_text())["services"]["broker"]
    environment = {
        **service["environment"],
        "KAFKA_ADVERTISED_LISTENERS": f"INTERNAL://{BROKER}:9092,HOST://{SERVERS}",
    }
    options = [part for pair in environment.items() for part in ("--env", "=".join(pair))]
    image = IMAGES["KAFKA_IMAGE"]
    engine.docker(
        "run", "--detach", "--name", BROKER, "--network", f"{PROJECT}_default",
        "--publish", f"{SERVERS}:9094", *options, image,
    )  # fmt: skip


def test_backends_wait_for_a_broker_that_starts_later(own: Compose) -> None:
    for service in BACKENDS:
        assert own.engine.inspect(own.container(service))["State"]["Running"]
    settings: dict[str, str | int | float | bool] = {"bootstrap.servers": SERVERS}
    with closing(AdminClient(settings)) as admin:
        create_topics(admin, [Topic("orders", 4)], timeout=60)
    with closing(Producer(settings)) as producer:
        for key, value in ORDERS.items():
            producer.produce("orders", json.dumps(value).encode(), key.encode())
        assert producer.flush(30) == 0
    for service in BACKENDS:
        own.wait_until_healthy(service)
    for key, value in ORDERS.items():
        assert wait_for_status(f"/orders/{key}").json()["value"] == value
    assert wait_for_status("/orders/missing", 404).code == "key-not-found"


def test_a_view_is_added_and_derived(own: Compose, views: Path) -> None:
    """By the steps of docs/changes-to-a-deployment.md."""
    replaced = views.with_suffix(".new")  # as editors do: the file is another one
    replaced.write_text(VIEWS + DERIVED)
    replaced.chmod(0o644)
    replaced.rename(views)
    own.up("derive")
    wait_for_status("/totals/c1", 404)  # nothing has been restarted yet
    for service in BACKENDS:
        own.run("restart", service)
        own.wait_until_healthy(service)
    own.wait_until_healthy("derive", timeout_s=240)

    def totals() -> list[object]:
        answers = [get(f"/totals/{customer}") for customer in ("c1", "c2")]
        return [a and a.status == 200 and a.json()["value"] for a in answers]

    wait_until(lambda: totals() == [12, 1], 180, "the sums", 0.5)

"""The password of Kafka is replaced for a streaming job, while clients read the view it derives."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen

import pytest

import queryable
from local.kafka.broker import quiet_admin
from local.kafka.topics import Topic, create_topics
from local.processes import end, spawn
from local.settings import REPOSITORY
from local.waiting import wait_until
from tests.support.client import Client, key_path
from tests.support.deployment import Deployment, views_toml
from tests.support.secure_kafka.broker import ROTATED, SecureBroker
from tests.support.topics import Writer
from tests.system.security.readers import Reader, reading
from tests.system.security.rotating_world import PASSWORDS, reference_in, write_password

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.system]

MECHANISM = "SCRAM-SHA-256"
SOURCE, DERIVED = "rotation-orders", "rotation-counts"
KEYS = [f"item{n}" for n in range(8)]
DERIVE = (
    f'[views.v.derive]\nfrom = "{SOURCE}"\nfields = {{ item = "string" }}\n'
    'key = "item"\ncount = true\n'
)


class Orders:
    """One record of each item at a time. `written`: records of an item, also those in flight."""

    def __init__(self, servers: str) -> None:
        self._writer = Writer(servers)
        self.written = 0

    def write(self) -> None:
        self.written += 1
        records = [(b"order", b'{"item":"%b"}' % key.encode()) for key in KEYS]
        self._writer.send(SOURCE, records)


class HttpCounts:
    """Reads counts, which never decrease, and never exceed the number of records."""

    def __init__(self, client: Client, orders: Orders) -> None:
        self._client = client
        self._orders = orders
        self._counts = dict.fromkeys(KEYS, 1)
        self.close = client.close

    def read(self) -> None:
        self._check({key: self._get(key_path("v", key))["value"] for key in KEYS})
        page = self._get("/views/v/keys?limit=1000")["items"]
        self._check({item["key"]: item["value"] for item in page})

    def _get(self, path: str) -> dict[str, object]:
        answer = self._client.get(path)
        assert answer.status == 200, answer
        document: dict[str, object] = answer.json()
        return document

    def _check(self, counts: dict[str, int]) -> None:
        assert counts.keys() == self._counts.keys()
        assert all(self._counts[key] <= counts[key] <= self._orders.written for key in KEYS)
        self._counts = counts


@contextmanager
def running_job(views: Path, address: str, folder: Path) -> Iterator[Popen[bytes]]:
    """It continues from the checkpoint in the folder."""
    job = spawn(
        [
            *(sys.executable, "-m", "spark.run", "--views-toml", str(views)),
            *("--bootstrap-servers", address, "--trigger", "0 seconds"),
            *("--checkpoint-dir", str(folder / "checkpoints")),
            *("--progress", str(folder / "progress.json"), "--master", "local[1]"),
        ],
        folder / "spark.log",
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        cwd=folder,
    )
    try:
        yield job
    finally:
        assert end(job, 60) == 0, (folder / "spark.log").read_text()[-3000:]


def test_the_password_of_a_streaming_job(secure_broker: SecureBroker, tmp_path: Path) -> None:
    old, new = PASSWORDS
    servers, address = secure_broker.bootstrap_servers, secure_broker.address(MECHANISM)
    secure_broker.set_password(ROTATED, MECHANISM, old)
    write_password(tmp_path, old)
    topics = [Topic(SOURCE, 1), Topic(DERIVED, 1, {"cleanup.policy": "compact"})]
    create_topics(quiet_admin(servers), topics)
    kafka = {
        **secure_broker.java_table(MECHANISM),
        "sasl.username": ROTATED,
        "sasl.password": reference_in(tmp_path),
    }
    views = views_toml(kafka, v={"topic": DERIVED, "value": "int64"}) + DERIVE
    orders = Orders(servers)
    orders.write()
    with Deployment(tmp_path / "deployment", address, views) as deployment:
        path = deployment.views_path

        def wait_for_counts(job: Popen[bytes]) -> None:
            def are_there() -> bool:
                assert job.poll() is None, (tmp_path / "spark.log").read_text()[-3000:]
                with queryable.Client(f"http://{deployment.all[0].address}") as client:
                    answers = client.get_many("v", KEYS)
                return all(each.found and each.value == orders.written for each in answers)

            wait_until(are_there, 60, f"counts of {orders.written}", 0.1)

        with running_job(path, address, tmp_path) as job:
            deployment.start(1)
            nginx = deployment.proxy(workers=1)
            wait_for_counts(job)
            readers: list[Reader] = [
                HttpCounts(server.client(), orders) for server in (nginx, nginx, deployment.all[0])
            ]
            with reading(readers) as reads:
                secure_broker.set_password(ROTATED, MECHANISM, new)
                assert not secure_broker.accepts(ROTATED, MECHANISM, old)
                write_password(tmp_path, new)
                orders.write()
                wait_for_counts(job)  # by the connections that are open
                assert end(job, 60) == 0
                orders.write()
                reads.all_again()
                with running_job(path, address, tmp_path) as restarted:
                    wait_for_counts(restarted)
                    orders.write()
                    wait_for_counts(restarted)
                    reads.all_again()

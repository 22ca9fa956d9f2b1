"""A streaming job that counts orders by item, and clients that read the counts while a secret is
replaced."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen
from typing import Protocol

import queryable
from local.processes import end, spawn
from local.settings import REPOSITORY
from local.waiting import wait_until
from tests.support.client import Client, key_path
from tests.support.deployment import Deployment
from tests.support.nginx import Nginx
from tests.support.topics import Writer

KEYS = [f"item{n}" for n in range(8)]


class Encode(Protocol):
    """The record of an order of an item."""

    def __call__(self, item: str) -> bytes: ...


class Orders:
    """One record of each item at a time. `written`: records of an item, also those in flight."""

    def __init__(self, servers: str, topic: str) -> None:
        self._writer = Writer(servers)
        self._topic = topic
        self.written = 0

    def write(self, encode: Encode) -> None:
        self.written += 1
        self._writer.send(self._topic, [(b"order", encode(item)) for item in KEYS])


class CountsReader:
    """Reads the counts in the view `v`, which never decrease, and never exceed the number of
    records."""

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


def counts_readers(deployment: Deployment, nginx: Nginx, orders: Orders) -> list[CountsReader]:
    """Two that read through nginx, and one at an instance."""
    servers = (nginx, nginx, deployment.all[0])
    return [CountsReader(server.client(), orders) for server in servers]


@contextmanager
def running_job(views: Path, address: str, folder: Path, **env: str) -> Iterator[Popen[bytes]]:
    """It continues from the checkpoint in the folder, and writes `progress.json` there."""
    job = spawn(
        [
            *(sys.executable, "-m", "spark.run", "--views-toml", str(views)),
            *("--bootstrap-servers", address, "--trigger", "0 seconds"),
            *("--checkpoint-dir", str(folder / "checkpoints")),
            *("--progress", str(folder / "progress.json"), "--master", "local[1]"),
        ],
        folder / "spark.log",
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), **env},
        cwd=folder,
    )
    try:
        yield job
    finally:
        assert end(job, 60) == 0, (folder / "spark.log").read_text()[-3000:]


def wait_for_counts(
    deployment: Deployment, orders: Orders, job: Popen[bytes], folder: Path
) -> None:
    """Until the view has counted all orders. Fails if the job has ended."""

    def are_there() -> bool:
        assert job.poll() is None, (folder / "spark.log").read_text()[-3000:]
        with queryable.Client(f"http://{deployment.all[0].address}") as client:
            answers = client.get_many("v", KEYS)
        return all(each.found and each.value == orders.written for each in answers)

    wait_until(are_there, 60, f"counts of {orders.written}", 0.1)

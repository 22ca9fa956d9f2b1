"""Clients of a view whose formats differ between two deployments of a service, while one and then
the other becomes current: no answer is decoded with the formats of the other deployment."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from local.kafka.broker import Broker
from local.waiting import wait_until
from queryable import Client as Queryable
from queryable import Raw
from tests.support.client import Client
from tests.support.deployment import Deployment, views_toml
from tests.support.nginx import Nginx
from tests.support.plugins.fixtures import MakeTopic
from tests.support.topics import Writer

# as bytes, it would be the valid base64url of something else
VALUE = b"abcd"
CORRECT = (VALUE.decode(), VALUE)


@pytest.fixture
def deployments(
    broker: Broker, make_topic: MakeTopic, writer: Writer, tmp_path: Path
) -> Iterator[tuple[Deployment, Deployment]]:
    """Their keys and values are text and bytes."""
    topic, name = make_topic(2), f"service-{time.time_ns()}"
    writer.send(topic, [(b"a", VALUE)])
    with ExitStack() as stack:
        text, raw = (
            stack.enter_context(
                Deployment(
                    tmp_path / of, broker.bootstrap_servers,
                    views_toml(notes={"topic": topic, "key": of, "value": of}),
                    application_id=f"{name}-{of}", service=name,
                )
            )
            for of in ("string", "bytes")
        )  # fmt: skip
        for each in (text, raw):
            each.start(1)
        yield text, raw


def make_current(deployment: Deployment, nginx: Nginx) -> None:
    [backend] = deployment.all
    id_ = backend.settings["QUERYABLE_APPLICATION_ID"]
    with Client(backend.port) as client:
        target = f"/admin/deployments/{id_}/switch"
        answer = client.request("POST", target, json.dumps({"force": True}).encode())
        assert answer.status == 200, answer.body
    wait_until(lambda: nginx.health()["application_id"] == id_, 10, "that nginx follows")


def test_no_answer_has_the_formats_of_the_other_deployment(
    deployments: tuple[Deployment, Deployment],
) -> None:
    text, raw = deployments
    nginx = text.proxy(*text.all, *raw.all, workers=2)
    is_over = threading.Event()
    found: Counter[Any] = Counter()
    failures: list[Exception] = []

    def read(is_direct: bool) -> None:
        with Queryable(f"http://127.0.0.1:{nginx.port}", direct=is_direct) as client:
            while not is_over.is_set():
                try:
                    found[client.get("notes", Raw(b"a")).value] += 1
                    [row] = client.scan("notes")
                    found[row.value] += 1
                except Exception as e:
                    failures.append(e)
                    return
                is_over.wait(0.002)

    threads = [threading.Thread(target=read, args=(n == 2,)) for n in range(3)]
    for each in threads:
        each.start()
    try:
        for deployment, value in ((raw, VALUE), (text, VALUE.decode())) * 2:
            make_current(deployment, nginx)
            before = found[value]
            wait_until(
                lambda value=value, before=before: failures or found[value] > before + 20,
                10, "reads of the other deployment",
            )  # fmt: skip
    finally:
        is_over.set()
        for each in threads:
            each.join()
    assert not failures
    assert set(found) == set(CORRECT), found

"""One real backend with a view of each kind."""

from __future__ import annotations

import json
import os
import struct
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner

from local.kafka.broker import Broker
from local.settings import REPOSITORY
from queryable import Client
from queryable.cli.app import app
from queryable.cli.exit_codes import SUCCESS
from tests.support.deployment import Deployment, views_toml
from tests.support.plugins.fixtures import MakeTopic
from tests.system.queryable.terminal import run_in_terminal

COMMAND = [sys.executable, "-m", "queryable"]
HOUR = 3_600_000
BEGAN = 1_356_998_400_000  # 2013-01-01
# more than a pipe buffers
MANY = 3000


@dataclass(frozen=True)
class Deployed:
    """The deployment, and how to run commands against it."""

    backends: Deployment
    url: str

    @property
    def env(self) -> dict[str, str]:
        plain = {k: v for k, v in os.environ.items() if not k.startswith("QUERYABLE_")}
        # a progress bar would mix with the output
        plain.pop("PYTHONUNBUFFERED", None)
        mine = {
            "QUERYABLE_URL": self.url,
            "QUERYABLE_CONFIG": "/dev/null",
            "PYTHONPATH": str(REPOSITORY),
        }
        return {**plain, **mine}

    def run(self, *arguments: str, status: int = SUCCESS, input: str | None = None) -> str:
        """The command's stdout, or its stderr if `status` is not SUCCESS."""
        done = CliRunner().invoke(app, arguments, env=self.env, input=input)
        assert done.exit_code == status, (done.output, done.exception)
        return done.stdout if status == SUCCESS else done.stderr

    def rows(self, *arguments: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.run(*arguments).splitlines()]

    def shown(self, *arguments: str) -> str:
        status, text = run_in_terminal([*COMMAND, *arguments], self.env)
        assert status == SUCCESS, text
        return text

    def append(self, key: str, value: Any) -> None:
        with Client(self.url) as client:
            client.append("notes", key, value)


@pytest.fixture(scope="module")
def deployed(
    broker: Broker, make_topic: MakeTopic, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Deployed]:
    topics = {name: make_topic(1) for name in ("flights", "bookings", "visits", "prices", "many")}
    topics["notes"] = make_topic(2)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})

    def send(view: str, key: bytes, value: Any, time: int = BEGAN) -> None:
        producer.produce(topics[view], json.dumps(value), key, 0, timestamp=time)

    for n, delay in enumerate((20, -10, 40)):
        send("flights", b"N%d" % n, {"from": "EWR", "delay": delay})
    send("flights", b"X[b]", {"from": "JFK"})
    for hour, number in ((0, 1), (1, 9), (5, 2)):
        send("bookings", b"anna" + struct.pack(">qi", BEGAN + hour * HOUR, 0), number)
    send("bookings", b"bert" + struct.pack(">qi", BEGAN, 0), 4)
    send("visits", b"anna" + struct.pack(">qq", BEGAN + HOUR, BEGAN), 7)
    for day, price in enumerate((2, 3)):
        send("prices", b"tea", price, BEGAN + day * 24 * HOUR)
    for n in range(MANY):
        send("many", b"%06d" % n, "x" * 100)
    assert producer.flush(20) == 0
    kinds: dict[str, Mapping[str, str]] = {
        "bookings": {"store": "window", "window_size": "1h"},
        "visits": {"store": "session"},
        "prices": {"store": "versioned"},
        "notes": {"append": "on"},
    }
    views = views_toml(
        **{name: {"topic": topic, **kinds.get(name, {})} for name, topic in topics.items()}
    )
    views += '[views.flights.fields]\nfrom = "string"\ngate = "string"\n'
    folder = tmp_path_factory.mktemp("console")
    with Deployment(folder, broker.bootstrap_servers, views) as backends:
        [backend] = backends.start()
        yield Deployed(backends, f"http://127.0.0.1:{backend.port}")

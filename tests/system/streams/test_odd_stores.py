"""Unusual stores of a Kafka Streams application: the views that `adopt` proposes for them, and the
answers from these views, compared with the application's own.

The views are those of `adopt --yes`, and one of a global table's topic.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner

from local.kafka.broker import Broker
from model.views import View
from model.views_file import parse_views
from queryable.cli.app import app
from tests.support.backends import Backend
from tests.support.client import Client
from tests.support.deployment import Deployment
from tests.support.plugins.fixtures import MakeTopic
from tests.system.streams.application import Application
from tests.system.streams.questions import Question
from tests.system.streams.test_streams import wait_for_end

PARTITIONS = 3
MINUTE = 60_000
START = int(time.time() * 1000) // MINUTE * MINUTE - 60 * MINUTE
KEYS = [f"key-{n}" for n in range(20)]
VALUES = [f"v{n}" for n in range(5)]
GLOBAL = """
[views.countries]
topic = "countries"
store = "global"
key = "string"
value = "string"
"""
WINDOWED = ("sliding", "on-close", "supplied")


@dataclass(frozen=True)
class Odd:
    application: Application
    backends: list[Backend]
    adopted: str
    views: dict[str, View]
    counts: Counter[str]  # number of events by value

    def both(self, question: Question) -> tuple[Any, Any]:
        """The answers of the application and of the backends, which must be equal to each other."""
        [answer] = self.application.ask(question.to_application())
        answers = []
        for backend in self.backends:
            with Client(backend.port) as client:
                answers.append(question.to_backend(client, 1000))
        assert answers[0] == answers[1]
        return question.from_application(answer), answers[0]


@pytest.fixture(scope="module")
def odd(
    broker: Broker, make_topic: MakeTopic, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Odd]:
    folder = tmp_path_factory.mktemp("odd")
    servers = broker.bootstrap_servers
    for topic in ("events", "clicks", "people", "towns", "countries"):
        make_topic(PARTITIONS, name=topic, cleanup_policy="compact")
    counts = send(servers)
    with ExitStack() as stack:
        application = stack.enter_context(Application(servers, folder, "odd"))
        application.do("start", guarantee="at_least_once")
        application.do("consume")
        done = CliRunner().invoke(app, ["adopt", "odd", "--yes", "--bootstrap-servers", servers])
        assert done.exit_code == 0, done.stderr
        declared = done.stdout + GLOBAL
        views = {view.name: view for view in parse_views(declared).views}
        backends = stack.enter_context(Deployment(folder, servers, declared))
        started = [backends.new().launch() for _ in range(2)]
        for backend in started:
            backend.wait_ready(len(started))
        for view in views.values():
            wait_for_end(servers, view, started)
        yield Odd(application, started, done.stdout, views, counts)


def send(servers: str) -> Counter[str]:
    """Sends half an hour of events, some with clicks, and tables to join."""
    dice = Random(7)
    producer = Producer({"bootstrap.servers": servers, "partitioner": "murmur2_random"})
    counts: Counter[str] = Counter()
    for number in range(400):
        at = START + number * 5000
        value = dice.choice(VALUES)
        counts[value] += 1
        key = dice.choice(KEYS).encode()
        producer.produce("events", value, key, timestamp=at + dice.randrange(5000))
        if number % 7 == 0:
            producer.produce("clicks", "c", dice.choice(KEYS).encode(), timestamp=at)
    for number in range(40):
        producer.produce("people", f"town {number % 7}", f"person {number}")
    for number in range(7):
        producer.produce("towns", f"nice {number}", f"town {number}")
        producer.produce("countries", f"large {number}", f"country {number}")
    assert producer.flush(30) == 0
    return counts


@pytest.mark.parametrize("store", WINDOWED)
def test_windows_are_those_of_the_application(odd: Odd, store: str) -> None:
    for key in [*KEYS, "unknown"]:
        own, served = odd.both(Question(store, "windows", key, START - 60 * MINUTE, START * 2))
        assert own == [[start, value] for start, _, value in served]
        assert bool(own) == (key != "unknown")


@pytest.mark.parametrize(
    ("store", "keys"),
    [
        ("lives-in", [f"person {n}" for n in range(41)]),
        ("countries", [f"country {n}" for n in range(8)]),
    ],
)
def test_tables_are_those_of_the_application(odd: Odd, store: str, keys: list[str]) -> None:
    """The result of a foreign-key join, and a global table, whose input topic is the view."""
    for key in keys:
        own, served = odd.both(Question(store, "value", key))
        assert own == served
        assert (own is None) == (key == keys[-1])


def test_partial_results_are_an_error_and_returned_on_request(odd: Odd) -> None:
    for value in VALUES:
        own, served = odd.both(Question("per-task", "value", value))
        assert served == [503, "ambiguous-key"]
        assert 0 < own < odd.counts[value]  # the application returns the value of one task
        for backend in odd.backends:
            path = f"/views/per-task/keys/{value}?partials=all"
            partials = backend.get(path).json()["partials"]
            assert [each["partition"] for each in partials] == [0, 1, 2]
            assert sum(each["value"] for each in partials) == odd.counts[value]
            assert own in [each["value"] for each in partials]


def test_the_console_proposes_the_served_views(odd: Odd) -> None:
    shown = {name for name in odd.views if "join" not in name and "STATE-STORE" not in name}
    assert shown == {*WINDOWED, "per-task", "lives-in", "rates", "countries"}
    for inner in ("lives-subscription-store", "seen-left-shared", "met-outer-shared"):
        assert f"# odd-{inner}" in odd.adopted
    for inner in ("lives-subscription-store", "seen-left-shared-join-store"):
        assert f"odd-{inner}-changelog: not proposed" in odd.adopted
    per_task = odd.views["per-task"]
    assert (per_task.partitioner, per_task.same_key) == ("none", "partial")
    assert odd.views["sliding"].window_size == 3 * MINUTE
    assert odd.views["on-close"].window_size == 10 * MINUTE
    # the topic has 15 minutes and a day, the supplier six hours: no retention is proposed
    assert {odd.views[store].retention for store in WINDOWED} == {None}
    assert odd.views["rates"].value == "bytes"
    assert "Serdes.Float" in odd.adopted
    assert "# Stores without a changelog are not listed" in odd.adopted


def test_check_only_warns_of_partial_results(
    odd: Odd, broker: Broker, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("check") / "views.toml"
    text = odd.adopted.replace('same_key = "partial"', "")
    path.write_text(text)
    servers = broker.bootstrap_servers
    arguments = ["check", "--views", str(path), "--bootstrap-servers", servers, "--json"]
    done = CliRunner().invoke(app, arguments)
    lines = [line for line in done.stdout.splitlines() if '"view ' in line]
    assert not any('"wrong"' in line for line in lines), lines
    assert any("ambiguous-key" in line and '"warning"' in line for line in lines)
    assert not any("let the producers" in line for line in lines)

"""The changelogs of a Kafka Streams application, served as they are: its own answers, all of them.

The views are those of docs/kafka-streams.md. Each stage of the input is asked three times: the
application (interactive queries), the backends (HTTP) and a replay of the changelogs that knows
nothing of the product.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from backend.core.views import View, parse_views
from local.broker import Broker
from tests.client import Client
from tests.conftest import MakeTopic
from tests.streams.application import NAME, SOURCE, Application
from tests.streams.questions import OUTSIDE, Question, Replay, questions, value_of
from tests.streams.replay import KeyValues, Sessions, Versions, Windows
from tests.streams.shop import INPUTS, PARTITIONS, STAGES, send
from tests.system.backends import Backend, Backends
from tests.system.model import Log, history

pytestmark = [pytest.mark.system, pytest.mark.broker]

DOCUMENT = (Path(__file__).parents[2] / "docs" / "kafka-streams.md").read_text()


def block(language: str) -> str:
    """The first of the document's blocks in this language."""
    [found, *_] = re.findall(rf"^```{language}\n(.*?)^```", DOCUMENT, re.M | re.S)
    return str(found)


VIEWS = {view.name: view for view in parse_views(block("toml")).views}


@dataclass(frozen=True)
class Answered:
    question: Question
    application: Any
    backend: Any
    replay: Any
    horizon: int  # ms; of the store partition in which the key is


# by stage and store
Answers = dict[tuple[int, str], list[Answered]]


@pytest.fixture(scope="module")
def answers(
    broker: Broker, make_topic: MakeTopic, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Answers]:
    folder = tmp_path_factory.mktemp("streams")
    servers = broker.bootstrap_servers
    for topic in INPUTS:
        make_topic(PARTITIONS, name=topic)
    found: Answers = {}
    with ExitStack() as stack:
        application = stack.enter_context(Application(servers, folder))
        send(servers, 0)
        application.do("start", guarantee="at_least_once")
        backends = stack.enter_context(Backends(folder, servers, block("toml")))
        started = [backends.new().launch() for _ in range(2)]
        print("launched", _t.time()-T0)
        for stage in range(len(STAGES)):
            if stage:
                application.do("stop")
                send(servers, stage)
                if stage == 2:
                    application.do("forget")
                application.do("start", guarantee="exactly_once_v2")
            application.do("consume")
            print("consumed", stage, _t.time()-T0)
            for backend in started:
                backend.wait_ready(len(started))
            print("ready", stage, _t.time()-T0)
            with ThreadPoolExecutor() as pool:
                all_logs = pool.map(lambda view: wait_for_end(servers, view, started), VIEWS.values())
            for view, logs in zip(VIEWS.values(), all_logs):
                # wait_for_end(servers, view, started)
                print("end", view.name, _t.time()-T0)
                found[stage, view.name] = list(ask_all(application, started, view, stage, logs))
                print("asked", SUM,  view.name, len(found[stage, view.name]), _t.time()-T0)
    yield found


def wait_for_end(servers: str, view: View, backends: list[Backend]) -> list[Log]:
    """The changelog, when the backends have read it and no transaction is open."""
    partitions = range(PARTITIONS)
    settings = {"bootstrap.servers": servers, "group.id": "unused", "log_level": 0}
    with closing(Consumer(settings)) as consumer:

        def at_the_end() -> bool:
            topic = view.topic
            ends = {
                number: consumer.get_watermark_offsets(TopicPartition(topic, number), 5)[1]
                for number in partitions
            }
            held = [entry for backend in backends for entry in backend.partitions(view.name)]
            return {p["partition"]: p.get("position") for p in held} == ends

        backends[0].wait(at_the_end, f"view {view.name} to be at its end")
    return history(servers, view.topic, PARTITIONS)


def replay_of(view: View, logs: list[Log]) -> Replay:
    def decode(raw: bytes) -> Any:
        return int.from_bytes(raw, "big", signed=True) if view.value == "int64" else raw.decode()

    if view.retention is None:
        return KeyValues(logs, decode)
    kind = {"window": Windows, "session": Sessions, "versioned": Versions}[view.store]
    return kind(logs, decode, view.retention)


import time as _t
SUM=[0,0]
T0=_t.time()
KINDS = {"key-value": "value", "window": "windows", "session": "sessions", "versioned": "versions"}


def ask_all(
    application: Application, backends: list[Backend], view: View, stage: int, logs: list[Log]
) -> Iterator[Answered]:
    replay = replay_of(view, logs)
    with ExitStack() as stack:
        clients = [stack.enter_context(Client(backend.port)) for backend in backends]
        for n, question in enumerate(questions(view.name, KINDS[view.store], stage, replay)):
            a=_t.time()
            said = application.ask(question.to_application())
            if question.kind == "latest":
                said = value_of(said)
            b=_t.time()
            c=_t.time()
            SUM[0]+=b-a;SUM[1]+=c-b
            yield Answered(
                question,
                said,
                question.to_backend(clients[n % len(clients)], page=(3, 1000)[n % 3 == 0]),
                question.to_replay(replay),
                0 if isinstance(replay, KeyValues) else replay.horizon(question.key),
            )


def different(found: list[Answered], one: Callable[[Answered], Any], two: str) -> list[str]:
    return [
        f"{a.question}: {one(a)} and not {getattr(a, two)}"
        for a in found
        if one(a) != getattr(a, two)
    ][:5]


each_store = pytest.mark.parametrize("store", VIEWS)
each_stage = pytest.mark.parametrize("stage", range(len(STAGES)))


@each_stage
@each_store
def test_backends_answer_as_the_application_does(answers: Answers, store: str, stage: int) -> None:
    found = answers[stage, store]

    def answer(answered: Answered) -> Any:
        said = answered.backend
        if said[:1] == [OUTSIDE]:
            # the application says "nothing" of what it has forgotten
            assert answered.question.as_of < said[1] == answered.horizon
            return []
        return without_sequences(store, said)

    assert different(found, answer, "application") == []
    assert sum(bool(a.application) for a in found) > len(found) / 4
    assert not all(a.application for a in found)


def without_sequences(store: str, said: Any) -> Any:
    """The application does not tell them."""
    if VIEWS[store].store == "window":
        return [[start, value] for start, _, value in said]
    return said


@each_stage
@each_store
def test_the_changelog_says_what_the_application_does(
    answers: Answers, store: str, stage: int
) -> None:
    """If this fails, it is the format that is not as we know it."""
    found = answers[stage, store]
    assert different(found, lambda a: without_sequences(store, a.replay), "application") == []


@each_store
def test_sequences_are_those_of_the_changelog(answers: Answers, store: str) -> None:
    if VIEWS[store].store == "window":
        print("launched", _t.time()-T0)
        for stage in range(len(STAGES)):
            assert different(answers[stage, store], lambda a: a.backend, "replay") == []


def test_the_input_has_what_is_rare(answers: Answers) -> None:
    """Duplicates that replaced one another, windows and versions at the very horizon, …"""
    everything = [a for found in answers.values() for a in found]
    duplicates = [a.replay for a in everything if a.question.store == "payments"]
    assert any(len({item[0] for item in items}) < len(items) for items in duplicates)


def test_the_document_shows_the_application() -> None:
    source = SOURCE.read_text()
    for line in block("java").splitlines():
        assert line.strip() in source, line
    assert all(view.topic == f"{NAME}-{name}-changelog" for name, view in VIEWS.items())

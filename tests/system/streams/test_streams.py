"""Backends that serve the changelogs of a Kafka Streams application give the application's answers.

The views are those of docs/kafka-streams.md. After each stage of the input, three get the same
questions: the application (interactive queries), the backends (HTTP), and a replay of the
changelogs without code of the product.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from itertools import cycle, pairwise
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from typer.testing import CliRunner

from local.kafka.broker import Broker
from model.views import View
from model.views_file import parse_views
from queryable.cli.app import app
from tests.support.backends import Backend
from tests.support.client import Client
from tests.support.deployment import Deployment
from tests.support.plugins.fixtures import MakeTopic
from tests.support.topics import Log, history
from tests.system.streams.application import NAME, SOURCE, Application
from tests.system.streams.questions import OUTSIDE, Question, Replay, questions
from tests.system.streams.replay import KeyValues, Sessions, ViewVersions, Windows
from tests.system.streams.shop import INPUTS, PARTITIONS, RESTART, STAGES, send

DOCUMENT = (Path(__file__).parents[3] / "docs" / "kafka-streams.md").read_text()


def block(language: str) -> str:
    """The document's first block in this language."""
    [found, *_] = re.findall(rf"^```{language}\n(.*?)^```", DOCUMENT, re.M | re.S)
    return str(found)


VIEWS = {view.name: view for view in parse_views(block("toml")).views}


@dataclass(frozen=True)
class Answered:
    question: Question
    application: Any
    backend: Any
    replay: Any


# by stage and store
Answers = dict[tuple[int, str], list[Answered]]


@pytest.fixture(scope="module")
def answers(
    broker: Broker, make_topic: MakeTopic, tmp_path_factory: pytest.TempPathFactory
) -> Answers:
    folder = tmp_path_factory.mktemp("streams")
    servers = broker.bootstrap_servers
    for topic in INPUTS:
        make_topic(PARTITIONS, name=topic)
    found: Answers = {}
    with ExitStack() as stack:
        application = stack.enter_context(Application(servers, folder))
        send(servers, 0)
        application.do("start", guarantee="at_least_once")
        backends = stack.enter_context(Deployment(folder, servers, block("toml")))
        started = [backends.new().launch() for _ in range(2)]
        for stage in range(len(STAGES)):
            if stage == RESTART:
                # a restart with local state; one store is restored from its changelog
                application.do("stop")
                application.delete_state("prices")
                send(servers, stage)
                application.do("start", guarantee="exactly_once_v2")
            elif stage:
                send(servers, stage)
            application.do("consume")
            for backend in started:
                backend.wait_ready(len(started))
            with ThreadPoolExecutor(len(VIEWS)) as pool:
                logs = pool.map(lambda view: wait_for_end(servers, view, started), VIEWS.values())
            for view, of_view in zip(VIEWS.values(), logs, strict=True):
                found[stage, view.name] = list(ask_all(application, started, view, stage, of_view))
    return found


def wait_for_end(servers: str, view: View, backends: list[Backend]) -> list[Log]:
    """Waits until the backends have read the changelog, without open transactions; returns it."""
    partitions = range(PARTITIONS)
    settings = {"bootstrap.servers": servers, "group.id": "unused", "log_level": 0}
    with closing(Consumer(settings)) as consumer:

        def have_caught_up() -> bool:
            topic = view.topic
            ends = {
                number: consumer.get_watermark_offsets(TopicPartition(topic, number), 5)[1]
                for number in partitions
            }
            entries = [entry for backend in backends for entry in backend.partitions(view.name)]
            return {p["partition"]: p.get("position") for p in entries} == ends

        backends[0].wait(have_caught_up, f"view {view.name} to catch up")
    return history(servers, view.topic, PARTITIONS)


def replay_of(view: View, logs: list[Log]) -> Replay:
    def decode(raw: bytes) -> Any:
        return int.from_bytes(raw, "big", signed=True) if view.value == "int64" else raw.decode()

    if view.retention is None:
        return KeyValues(logs, decode)
    if view.store == "window":
        return Windows(logs, decode, view.retention)
    if view.store == "session":
        return Sessions(logs, decode, view.retention)
    return ViewVersions(logs, decode, view.retention)


KINDS = {"key-value": "value", "window": "windows", "session": "sessions", "versioned": "versions"}


def ask_all(
    application: Application, backends: list[Backend], view: View, stage: int, logs: list[Log]
) -> Iterator[Answered]:
    replay = replay_of(view, logs)
    asked = list(questions(view.name, KINDS[view.store], stage, replay))
    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(1))
        clients = cycle([stack.enter_context(Client(backend.port)) for backend in backends])
        pages = cycle((3, 1000, 1000))
        own = pool.submit(application.ask, *[question.to_application() for question in asked])
        served = [question.to_backend(next(clients), next(pages)) for question in asked]
        for question, answer, backend in zip(asked, own.result(), served, strict=True):
            yield Answered(
                question,
                question.from_application(answer),
                backend,
                question.to_replay(replay),
            )


each_store = pytest.mark.parametrize("store", VIEWS)
each_stage = pytest.mark.parametrize("stage", range(len(STAGES)))


@each_stage
@each_store
def test_backends_give_the_answers_of_the_application(
    answers: Answers, store: str, stage: int
) -> None:
    found = comparable(answers, stage, store)
    assert different(found, lambda a: without_sequences(a, of_backend(a)), of_application) == []
    # the questions have existing and missing keys and times
    assert sum(bool(a.application) for a in found) > 20
    assert not all(a.application for a in found)


@each_stage
@each_store
def test_the_replay_gives_the_answers_of_the_application(
    answers: Answers, store: str, stage: int
) -> None:
    """If this fails, the replay misreads the format."""
    found = comparable(answers, stage, store)
    assert different(found, lambda a: without_sequences(a, a.replay), of_application) == []


@each_stage
@each_store
def test_backends_give_the_answers_of_the_replay(answers: Answers, store: str, stage: int) -> None:
    """Also those that the application does not give: sequences, and versions after a restart."""
    assert different(answers[stage, store], of_backend, lambda a: a.replay) == []


def comparable(answers: Answers, stage: int, store: str) -> list[Answered]:
    """The answers that are comparable with the application's.

    Kafka Streams 4.1 does not open the older segments of a versioned store again, and drops records
    when it restores one: after a restart only its latest values are right.
    """
    restarted = VIEWS[store].store == "versioned" and stage >= RESTART
    return [a for a in answers[stage, store] if not restarted or a.question.kind == "latest"]


def of_application(answered: Answered) -> Any:
    return answered.application


def of_backend(answered: Answered) -> Any:
    """The backend's answer. Outside the history, the others return an empty list, not an error."""
    answer = answered.backend
    if isinstance(answer, list) and answer[:1] == [OUTSIDE]:
        question = answered.question
        assert question.as_of is not None
        assert question.as_of < answer[1] == question.horizon
        return []
    return answer


def without_sequences(answered: Answered, answer: Any) -> Any:
    """The answer without sequences, which the application does not return."""
    if isinstance(answer, list) and answer and isinstance(answer[0], int):
        return answer  # the status and the code of an error
    if answered.question.kind == "windows":
        return [[start, value] for start, _, value in answer]
    if answered.question.kind == "all-windows":
        return sorted([key, start, value] for key, start, _, value in answer)
    return answer


def different(
    found: list[Answered], one: Callable[[Answered], Any], other: Callable[[Answered], Any]
) -> list[str]:
    """The first differences."""
    return [f"{a.question}: {one(a)}, not {other(a)}" for a in found if one(a) != other(a)][:5]


def test_the_input_has_rare_cases(answers: Answers) -> None:
    def of(store: str, kind: str) -> list[Answered]:
        everything = [a for stage in range(len(STAGES)) for a in answers[stage, store]]
        return [a for a in everything if a.question.kind == kind]

    # several with one start; merged sessions; a key that was deleted between two versions
    assert any(
        len({item[0] for item in a.replay}) < len(a.replay) for a in of("payments", "windows")
    )
    assert any(
        item[2].count(";") > 3 for a in of("visits-sessions", "sessions") for item in a.replay
    )
    versions = [pair for a in of("prices", "versions") for pair in pairwise(a.replay)]
    assert any(before[1] < after[0] for before, after in versions)
    # before the horizon: versions outside the history, and latest versions that are still known
    past = [a for a in of("prices", "version") if (a.question.as_of or 0) < a.question.horizon]
    assert any(a.backend[:1] == [OUTSIDE] for a in past)
    assert any(a.backend[:1] not in ([], [OUTSIDE]) for a in past)


def test_the_console_proposes_the_views_of_the_document(answers: Answers, broker: Broker) -> None:
    """It needs only the changelogs and asks no questions. The topic does not have the retention of
    windows and sessions."""
    servers = ("--bootstrap-servers", broker.bootstrap_servers)
    done = CliRunner().invoke(app, ["adopt", NAME, "--yes", *servers])
    assert done.exit_code == 0, done.stderr
    proposed = {view.name: view for view in parse_views(done.stdout).views}
    expected = {
        name: replace(view, retention=view.retention if view.store == "versioned" else None)
        for name, view in VIEWS.items()
    }
    assert proposed == expected, done.stdout


def test_the_document_shows_the_application() -> None:
    source = SOURCE.read_text()
    for line in block("java").splitlines():
        assert line.strip() in source, line
    assert all(view.topic == f"{NAME}-{name}-changelog" for name, view in VIEWS.items())

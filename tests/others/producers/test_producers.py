"""Records that real producers have written with their defaults: `init` finds the partitioner, and
every key is found by point reads, through the proxy and from each instance."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from local.kafka.broker import Broker
from local.waiting import wait_until
from model.formats.base64url import to_base64url
from model.partitioner import puts_anywhere
from tests.others.tool import views_by_init
from tests.support.backends import Backend
from tests.support.client import Client, Response
from tests.support.plugins.fixtures import Deploy, MakeTopic
from tests.support.topics import history
from tests.vectors.producers.keys import KEYS, PARTITIONS, Key
from tests.vectors.producers.programs import PROGRAMS, MissingTool, Program, Sent

DEFAULTS = [name for name, program in PROGRAMS.items() if program.setting == "default"]
FORMATS = {
    "texts": "string",
    "decimals": "string",
    "binary": "bytes",
    "int32": "int32",
    "int64": "int64",
}
WITHOUT_KEY = 5  # records of each topic


@dataclass(frozen=True, slots=True)
class Topic:
    name: str
    keys: str  # in KEYS
    partitions: int

    def records(self) -> Iterator[Sent]:
        for number, key in enumerate(KEYS[self.keys]):
            yield Sent(self.name, key, _value(number))
            if number < WITHOUT_KEY:
                yield Sent(self.name, None, _value(-1))

    def answers(self) -> dict[bytes, bytes]:
        """By record key: the body of a point read."""
        return {
            key.raw: b'{"key":%b,"value":%b}'
            % (_document(FORMATS[self.keys], key), _value(number).encode())
            for number, key in enumerate(KEYS[self.keys])
        }


def _value(number: int) -> str:
    return f'{{"n":{number}}}'


def _document(format_: str, key: Key) -> bytes:
    """A key in JSON, as docs/reference/formats.md has it."""
    if format_ == "string":
        return json.dumps(key.raw.decode(), ensure_ascii=False).encode()
    if format_ == "bytes":
        return b'"%b"' % to_base64url(key.raw)
    return key.written.encode()


@pytest.mark.parametrize("name", DEFAULTS)
def test_every_key_of_a_producer_is_found(
    name: str, broker: Broker, make_topic: MakeTopic, deploy: Deploy, tmp_path: Path
) -> None:
    program = PROGRAMS[name]
    topics = _written(name, program, broker, make_topic)
    names = [topic.name for topic in topics]
    text = views_by_init(tmp_path, broker.bootstrap_servers, *names)
    views = tomllib.loads(text)["views"]
    for topic in topics:
        view = views[topic.name]
        fits = program.partitioner if topic.partitions > 1 else "murmur2"
        assert (topic, view["partitioner"]) == (topic, fits)
        assert (topic, view["key"]) == (topic, FORMATS[topic.keys])
    deployment = deploy(text)
    backends = deployment.start(2)
    for topic in topics:
        _wait_until_applied(backends, topic)
    for port in (deployment.proxy().port, *(backend.port for backend in backends)):
        with Client(port) as client:
            for topic in topics:
                _check(client, topic, views[topic.name]["partitioner"])
    for backend in backends:
        for topic in topics:
            assert not any(each["mis_partitioned"] for each in backend.partitions(topic.name))


def _written(name: str, program: Program, broker: Broker, make_topic: MakeTopic) -> list[Topic]:
    """The topics of a producer. The broker has each key as it was given."""
    try:
        program.command()
    except MissingTool as missing:
        pytest.skip(f"{program.producer}: {missing}")
    topics = [
        Topic(make_topic(count, f"{name}-{keys}-{count}"), keys, count)
        for keys in KEYS
        for count in PARTITIONS
    ]
    program.run(broker.bootstrap_servers, (sent for topic in topics for sent in topic.records()))
    for topic in topics:
        logs = history(broker.bootstrap_servers, topic.name, topic.partitions)
        keys = [key for log in logs for _, _, key, _ in log.records]
        assert sum(key is None for key in keys) == WITHOUT_KEY
        assert {key for key in keys if key is not None} == {key.raw for key in KEYS[topic.keys]}
    return topics


def _wait_until_applied(backends: list[Backend], topic: Topic) -> None:
    count = len(KEYS[topic.keys]) + WITHOUT_KEY

    def positions() -> list[Any]:
        return [each["position"] for b in backends for each in b.partitions(topic.name)]

    wait_until(lambda: sum(positions()) == count, 60, f"the records of {topic.name}")


def _check(client: Client, topic: Topic, partitioner: str) -> None:
    """A listing has the keys that were written, and each is found by its own text."""
    answers = topic.answers()
    listed = client.get(f"/views/{topic.name}/keys", accept="application/x-ndjson")
    lines = [line for line in listed.body.splitlines() if line.startswith(b'{"key":')]
    assert sorted(lines) == sorted(answers.values()), topic
    for key in KEYS[topic.keys]:
        for answer in _point_reads(client, topic, key):
            assert (answer.status, answer.body) == (200, answers[key.raw]), (topic, key)
            is_anywhere = partitioner == "none" or puts_anywhere(partitioner, key.raw)
            if not is_anywhere:  # one partition has answered
                assert "Partition" in answer.headers, (topic, key)


def _point_reads(client: Client, topic: Topic, key: Key) -> Iterator[Response]:
    format_ = FORMATS[topic.keys]
    document = _document(format_, key)
    path = f"/views/{topic.name}"
    yield client.request("POST", f"{path}/search", b'{"query":%b}' % document)
    text = json.loads(document) if format_ in ("string", "bytes") else key.written
    if not {"", ".", ".."} & {*text.split("/")}:  # HTTP clients resolve such parts
        encoding = "?encoding=base64url" if format_ == "bytes" else ""
        yield client.get(f"{path}/keys/{quote(text, safe='')}{encoding}")

"""The client of a view whose versions have different formats, through a real proxy: after a switch,
its first read is decoded, and its first record encoded, in the formats of the new version."""

from __future__ import annotations

import struct
from contextlib import ExitStack
from functools import partial

import pytest

from local.kafka.broker import Broker
from local.waiting import wait_until
from queryable import BadRequest
from queryable import Client as Queryable
from tests.support.backends import Backend
from tests.support.client import Client
from tests.support.deployment import Deployment, views_toml
from tests.support.nginx import Nginx
from tests.support.plugins.fixtures import Deploy, MakeTopic
from tests.support.topics import Writer, history

INFINITE, SEVEN = struct.pack(">d", float("inf")), struct.pack(">d", 7.0)


@pytest.fixture
def topics(make_topic: MakeTopic, writer: Writer) -> tuple[str, str]:
    """Version 1 has JSON, version 2 has float64."""
    first, second = make_topic(1), make_topic(1)
    writer.send(first, [(b"a", b"1")])
    writer.send(second, [(b"a", INFINITE)])
    return first, second


@pytest.fixture
def deployment(deploy: Deploy, topics: tuple[str, str]) -> Deployment:
    first, second = topics
    text = views_toml(notes={"topic": first, "append": "on"})
    text += (
        f'[views."notes@2"]\ntopic = "{second}"\nkey = "string"\nvalue = "float64"\nappend = "on"\n'
    )
    made = deploy(text)
    made.start(2)
    return made


def switch(nginx: Nginx, backends: list[Backend]) -> None:
    with Client(nginx.port) as client:
        answer = client.request("POST", "/views/notes/switch", b'{"version":2}')
        assert answer.status == 200, answer.body
    for each in backends:
        wait_until(partial(is_current, each), 10, "version 2 to be current", 0.01)


def is_current(backend: Backend) -> bool:
    return backend.get("/views/notes/keys/a").headers["View-Version"] == "2"


def test_a_client_follows_a_switch_to_other_formats(
    deployment: Deployment, topics: tuple[str, str], broker: Broker
) -> None:
    nginx = deployment.proxy()
    with ExitStack() as stack:
        reading, direct, writing, in_session = (
            stack.enter_context(Queryable(f"http://127.0.0.1:{nginx.port}", direct=is_direct))
            for is_direct in (False, True, False, False)
        )
        for client in (reading, direct, writing, in_session):
            assert client.get("notes", "a").value == 1
        switch(nginx, deployment.all)

        assert reading.get("notes", "a").value == float("inf")
        assert list(direct.scan("notes")) == [("a", float("inf"))]
        assert writing.append("notes", "b", 7).offset == 1
        with in_session.session() as seen:
            seen.take({topics[0]: {0: 0}})
            with pytest.raises(BadRequest, match="version-not-current"):
                in_session.append("notes", "b", 8)
    with Client(nginx.port) as client:
        target = f"/topics/{topics[0]}/records"
        answer = client.request("POST", target, b'{"key":"b","value":9}', view_version="1")
    assert (answer.status, answer.code) == (409, "version-not-current")
    first, second = (history(broker.bootstrap_servers, topic, 1)[0] for topic in topics)
    assert [value for *_, value in first.records] == [b"1"]
    assert [value for *_, value in second.records] == [INFINITE, SEVEN]

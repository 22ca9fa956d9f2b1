"""A topology that does not fit the group's record is sent by reference, and read over HTTP."""

from __future__ import annotations

import pytest

from backend.cluster.topology_fetcher import PATH
from local.waiting import wait_until
from tests.support.backends import Backend
from tests.support.client import Client, Response, key_path
from tests.support.deployment import settle, views_toml
from tests.support.plugins.fixtures import Deploy, MakeTopic
from tests.support.read_loop import ReadLoop
from tests.support.security.cluster_secret import SECRET
from tests.support.topics import Writer

TABLE = {f"key {n}": n for n in range(60)}
PATHS = {key_path("v", key): value for key, value in TABLE.items()}
BY_REFERENCE = "is sent by reference"


def assert_all_answered(backends: list[Backend]) -> None:
    for backend in backends:
        for path, value in PATHS.items():
            answer = backend.get(path)
            assert answer.status == 200, answer
            assert answer.json()["value"] == value


@pytest.mark.parametrize("secret", ["", SECRET])
def test_instances_get_the_topology_from_one_another(
    deploy: Deploy, make_topic: MakeTopic, writer: Writer, secret: str
) -> None:
    topic = make_topic(6)
    writer.table(topic, TABLE)
    deployment = deploy(
        views_toml(v={"topic": topic}), standby_replicas="1", group_record_bytes="1"
    )
    if secret:
        deployment.use_secrets(secret)
    backends = deployment.start(3)
    leaders = [backend for backend in backends if BY_REFERENCE in backend.log()]
    assert leaders
    assert_all_answered(backends)
    for backend in backends:
        assert "raise max.message.bytes" in backend.log() or backend not in leaders
        with Client(backend.port) as client:
            answer = client.request("POST", PATH, b"0" * 64)
        assert (answer.status, answer.code) == (
            (403, "not-a-member") if secret else (503, "not-here")
        )

    # the leader dies: another one takes over, and no read fails
    lost, *others = sorted(backends, key=lambda backend: BY_REFERENCE not in backend.log())
    seen = others[0].processors()["epoch"]

    def wrong(path: str, answer: Response) -> str:
        if answer.status == 503:
            return ""
        return "" if answer.status == 200 and answer.json()["value"] == PATHS[path] else "wrong"

    with ReadLoop([backend.port for backend in others], list(PATHS), wrong, threads=1) as reads:
        lost.kill()
        wait_until(
            lambda: all(
                backend.processors()["epoch"] != seen
                and len(backend.processors()["processors"]) == 2
                for backend in others
            ),
            30,
            "a topology of the two others",
        )
        settle(others)
        reads.check()
    assert any(BY_REFERENCE in backend.log() for backend in others)
    assert_all_answered(others)
    lost.launch()
    settle(backends)
    assert_all_answered(backends)

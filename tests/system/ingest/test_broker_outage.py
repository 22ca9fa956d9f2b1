"""Without a broker an instance cannot start, but reads continue; brokers with a password."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from confluent_kafka import TopicPartition

from local.kafka.broker import quiet_admin
from local.kafka.topics import Topic, create_topics
from local.ports import free_ports
from tests.support.brokers import PasswordBroker
from tests.support.client import Response, key_path
from tests.support.deployment import views_toml
from tests.support.plugins.fixtures import Deploy
from tests.support.read_loop import ReadLoop
from tests.support.topics import Writer, commit_offsets

USERS = {"alice": "wonder=land;'"}
KEYS = [f"key {n}" for n in range(40)]


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PasswordBroker]:
    """A broker that tests stop. It also has a listener with passwords."""
    with PasswordBroker(tmp_path_factory.mktemp("own"), USERS) as running:
        create_topics(quiet_admin(running.bootstrap_servers), [Topic("t", 3), Topic("raw", 1)])
        yield running


def test_startup_without_a_broker_fails_with_an_error(deploy: Deploy) -> None:
    [port] = free_ports(1)
    address = f"127.0.0.1:{port}"
    deployment = deploy(views_toml(v={"topic": "t"}), bootstrap_servers=address, start_timeout="3")
    backend = deployment.new().launch()
    backend.wait_listening()
    for path in ("/views/v/keys/a", "/processors"):
        answer = backend.get(path)
        assert (answer.status, answer.code) == (503, "no-topology")
        assert answer.headers["Retry-After"] == "1"
    assert backend.get("/health/ready").status == 503
    backend.wait(
        lambda: (
            "It waits for Kafka: the port of Kafka refuses connections."
            in backend.get("/views/v/keys/a").json()["detail"]
        ),
        "the reason in answers",
    )
    backend.wait_log("waiting for Kafka, up to 3 s: no connection")
    assert backend.wait_end() > 0
    log = backend.log()
    assert f"nothing listens at {address} (connection refused)" in log.lower()
    assert "QUERYABLE_BOOTSTRAP_SERVERS" in log
    assert "Traceback" not in log


def test_startup_waits_for_a_broker_that_starts_late(deploy: Deploy, own: PasswordBroker) -> None:
    Writer(own.bootstrap_servers).table("t", dict.fromkeys(KEYS, "first"))
    own.stop()
    backend = deploy(views_toml(v={"topic": "t"}), own, start_timeout="200").new().launch()
    backend.wait_listening()
    own.start()
    backend.wait_ready()
    assert backend.get(key_path("v", KEYS[0])).json()["value"] == "first"


def test_reads_continue_during_a_broker_outage_and_ingest_resumes_after_it(
    deploy: Deploy, own: PasswordBroker
) -> None:
    writer = Writer(own.bootstrap_servers)
    writer.table("t", dict.fromkeys(KEYS, "before"))
    backends = deploy(views_toml(v={"topic": "t"}), own).start(2)
    paths = [key_path("v", key) for key in KEYS]

    def judge(_: str, answer: Response) -> str:
        return "" if answer.status == 200 else "not answered"

    def answers(path: str) -> list[Response]:
        return [backend.get(path) for backend in backends]

    assert {a.headers["Lag"] for a in answers(paths[0])} == {"0"}
    with ReadLoop([b.port for b in backends], paths, judge, threads=1) as read_loop:
        own.stop()
        backends[0].wait(
            lambda: {a.headers["Lag"] for p in paths[:9] for a in answers(p)} == {"unknown"},
            "an unknown lag",
        )
        first = int(answers(paths[0])[0].headers["Staleness"])
        assert first > 0
        backends[0].wait(
            lambda: int(answers(paths[0])[0].headers["Staleness"]) > first + 1_000, "staleness"
        )
        assert backends[0].get(key_path("v", "nobody")).status == 404
        own.start()
        Writer(own.bootstrap_servers).table("t", dict.fromkeys(KEYS, "after"))
        for backend in backends:
            backend.wait(
                lambda b=backend: all(b.get(p).json()["value"] == "after" for p in paths),
                "the new values",
            )
        read_loop.check()
    for backend in backends:
        backend.wait_ready(2)
        backend.wait(lambda b=backend: b.get(paths[0]).headers["Lag"] == "0", "no lag")
        assert "is rebuilt" not in backend.log()
        assert "Traceback" not in backend.log()


def kafka_table(password: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": password,
    }


def test_all_clients_authenticate_with_the_broker(deploy: Deploy, own: PasswordBroker) -> None:
    writer = Writer(own.bootstrap_servers)
    writer.table("t", dict.fromkeys(KEYS, "behind a password"))
    writer.send("t", [(b"bad", b"{no json")])
    views = views_toml(kafka_table(USERS["alice"]), v={"topic": "t"})
    deployment = deploy(views, bootstrap_servers=own.sasl_bootstrap_servers)
    backends = deployment.start(2)
    for key in KEYS:
        for backend in backends:
            assert backend.get(key_path("v", key)).json()["value"] == "behind a password"
    # the fourth client is that of dead letters
    logs = [backend.log() for backend in backends]
    assert not any(re.search(r"could not write \d+ dead letters", log) for log in logs)
    topics = quiet_admin(own.bootstrap_servers).list_topics(timeout=10).topics
    assert "t.dead-letter" in topics
    assert not any(USERS["alice"] in log for log in logs)


def test_a_wrong_password_is_reported(deploy: Deploy, own: PasswordBroker) -> None:
    views = views_toml(kafka_table("guessed"), v={"topic": "t"})
    deployment = deploy(views, bootstrap_servers=own.sasl_bootstrap_servers, start_timeout="4")
    backend = deployment.new().launch()
    assert backend.wait_end() > 0
    log = backend.log()
    assert own.sasl_bootstrap_servers in log
    assert "uthentication" in log
    assert "[kafka]" in log
    assert "Traceback" not in log
    assert "guessed" not in log


def test_pipeline_lag_is_unknown_during_a_broker_outage(
    deploy: Deploy, own: PasswordBroker
) -> None:
    writer = Writer(own.bootstrap_servers)
    writer.table("t", dict.fromkeys(KEYS, "before"))
    writer.send("raw", [(b"k", b"v")] * 3)
    admin = quiet_admin(own.bootstrap_servers)
    ended = json.dumps({"state": "stopped", "at": 1_700_000_000_000})
    commit_offsets(admin, "job", [TopicPartition("raw", 0, 1, metadata=ended)])
    [backend] = deploy(views_toml(v={"topic": "t", "pipeline": "job"}), own).start(1)

    def lag_and_state() -> tuple[str | None, ...]:
        headers = backend.get(key_path("v", KEYS[0])).headers
        return tuple(headers.get(f"Pipeline-{name}") for name in ("Lag", "State"))

    backend.wait(lambda: lag_and_state() == ("2", "stopped"), "the pipeline's lag and state")
    own.stop()
    backend.wait(lambda: lag_and_state() == ("unknown", "unknown"), "an unknown lag and state")
    own.start()
    backend.wait(lambda: lag_and_state() == ("2", "stopped"), "the pipeline's lag and state again")
    log_lines = [line for line in backend.log().splitlines() if "ingest.pipelines" in line]
    assert len(log_lines) < 10, "the error is logged repeatedly"
    assert "Traceback" not in backend.log()

"""Topics of changes in a real broker: all instances come to the same result."""

from __future__ import annotations

import gc
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from backend.cluster import change_log
from backend.cluster.change_log import ChangeLog
from backend.instance.deployment_follower import deployments_of
from backend.instance.version_follower import versions_of
from backend.kafka.clients import LIBRDKAFKA, Librdkafka
from local.kafka.broker import Broker, quiet_admin
from local.waiting import wait_until
from model.changes.deployments import DeploymentState
from model.problems import Conflict
from model.view_versions import States, VersionState, encode_record
from tests.support.topics import Writer

DeploymentStates = Mapping[str, DeploymentState]


class Followed:
    """A log of versions, and all states that it has made known."""

    def __init__(self, broker: Broker, application: str, librdkafka: Librdkafka) -> None:
        self.seen: list[States] = []
        settings = {"bootstrap.servers": broker.bootstrap_servers}
        self.log = ChangeLog(
            settings, application, 10.0, versions_of(application), self.seen.append,
            librdkafka=librdkafka,
        )  # fmt: skip
        self.log.start()
        assert self.log.wait_until_known(20)

    def wait_for(self, states: States) -> None:
        wait_until(lambda: self.seen[-1] == states, 10, f"{states}", 0.01)


@pytest.fixture
def follow(broker: Broker) -> Iterator[Callable[..., Followed]]:
    """Starts instances of one application, one after the other. It may get other clients."""
    application = f"app-{uuid.uuid4().hex[:8]}"
    with ExitStack() as stack:

        def start(librdkafka: Librdkafka = LIBRDKAFKA) -> Followed:
            followed = Followed(broker, application, librdkafka)
            stack.callback(followed.log.stop)
            return followed

        yield start


def test_all_instances_follow_a_change(follow: Callable[[], Followed]) -> None:
    first, second = follow(), follow()
    assert first.seen == second.seen == [{}]
    state = VersionState(1).switched_to(2)
    first.log.change("orders", state)
    # in effect where it was made when the call returns
    assert first.seen[-1] == {"orders": state}
    second.wait_for({"orders": state})
    second.log.change("orders", state.rolled_back())
    second.log.change("other", VersionState(1).switched_to(3))
    expected = {"orders": state.rolled_back(), "other": VersionState(1).switched_to(3)}
    first.wait_for(expected)
    # one that starts later makes only the result known
    assert follow().seen == [expected]


def test_of_two_changes_at_the_same_time_one_counts(follow: Callable[[], Followed]) -> None:
    both = [follow(), follow()]
    outcomes: dict[int, bool] = {}

    def change(number: int, version: int) -> None:
        try:
            both[number].log.change("orders", VersionState(1).switched_to(version))
            outcomes[version] = True
        except Conflict:
            outcomes[version] = False

    threads = [threading.Thread(target=change, args=(n, n + 2)) for n in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes.values()) == [False, True]
    [version] = [version for version, counts in outcomes.items() if counts]
    for followed in (*both, follow()):
        followed.wait_for({"orders": VersionState(1).switched_to(version)})


def test_a_consumer_that_fetches_nothing_is_replaced(
    follow: Callable[..., Followed],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Like that of ingest: librdkafka may stop fetching without an error."""
    created: list[Consumer] = []

    class FirstIsStuck(Consumer):
        def __init__(self, settings: dict[str, Any]) -> None:
            super().__init__(settings)
            created.append(self)

        def poll(self, timeout: float = -1) -> Message | None:
            message = super().poll(timeout)
            if self is not created[0] or message is None:
                return message
            # neither a record nor an end after one
            return None if message.error() is None or message.offset() else message

    monkeypatch.setattr(change_log, "_CHECK_EVERY", 0.5)
    stuck = follow(Librdkafka(consumer=FirstIsStuck))
    other = follow()
    state = VersionState(1).switched_to(2)
    other.log.change("orders", state)
    stuck.wait_for({"orders": state})
    assert "has records after offset 0, but none is fetched" in caplog.text
    stuck.log.change("orders", state.rolled_back())
    assert len(created) >= 2, "another one instead of the stuck one"


def test_records_that_are_no_changes_are_skipped(
    follow: Callable[[], Followed], writer: Writer
) -> None:
    first = follow()
    state = VersionState(1).switched_to(2)
    late = encode_record("orders", VersionState(9, 1, (), 7), 0)
    writer.send(first.log.topic, [(b"orders", b"?"), (None, None), (b"orders", b"{}")])
    first.log.change("orders", state)
    writer.send(first.log.topic, [(b"orders", late)])
    second = state.rolled_back()
    first.log.change("orders", second)
    for followed in (first, follow()):
        followed.wait_for({"orders": second})


def test_the_topic_keeps_all_records(follow: Callable[[], Followed], broker: Broker) -> None:
    log = follow().log
    assert log.exists(5)
    described = quiet_admin(broker.bootstrap_servers).list_topics(log.topic, 10)
    assert len(described.topics[log.topic].partitions) == 1
    settings = {"bootstrap.servers": broker.bootstrap_servers}
    assert ChangeLog(settings, "none", 5.0, versions_of("none"), print).exists(5) is False


def test_a_broker_that_does_not_answer_does_not_say_whether_a_topic_exists() -> None:
    settings = {"bootstrap.servers": "127.0.0.1:1"}
    log = ChangeLog(settings, "app", 0.2, versions_of("app"), print)
    assert log.exists(0.5) is None


def test_one_first_record_counts(broker: Broker) -> None:
    """The instances of two deployments start at the same time: the first record decides."""
    service = f"service-{uuid.uuid4().hex[:8]}"
    settings = {"bootstrap.servers": broker.bootstrap_servers}
    seen: dict[str, list[DeploymentStates]] = {"one": [], "two": []}
    logs = [
        ChangeLog(
            settings, id_, 10.0, deployments_of(service), found.append,
            (service, DeploymentState(id_)),
        )
        for id_, found in seen.items()
    ]  # fmt: skip
    with ExitStack() as stack:
        for log in logs:
            stack.callback(log.stop)
            log.start()
        wait_until(lambda: all(found and found[-1] for found in seen.values()), 30, "the state")
        assert seen["one"][-1] == seen["two"][-1]
        state = seen["one"][-1][service]
        assert state.current in seen
        assert (state.previous, state.revision) == (None, 1)
        [other] = seen.keys() - {state.current}
        logs[0].change(service, state.switched_to(other))
        expected = {service: DeploymentState(other, state.current, 2)}
        for found in seen.values():
            wait_until(lambda found=found: found[-1] == expected, 10, "the switch", 0.01)
        with pytest.raises(Conflict, match=f"current deployment of service {service}"):
            logs[1].change(service, state.switched_to(other))


def test_a_topic_that_the_broker_describes_late_is_not_read_again(
    follow: Callable[[], Followed],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(change_log, "_CHECK_ID_EVERY", 0.3)
    topic_id, calls = ChangeLog._topic_id, list[str | None]()

    def late(log: ChangeLog[Any], admin: AdminClient) -> str | None:
        # the first request is before the topic is created, the second one when reading begins
        calls.append(None if len(calls) < 2 else topic_id(log, admin))
        return calls[-1]

    monkeypatch.setattr(ChangeLog, "_topic_id", late)
    follow()
    wait_until(lambda: len(calls) > 4, 20, "some checks")
    assert None not in calls[2:]
    assert "created again" not in caplog.text


@pytest.mark.parametrize("kept", [0, 1, 2])
def test_a_topic_that_is_created_again(
    follow: Callable[[], Followed],
    broker: Broker,
    writer: Writer,
    kept: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Instances that were running agree with those that start later. `kept`: the new topic has the
    first of the earlier changes, or as many other ones."""
    monkeypatch.setattr(change_log, "_CHECK_ID_EVERY", 0.5)
    first = follow()
    states = [VersionState(1).switched_to(2)]
    states.append(states[0].switched_to(3))
    for state in states:
        first.log.change("orders", state)
    admin = quiet_admin(broker.bootstrap_servers)
    admin.delete_topics([first.log.topic])[first.log.topic].result(10)

    def is_created() -> bool:
        [created] = admin.create_topics([NewTopic(first.log.topic, 1, 1)]).values()
        try:
            created.result(10)
        except KafkaException as e:
            return bool(e.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS)
        return True

    wait_until(is_created, 30, "the topic", 0.01)
    if kept == len(states):
        states = [VersionState(1).switched_to(5), VersionState(1).switched_to(5).switched_to(6)]
    left = [encode_record("orders", state, 0) for state in states[:kept]]
    writer.send(first.log.topic, [(b"orders", value) for value in left])
    expected = {"orders": states[kept - 1]} if kept else {}
    assert follow().seen[-1] == expected
    wait_until(lambda: first.seen[-1] == expected, 30, f"{expected}, not {first.seen}", 0.05)
    second = follow()
    change = first.seen[-1].get("orders", VersionState(1)).switched_to(4)
    first.log.change("orders", change)
    second.wait_for({"orders": change})


def clients() -> int:
    """The number of librdkafka's clients in this process: each has a main thread."""
    tasks = Path("/proc/self/task").iterdir()
    return sum((task / "comm").read_text().strip() == "rdk:main" for task in tasks)


def test_a_topic_that_does_not_exist_leaves_no_client(broker: Broker) -> None:
    """Regression: the error and the future referred to each other, so an instance without versions
    kept a client with four threads until it stopped: its garbage collector rarely runs."""
    settings = {"bootstrap.servers": broker.bootstrap_servers}
    log = ChangeLog(settings, f"app-{uuid.uuid4().hex[:8]}", 10.0, versions_of("app"), print)
    gc.collect()
    gc.disable()
    try:
        before = clients()
        assert log.exists(10.0) is False
        wait_until(lambda: clients() <= before, 5, "the end of the client", 0.05)
    finally:
        gc.enable()

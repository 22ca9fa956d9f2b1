"""The version topic in a real broker: all instances come to the same result."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from backend.cluster.version_log import VersionLog
from local.kafka.broker import Broker, quiet_admin
from local.waiting import wait_until
from model.problems import Conflict
from model.versions import States, VersionState, encode_record
from tests.support.topics import Writer

pytestmark = pytest.mark.broker


class Followed:
    """A VersionLog, and all states that it has made known."""

    def __init__(self, broker: Broker, application: str) -> None:
        self.seen: list[States] = []
        settings = {"bootstrap.servers": broker.bootstrap_servers}
        self.log = VersionLog(settings, application, 10.0, self.seen.append)
        self.log.start()
        assert self.log.wait_until_known(20)

    def wait_for(self, states: States) -> None:
        wait_until(lambda: self.seen[-1] == states, 10, f"{states}", 0.01)


@pytest.fixture
def follow(broker: Broker) -> Iterator[Callable[[], Followed]]:
    """Starts instances of one application, one after the other."""
    application = f"app-{uuid.uuid4().hex[:8]}"
    with ExitStack() as stack:

        def start() -> Followed:
            followed = Followed(broker, application)
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
    assert log.exists()
    described = quiet_admin(broker.bootstrap_servers).list_topics(log.topic, 10)
    assert len(described.topics[log.topic].partitions) == 1
    missing = VersionLog({"bootstrap.servers": broker.bootstrap_servers}, "none", 5.0, print)
    assert not missing.exists()

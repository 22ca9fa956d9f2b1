"""What an instance does when a topic of changes has lost its last ones, or cannot be read."""

from __future__ import annotations

from functools import partial
from typing import Any, cast
from unittest.mock import Mock

import pytest
from confluent_kafka import KafkaError

from backend.cluster.change_log import ChangeLog
from backend.cluster.group_state import GroupState
from backend.instance.deployment_follower import DeploymentFollower
from backend.instance.version_follower import VersionFollower, initial_versions, versions_of
from model.changes.deployments import DeploymentState
from model.view_versions import VersionState
from model.views import View
from tests.support.in_process.change_logs import FakeChangeLog, FakeTopic
from tests.support.in_process.examples import ORDERS, view
from tests.support.in_process.instance import context


def test_lost_changes_of_versions_need_a_newer_topology() -> None:
    """Their epoch is older, and proxies do not go back to an older one."""
    group, rejoin = context([]).group, Mock()
    settings = Mock(application_id="app")
    follower = VersionFollower((), {}, settings, 1.0, group, Mock(), rejoin, new_log=fake_log())
    follower.start()
    log = logs_of(follower)
    first = VersionState(1).switched_to(2)
    log.publish({"orders": first})
    log.publish({"orders": first.switched_to(3)})
    assert not rejoin.called
    log.publish({"orders": first})
    rejoin.assert_called_once_with()


def test_lost_changes_of_deployments_need_a_newer_topology() -> None:
    group, rejoin = context([]).group, Mock()
    settings = Mock(service="shop", application_id="a")
    follower = DeploymentFollower({}, cast(Any, settings), 1.0, group, rejoin, fake_log())
    follower.start()
    log = logs_of(follower)
    first = DeploymentState("a")
    log.publish({"shop": first})
    log.publish({"shop": first.switched_to("b")})
    assert not rejoin.called
    log.publish({"shop": first})
    rejoin.assert_called_once_with()


def fake_log(answer: bool | None = True) -> Any:
    return partial(FakeChangeLog, answer=answer)


def logs_of(follower: VersionFollower | DeploymentFollower) -> FakeChangeLog:
    return cast(Any, follower.log)


def started(answer: bool | None, *views: View) -> tuple[VersionFollower, GroupState]:
    settings = cast(Any, Mock(application_id="app"))
    group = context(views).group
    group.versions = initial_versions(views)
    follower = VersionFollower(
        views, {}, settings, 0.2, group, Mock(), Mock(), new_log=fake_log(answer)
    )
    follower.start()
    return follower, group


def test_no_version_is_current_until_the_topic_has_been_read() -> None:
    """Regression: an instance that lacked the current version answered from version 1."""
    follower, group = started(True, ORDERS)
    assert "orders" in group.versions.undecided
    log = logs_of(follower)
    assert log.is_followed
    log.publish({"orders": VersionState(2, 1, (), 1)})
    assert "orders" in group.versions.undecided, "it is not declared here"
    log.publish({})
    assert group.versions.named["orders"] is ORDERS


def test_without_an_answer_only_declared_versions_are_undecided() -> None:
    """Views without versions are answered, and no topic is created for them."""
    follower, group = started(None, ORDERS)
    assert group.versions.named["orders"] is ORDERS
    assert not logs_of(follower).is_followed

    follower, group = started(None, ORDERS, view("users"), view("users@2"))
    assert group.versions.undecided == {"users"}
    assert logs_of(follower).is_followed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "is_known"),
    [
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, True),
        (KafkaError.REQUEST_TIMED_OUT, False),
        (KafkaError._TIMED_OUT, False),
    ],
)
def test_nothing_was_changed_only_if_the_topic_must_not_be_created(
    code: int, is_known: bool
) -> None:
    """Else another instance may create it in the meantime, or it exists, after all."""
    topic = FakeTopic(refusal=code)
    log = ChangeLog(
        {}, "app", 0.2, versions_of("app"), lambda states: None, librdkafka=topic.librdkafka
    )
    log.start()
    try:
        assert log.wait_until_known(10 if is_known else 0.5) is is_known
    finally:
        log.stop()

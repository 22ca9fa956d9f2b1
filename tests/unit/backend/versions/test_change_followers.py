"""What an instance does when a topic of changes has lost its last ones, or cannot be read."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any, cast
from unittest.mock import Mock

import pytest
from confluent_kafka import KafkaError, KafkaException

from backend import version_follower
from backend.cluster.change_log import ChangeLog
from backend.deployment_follower import DeploymentFollower
from backend.version_follower import VersionFollower, versions_of
from model.changes.deployments import DeploymentState
from model.versions import Versions, VersionState
from model.views import View
from tests.support.in_process.examples import ORDERS, view
from tests.support.in_process.instance import context


def test_lost_changes_of_versions_need_a_newer_topology() -> None:
    """Their epoch is older, and proxies do not go back to an older one."""
    context, rejoin = Mock(versions=Versions()), Mock()

    def apply(states: Any) -> None:
        context.versions = context.versions.with_states(states)

    context.apply_versions = apply
    settings = Mock(application_id="app", broker_timeout=1.0)
    follower = VersionFollower((), {}, settings, Mock(), rejoin)
    follower._context = context
    first = VersionState(1).switched_to(2)
    follower._apply({"orders": first})
    follower._apply({"orders": first.switched_to(3)})
    assert not rejoin.called
    follower._apply({"orders": first})
    rejoin.assert_called_once_with()


def test_lost_changes_of_deployments_need_a_newer_topology() -> None:
    context, rejoin = Mock(deployment=None), Mock()

    def apply(state: DeploymentState) -> None:
        context.deployment = state

    context.apply_deployment = apply
    settings = Mock(service="shop", application_id="a", broker_timeout=1.0)
    follower = DeploymentFollower({}, cast(Any, settings), rejoin)
    follower._context = context
    first = DeploymentState("a")
    follower._apply({"shop": first})
    follower._apply({"shop": first.switched_to("b")})
    assert not rejoin.called
    follower._apply({"shop": first})
    rejoin.assert_called_once_with()


def without_broker(monkeypatch: pytest.MonkeyPatch, *views: View) -> VersionFollower:
    monkeypatch.setattr(version_follower, "_TIMEOUT", 0.2)
    settings = cast(Any, Mock(application_id="app", broker_timeout=0.2))
    return VersionFollower(views, {"bootstrap.servers": "127.0.0.1:1"}, settings, Mock(), Mock())


def test_no_version_is_current_until_the_topic_has_been_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Regression: an instance that lacked the current version answered from version 1."""
    follower = without_broker(monkeypatch, ORDERS)
    monkeypatch.setattr(follower.log, "exists", lambda timeout: True)
    of = context([ORDERS])
    of.versions = follower.initial
    follower.start(of)
    try:
        assert "orders" in of.versions.undecided
        follower._apply({"orders": VersionState(2, 1, (), 1)})
        assert "orders" in of.versions.undecided, "it is not declared here"
        follower._apply({})
        assert of.versions.named["orders"] is ORDERS
    finally:
        follower.log.stop()


def test_without_an_answer_only_declared_versions_are_undecided(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Views without versions are answered, and no topic is created for them."""
    follower = without_broker(monkeypatch, ORDERS)
    of = context([ORDERS])
    of.versions = follower.initial
    follower.start(of)
    assert of.versions.named["orders"] is ORDERS
    assert not follower.log._thread.is_alive()

    views = (ORDERS, view("users"), view("users@2"))
    follower = without_broker(monkeypatch, *views)
    of = context(views)
    of.versions = follower.initial
    follower.start(of)
    try:
        assert of.versions.undecided == {"users"}
    finally:
        follower.log.stop()


class RefusingAdmin:
    """There is no topic, and it cannot be created because of this error."""

    def __init__(self, code: int) -> None:
        self._code = code

    def describe_topics(self, topics: Any, **_: Any) -> dict[str, Future[Any]]:
        return dict.fromkeys(topics.topic_names, failed(KafkaError.UNKNOWN_TOPIC_OR_PART))

    def create_topics(self, topics: Any) -> dict[str, Future[Any]]:
        return {each.topic: failed(self._code) for each in topics}


def failed(code: int) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_exception(KafkaException(KafkaError(code)))
    return future


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
    log = ChangeLog({}, "app", 0.2, versions_of("app"), lambda states: None)
    log._admin = lambda: cast(Any, RefusingAdmin(code))  # type: ignore[method-assign]
    log.start()
    try:
        assert log.wait_until_known(10 if is_known else 0.5) is is_known
    finally:
        log.stop()

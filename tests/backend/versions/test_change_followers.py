"""What an instance does when a topic of changes has lost its last ones."""

from __future__ import annotations

from typing import Any, cast
from unittest.mock import Mock

from backend.deployment_follower import DeploymentFollower
from backend.version_follower import VersionFollower
from model.changes.deployments import DeploymentState
from model.versions import Versions, VersionState


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

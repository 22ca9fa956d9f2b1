"""What an instance does when a topic of changes has lost its last ones, or cannot be read."""

from __future__ import annotations

import uuid
from typing import Any, cast
from unittest.mock import Mock

from backend.instance.version_follower import VersionFollower, initial_versions
from local.kafka.broker import Broker, quiet_admin
from tests.support.in_process.examples import ORDERS
from tests.support.in_process.instance import context


def test_without_versions_nothing_is_followed(broker: Broker) -> None:
    application = f"app-{uuid.uuid4().hex[:8]}"
    settings = cast(Any, Mock(application_id=application))
    client = {"bootstrap.servers": broker.bootstrap_servers}
    group = context([ORDERS]).group
    group.versions = initial_versions((ORDERS,))
    follower = VersionFollower((ORDERS,), client, settings, 5.0, group, Mock(), Mock())
    follower.start()
    assert group.versions.named["orders"] is ORDERS
    topics = quiet_admin(broker.bootstrap_servers).list_topics(timeout=10).topics
    assert f"{application}-versions" not in topics

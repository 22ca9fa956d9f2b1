"""Indexes next to the last release, which has none; and after the way back and another upgrade."""

from __future__ import annotations

import random

from local.kafka.broker import Broker
from local.settings import REPOSITORY
from tests.support.backends import Backend
from tests.support.deployment import settle, views_toml
from tests.support.plugins.fixtures import Deploy, MakeTopic
from tests.support.topics import Writer
from tests.system.indexed_views import (
    BEFORE,
    PARTITIONS,
    Checker,
    plan_of,
    some_condition,
    some_records,
    views,
    where,
)
from tests.system.upgrades.last_release import Release


def use(backend: Backend, release: Release | None) -> None:
    """Run the release from the next start on; None: the current code."""
    if release is None:
        backend.settings.pop("PYTHONPATH", None)
        backend.settings["QUERYABLE_VIEWS"] = str(backend.data_dir.parent / "views.toml")
        backend.cwd = REPOSITORY
    else:
        backend.settings["PYTHONPATH"] = str(release.code)
        backend.settings["QUERYABLE_VIEWS"] = str(backend.data_dir.parent / "old-views.toml")
        backend.cwd = release.code


def test_a_condition_is_answered_rightly_or_refused_and_an_index_is_built_again(
    deploy: Deploy, broker: Broker, make_topic: MakeTopic, writer: Writer, release: Release
) -> None:
    topic = make_topic(PARTITIONS)
    chance = random.Random(20130101)
    checker = Checker(broker.bootstrap_servers, topic, chance)
    writer.send(topic, some_records(30_000, 1))
    deployment = deploy(views(topic, BEFORE))
    # the release does not know the tables
    (deployment.folder / "old-views.toml").write_text(views_toml(v={"topic": topic}))
    new, other = deployment.new(), deployment.new()
    use(other, release)
    settle([new.launch(), other.launch()])
    assert len(new.partitions("v")) == len(other.partitions("v")) == PARTITIONS // 2
    for _ in range(20):
        condition, _ = some_condition(chance)
        for what in ("keys", "count"):
            answer = new.get(where(condition, what))
            assert (answer.status, answer.code) == (503, "older-version"), answer
            refused = other.get(where(condition, what))
            assert (refused.status, refused.code) == (400, "unknown-parameter"), refused

    assert other.stop() == 0
    settle([new])
    checker.check(new)
    for number in range(2):  # the way back, with updates, and another upgrade
        assert new.stop() == 0
        use(new, release)
        settle([new.launch()])
        writer.send(topic, some_records(5_000, 10 + number))
        checker.wait_end(new)
        assert new.stop() == 0
        use(new, None)
        settle([new.launch()])
        assert new.instance()["rebuilds"] == 0
        assert "is rebuilt" not in new.log()
        checker.check(new, 5)  # while it is built
        new.wait(lambda: plan_of(new, "dest = 'D7'").startswith("index"), "the index")
        checker.check(new)
    assert checker.by_index > checker.answers // 2, checker

"""A real deployment: it has every metric that rules and dashboard name, and faults raise alerts."""

from __future__ import annotations

from pathlib import Path

import pytest

from local.kafka.broker import Broker
from local.waiting import wait_until
from tests.support.deployment import Deployment, settle, views_toml
from tests.support.plugins.fixtures import MakeTopic
from tests.support.prometheus.promql import dashboard_queries, metrics_in, rules
from tests.support.prometheus.scrapes import Samples, firing, scrape, targets
from tests.support.topics import Writer

pytestmark = pytest.mark.system

PARTITIONS = 6
KEYS = [f"k{number}" for number in range(40)]


def test_metrics_exist_and_faults_raise_their_alerts(
    broker: Broker, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic(PARTITIONS)
    writer = Writer(broker.bootstrap_servers)
    writer.table(topic, dict.fromkeys(KEYS, 1))
    views = views_toml(things={"topic": topic, "path": "/things"})
    settings = {
        "standby_replicas": "1",
        "wait_timeout": "0.2",
        # the group does not notice, so nobody takes over
        "session_timeout_ms": "60000",
    }
    with Deployment(tmp_path, broker.bootstrap_servers, views, **settings) as deployment:
        first, second, third = backends = deployment.start(3)
        settle(backends)
        nginx = deployment.proxy()
        of = targets(f"http://127.0.0.1:{nginx.port}")
        assert len(of) == 4

        def statuses() -> set[int]:
            with nginx.client() as client:
                return {client.get(f"/things/{key}").status for key in KEYS}

        def sample(samples: Samples, name: str, instance: str) -> float:
            [found] = [
                value
                for series, value in samples.items()
                if series.startswith(f"{name}{{") and f'queryable_instance="{instance}"' in series
            ]
            return found

        assert statuses() == {200}
        wait_until(
            lambda: "queryable_proxy_request_duration_seconds" in scrape(of)[1], 5, "durations"
        )
        healthy, names = scrape(of)
        queries = [*(rule["expr"] for rule in rules()), *dashboard_queries()]
        assert set().union(*map(metrics_in, queries)) - names == set()
        assert firing(healthy, healthy, tmp_path) == set()

        third.kill()
        wait_until(
            lambda: sample(scrape(of)[0], "queryable_lost_instances", first.id) == 1,
            15,
            "the loss of an instance",
        )
        assert statuses() == {200}
        one_lost, _ = scrape(of)
        assert firing(healthy, one_lost, tmp_path) == {
            "QueryableInstanceLost", "QueryableReplicasMissing", "QueryableTargetDown",
        }, {each: value for each, value in one_lost.items() if 'status="5' in each}  # fmt: skip

        writer.send(topic, [(key.encode(), b"not JSON") for key in KEYS])
        second.kill()
        name = "queryable_view_partitions_answerable"
        wait_until(
            lambda: sample(scrape(of)[0], name, first.id) < PARTITIONS, 15, "the loss of another"
        )
        assert 503 in statuses()

        def is_counted() -> bool:
            found = scrape(of)[0].items()
            failed = any(value > 0 and 'status="503"' in series for series, value in found)
            dead_letters = "queryable_dead_letters_total"
            return failed and any(value > 0 for series, value in found if dead_letters in series)

        wait_until(is_counted, 5, "failed reads and dead letters")
        two_lost, _ = scrape(of)
        assert firing(healthy, two_lost, tmp_path) >= {
            "QueryableInstanceLost", "QueryableReplicasMissing", "QueryableTargetDown",
            "QueryablePartitionsUnanswerable", "QueryableErrors", "QueryableDeadLetters",
        }  # fmt: skip

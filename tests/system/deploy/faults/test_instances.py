"""Faults of instances, which are killed. And a deployment has every metric that rules and dashboard
name."""

from __future__ import annotations

import pytest

from local.waiting import wait_until
from tests.support.backends import Backend
from tests.support.deployment import settle, views_toml
from tests.support.nginx import Nginx
from tests.support.plugins.fixtures import Deploy, MakeTopic
from tests.support.prometheus.promql import dashboard_queries, metrics_in, rules
from tests.support.prometheus.scrapes import Scrape, later, scrape, targets, when
from tests.support.topics import Writer
from tests.system.deploy.faults.conftest import Alarms

PARTITIONS = 6
KEYS = [f"k{number}" for number in range(40)]
RESTARTS = 3  # in five minutes, as `firing` sees it


@pytest.mark.raises(
    "QueryableInstanceLost", "QueryableReplicasMissing", "QueryableTargetDown",
    "QueryablePartitionsUnanswerable", "QueryableErrors", "QueryableDeadLetters",
    "QueryableProxyTopologyOld",
)  # fmt: skip
@pytest.mark.walks(
    "QueryableInstanceLost", "QueryableReplicasMissing", "QueryableTargetDown",
    "QueryablePartitionsUnanswerable", "QueryableErrors", "QueryableDeadLetters",
    "QueryableProxyTopologyOld",
)  # fmt: skip
def test_instances_are_killed_one_after_the_other(
    deploy: Deploy, make_topic: MakeTopic, writer: Writer, alarms: Alarms
) -> None:
    topic = make_topic(PARTITIONS)
    writer.table(topic, dict.fromkeys(KEYS, 1))
    views = views_toml(things={"topic": topic, "path": "/things"})
    settings = {
        "standby_replicas": "1",
        "wait_timeout": "0.2",
        # the group does not notice, so nobody takes over
        "session_timeout_ms": "60000",
    }
    deployment = deploy(views, **settings)
    first, second, third = backends = deployment.start(3)
    settle(backends)
    nginx = deployment.proxy(workers=1)  # the page of metrics has all that its worker has counted
    of = targets(f"http://127.0.0.1:{nginx.port}")
    assert len(of) == 4
    here = _differing(nginx, backends)

    def statuses() -> set[int]:
        with nginx.client() as client:
            return {client.get(f"/things/{key}").status for key in KEYS}

    def of_first(name: str) -> float:
        [found] = scrape(of).of(name, queryable_instance=first.id)
        return found

    assert statuses() == {200}
    wait_until(
        lambda: "queryable_proxy_request_duration_seconds" in scrape(of).names, 5, "durations"
    )
    healthy = scrape(of)
    queries = [*(rule["expr"] for rule in rules()), *dashboard_queries()]
    assert set().union(*map(metrics_in, queries)) - healthy.names == set()
    alarms.silent(healthy)

    third.kill()
    wait_until(lambda: of_first("queryable_lost_instances") == 1, 15, "the loss of an instance")
    assert statuses() == {200}
    alarms.wait_raised(
        healthy, of, {"QueryableInstanceLost", "QueryableReplicasMissing", "QueryableTargetDown"}
    )
    for alert in ("QueryableTargetDown", "QueryableInstanceLost", "QueryableReplicasMissing"):
        alarms.walk(alert, here)

    writer.send(topic, [(key.encode(), b"not JSON") for key in KEYS])
    second.kill()
    name = "queryable_view_partitions_answerable"
    wait_until(lambda: of_first(name) < PARTITIONS, 15, "the loss of another")
    assert 503 in statuses()
    durations = "queryable_proxy_request_duration_seconds_count"

    def is_counted() -> bool:
        found = scrape(of)
        failed = any(found.of(durations, status="503"))
        return failed and any(found.of("queryable_dead_letters_total"))

    wait_until(is_counted, 5, "failed reads and dead letters")
    two_lost = scrape(of)
    assert alarms.raised(healthy, two_lost) >= {
        "QueryableInstanceLost", "QueryableReplicasMissing", "QueryableTargetDown",
        "QueryablePartitionsUnanswerable", "QueryableErrors", "QueryableDeadLetters",
    }  # fmt: skip
    with nginx.client() as client:
        failing = next(key for key in KEYS if client.get(f"/things/{key}").status == 503)
    for alert in ("QueryablePartitionsUnanswerable", "QueryableErrors", "QueryableDeadLetters"):
        alarms.walk(alert, {**here, "4711": failing})
    # with the reads of these pages
    two_lost = later(of, scrape(of))

    first.kill()

    def age(found: Scrape) -> float:
        times = found.of("queryable_proxy_topology_confirmed_timestamp_seconds")
        return found.at - max(times)

    none_left = when(of, lambda found: age(found) > 2, 10, "an old topology")
    found = alarms.raised(two_lost, none_left, later(of, none_left))
    assert found == {"QueryableProxyTopologyOld", "QueryableTargetDown"}
    alarms.walk("QueryableProxyTopologyOld", here)


def _differing(nginx: Nginx, backends: list[Backend]) -> dict[str, str]:
    """What differs from a runbook."""
    addresses = {f"127.0.0.1:{8081 + n}": each.address for n, each in enumerate(backends)}
    return {
        "127.0.0.1:8080": f"127.0.0.1:{nginx.port}",
        "logs/access.log": str(nginx.prefix / "logs" / "access.log"),
        **addresses,
        "orders": "things",
    }


@pytest.mark.raises("QueryableRebalancesOften")
@pytest.mark.walks("QueryableRebalancesOften")
def test_an_instance_is_restarted_again_and_again(
    deploy: Deploy, make_topic: MakeTopic, alarms: Alarms
) -> None:
    deployment = deploy(views_toml(things={"topic": make_topic(PARTITIONS)}))
    stable, crashing = backends = deployment.start(2)
    nginx = deployment.proxy()
    of = targets(f"http://127.0.0.1:{stable.port}")
    healthy = scrape(of)
    alarms.silent(healthy)
    for _ in range(RESTARTS):
        crashing.kill()
        settle([stable])  # the group has noticed
        listed = {id_ for _, _, id_ in targets(f"http://127.0.0.1:{nginx.port}")}
        assert listed == {stable.id, crashing.id, "proxy"}, "Prometheus sees that it is down"
        crashing.launch()
        settle(backends)
    assert alarms.raised(healthy, scrape(of)) == {"QueryableRebalancesOften"}
    alarms.walk("QueryableRebalancesOften", _differing(nginx, backends))

"""Faults that clients of point reads notice: slow instances, and none that answers."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from local.kafka.broker import Broker
from local.waiting import wait_until
from tests.support.backends import Backend
from tests.support.deployment import settle, views_toml
from tests.support.nginx import Nginx
from tests.support.plugins.fixtures import Deploy, MakeTopic
from tests.support.prometheus.scrapes import Scrape, scrape, targets, when
from tests.support.tcp_faults import Link, TcpFaults
from tests.support.topics import Writer
from tests.system.deploy.faults.conftest import Alarms

KEYS = [f"k{number}" for number in range(40)]
CLIENTS = 8
MANY = 25  # times all keys: if the machine stands still, less than 1 % of the reads are under way
MAX_RETRIES = 1_000  # of proxy/retry_budget.lua; earlier reads have earned some
DURATIONS = "queryable_proxy_request_duration_seconds_count"


@dataclass
class Site:
    """Two instances with all partitions. Requests to the first one pass through `guard`."""

    backends: list[Backend]
    nginx: Nginx
    guard: TcpFaults

    def differing(self) -> dict[str, str]:
        """What differs from a runbook."""
        first, second = self.backends
        return {
            "127.0.0.1:8080": f"127.0.0.1:{self.nginx.port}",
            "127.0.0.1:8081": f"127.0.0.1:{first.advertised_port}",
            "127.0.0.1:8082": second.address,
            "logs/access.log": str(self.nginx.prefix / "logs" / "access.log"),
            "orders": "things",
            "4711": KEYS[0],
        }

    def read(self, times: int = 1, clients: int = CLIENTS) -> Scrape:
        """Read all keys; returns a scrape in which these reads are counted."""
        of = targets(f"http://127.0.0.1:{self.nginx.port}")
        before = sum(scrape(of).of(DURATIONS, route="key"))
        with ThreadPoolExecutor(clients) as pool:
            list(pool.map(self._get, KEYS * times))

        after = before + len(KEYS) * times
        return when(
            of, lambda found: sum(found.of(DURATIONS, route="key")) == after, 10, "the counts"
        )

    def _get(self, key: str) -> None:
        with self.nginx.client() as client:
            client.get(f"/things/{key}")


@pytest.fixture(scope="module")
def site(broker: Broker, make_topic: MakeTopic, module_deploy: Deploy) -> Iterator[Site]:
    topic = make_topic(6)
    Writer(broker.bootstrap_servers).table(topic, dict.fromkeys(KEYS, 1))
    views = views_toml(things={"topic": topic, "path": "/things"})
    deployment = module_deploy(views, standby_replicas="1")
    with TcpFaults() as guard:
        first, second = deployment.new(advertised=f"127.0.0.1:{guard.port}"), deployment.new()
        guard.target = first.port
        settle([first.launch(), second.launch()])
        # each worker has a retry budget of its own
        yield Site([first, second], deployment.proxy(workers=1), guard)


@pytest.mark.raises("QueryablePointReadsSlow")
@pytest.mark.walks("QueryablePointReadsSlow")
def test_an_instance_is_slow(site: Site, alarms: Alarms) -> None:
    last = site.read()

    def is_noticed() -> bool:
        # On a busy machine, nginx may ask the other instance meanwhile, until it is refused a
        # retry. Reads of a healthy deployment permit retries again.
        nonlocal last
        site.guard.heal()
        silent = _wait_for_silence(site, alarms, last)
        # less than the time after which nginx asks the other one, and heartbeats fail
        site.guard.shape(down=Link(delay=0.3))
        last = site.read(2)
        return alarms.raised(silent, last) == {"QueryablePointReadsSlow"}

    wait_until(is_noticed, 60, "this alert, and no other")
    alarms.walk("QueryablePointReadsSlow", site.differing())
    site.guard.heal()
    _wait_for_silence(site, alarms, last)


def _wait_for_silence(site: Site, alarms: Alarms, before: Scrape) -> Scrape:
    """Read until no alert fires: a busy machine makes some reads slow. Returns the last scrape, so
    that none of these reads counts in what follows."""
    scrapes = [before]

    def is_silent() -> bool:
        scrapes.append(site.read(MANY))
        return not alarms.raised(*scrapes[-2:])

    wait_until(is_silent, 60, "no alert")
    return scrapes[-1]


@pytest.mark.raises("QueryableRetriesDenied", "QueryableErrors", "QueryableTargetDown")
@pytest.mark.walks("QueryableRetriesDenied")
def test_no_instance_answers(site: Site, alarms: Alarms) -> None:
    healthy = site.read()
    for backend in site.backends:
        backend.kill()
    # one after the other: none is retried at the same time as another one
    dead = site.read(2 * MAX_RETRIES // len(KEYS), clients=1)
    assert alarms.raised(healthy, dead) == {
        "QueryableRetriesDenied", "QueryableErrors", "QueryableTargetDown",
    }  # fmt: skip
    alarms.walk("QueryableRetriesDenied", site.differing())

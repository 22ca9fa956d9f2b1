"""Several deployments of a service behind one nginx: it uses the topology of the current one."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from local.waiting import wait_until
from tests.support.nginx import Nginx
from tests.system.proxy.backends import Answer, Backend, Cluster, always
from tests.system.proxy.conftest import StartNginx

# the leader of the second deployment has the later clock
EPOCHS = {"blue": "1760000000000-4", "green": "1760000009000-1"}


class Service:
    """Two deployments, blue with two backends and green with one. Each says what `state` has."""

    def __init__(self) -> None:
        self.of = {"blue": Cluster(["b1", "b2"]), "green": Cluster(["g1"])}
        for name, cluster in self.of.items():
            cluster.epoch = EPOCHS[name]
            cluster.more["application_id"] = name

    @property
    def addresses(self) -> str:
        return ",".join(cluster.addresses() for cluster in self.of.values())

    def say(self, *names: str, current: str | None, revision: int) -> None:
        """What backends of these deployments (default: all) say from now on."""
        for name in names or tuple(self.of):
            cluster = self.of[name]
            service = {"name": "shop", "current": current, "revision": revision}
            cluster.more["service"] = {**service, "previous": None}
            ms, generation = EPOCHS[name].split("-")
            cluster.epoch = f"{ms}-{int(generation) + revision}"


@pytest.fixture
def service() -> Iterator[Service]:
    made = Service()
    yield made
    for cluster in made.of.values():
        cluster.stop()


def answering(nginx: Nginx, requests: int = 20) -> set[str]:
    """The backends that answer reads of different keys, through all workers."""
    found = set()
    for number in range(requests):
        with nginx.client() as client:
            response = client.get(f"/words/k{number}")
            assert response.status == 200, response
            found.add(response.json()["by"])
    return found


def wait_for(nginx: Nginx, backends: set[str]) -> None:
    # a request is answered by a worker that may have the earlier topology
    wait_until(lambda: answering(nginx) == backends, 10, f"answers of {backends}")


BLUE, GREEN = {"b1", "b2"}, {"g1"}


@pytest.mark.parametrize("current", ["blue", "green"])
def test_requests_go_to_the_current_deployment(
    service: Service, start_nginx: StartNginx, current: str
) -> None:
    service.say(current=current, revision=1)
    nginx = start_nginx(service.addresses, QUERYABLE_PROXY_REFRESH="0.1")
    nginx.wait_for_map(service.of[current].epoch)
    assert answering(nginx) == (BLUE if current == "blue" else GREEN)
    health = nginx.health()
    assert health["service"] == {"name": "shop", "current": current, "revision": 1}
    assert health["application_id"] == current
    assert "failures" not in health


def test_a_switch_and_the_way_back_fail_no_request(
    service: Service, start_nginx: StartNginx
) -> None:
    service.say(current="blue", revision=1)
    nginx = start_nginx(service.addresses, QUERYABLE_PROXY_REFRESH="0.2")
    nginx.wait_for_map(service.of["blue"].epoch)
    statuses: Counter[int] = Counter()
    stop = threading.Event()

    def read() -> None:
        with nginx.client() as client:
            while not stop.is_set():
                statuses[client.get("/words/a").status] += 1

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for revision, current in ((2, "green"), (3, "blue"), (4, "green")):
            service.say(current=current, revision=revision)
            wait_for(nginx, BLUE if current == "blue" else GREEN)
    finally:
        stop.set()
        reader.join()
    assert set(statuses) == {200}, statuses
    assert statuses[200] > 10


def test_an_answer_of_the_old_deployment_tells_of_the_switch(
    service: Service, start_nginx: StartNginx
) -> None:
    """The proxy reads the topology once an hour; the epoch in an answer is newer."""
    service.say(current="blue", revision=1)
    nginx = start_nginx(service.addresses, QUERYABLE_PROXY_REFRESH="3600")
    nginx.wait_for_map(service.of["blue"].epoch)
    service.say(current="green", revision=2)

    def answer(*_: Any) -> Answer:
        return Answer(body=b'{"by": "blue"}', headers={"Topology-Epoch": service.of["blue"].epoch})

    for backend in service.of["blue"].backends:
        backend.behave = answer
    wait_for(nginx, GREEN)


def test_the_old_deployment_answers_until_the_new_one_does(
    service: Service, start_nginx: StartNginx
) -> None:
    service.say(current="blue", revision=1)
    nginx = start_nginx(service.addresses, QUERYABLE_PROXY_REFRESH="0.1")
    nginx.wait_for_map(service.of["blue"].epoch)
    [green] = service.of["green"].backends
    green.behave_topology = always(Answer(503))
    service.say(current="green", revision=2)
    wait_until(lambda: nginx.health()["service"]["revision"] == 2, 10, "the switch")
    asked = len(green.topology_requests)
    wait_until(lambda: len(green.topology_requests) > asked + 2, 10, "that nginx asks again")
    assert answering(nginx) == BLUE
    assert nginx.health()["application_id"] == "blue"
    green.behave_topology = green.processors
    wait_for(nginx, GREEN)


def test_backends_that_do_not_know_of_the_switch_change_nothing(
    service: Service, start_nginx: StartNginx
) -> None:
    """The instances of the first deployment are cut off from Kafka."""
    service.say(current="blue", revision=1)
    nginx = start_nginx(service.addresses, QUERYABLE_PROXY_REFRESH="0.1")
    nginx.wait_for_map(service.of["blue"].epoch)
    service.say("green", current="green", revision=2)
    wait_for(nginx, GREEN)
    # an older state, with a newer epoch
    service.of["blue"].epoch = "1770000000000-1"
    asked = sum(len(b.topology_requests) for b in service.of["blue"].backends)
    wait_until(
        lambda: sum(len(b.topology_requests) for b in service.of["blue"].backends) > asked + 2,
        15, "that nginx asks them",
    )  # fmt: skip
    assert answering(nginx) == GREEN


def test_the_decision_outlives_a_reload(service: Service, start_nginx: StartNginx) -> None:
    service.say(current="green", revision=2)
    nginx = start_nginx(service.addresses, QUERYABLE_PROXY_REFRESH="0.1")
    nginx.wait_for_map(service.of["green"].epoch)
    service.say("blue", current="blue", revision=1)
    [green] = service.of["green"].backends
    green.behave_topology = always(Answer(503))
    nginx.reload()
    assert answering(nginx) == GREEN
    assert nginx.health()["service"]["current"] == "green"


def test_backends_of_another_service_do_not_decide(
    service: Service, start_nginx: StartNginx
) -> None:
    service.say(current="blue", revision=1)
    nginx = start_nginx(service.addresses, QUERYABLE_PROXY_REFRESH="0.1")
    nginx.wait_for_map(service.of["blue"].epoch)
    other = {"name": "other", "current": "green", "previous": None, "revision": 9}
    service.of["green"].more["service"] = other
    [green] = service.of["green"].backends
    wait_until(
        lambda: {each.get("application_id") for each in nginx.health()["configured"] or ()}
        == {"blue", "green"},
        15, "that nginx asks all",
    )  # fmt: skip
    asked = len(green.topology_requests)
    wait_until(lambda: len(green.topology_requests) > asked, 15, "that nginx asks it again")
    assert answering(nginx) == BLUE
    # the current deployment says that its service has another name
    service.of["blue"].more["service"] = {**other, "current": "blue", "revision": 1}
    service.of["blue"].epoch = "1770000000000-1"
    wait_until(lambda: nginx.health()["service"]["name"] == "other", 10, "the new name")


@pytest.mark.parametrize(
    "said",
    ["shop", 5, None, {}, {"name": "shop"}, {"name": "shop", "current": None, "revision": 0},
     {"name": "shop", "current": "green", "revision": "2"}],
)  # fmt: skip
def test_a_service_that_says_nothing_valid_is_ignored(
    service: Service, start_nginx: StartNginx, said: object
) -> None:
    for cluster in service.of.values():
        cluster.more["service"] = said
    nginx = start_nginx(service.addresses, QUERYABLE_PROXY_REFRESH="0.1")
    # it uses the deployment of the backend that it has asked
    wait_until(lambda: nginx.health()["application_id"] in EPOCHS, 10, "a topology")
    assert answering(nginx) in (BLUE, GREEN)
    assert nginx.health()["service"] is None


def test_another_deployment_at_the_address_of_an_instance_that_is_gone(
    start_nginx: StartNginx,
) -> None:
    """Without a service. nginx was not told of this instance, but of the others."""
    shop, other = Cluster(["b1", "b2", "b3"]), Cluster([])
    try:
        shop.more["application_id"], other.more["application_id"] = "shop", "other"
        shop.epoch, other.epoch = EPOCHS["blue"], EPOCHS["green"]
        configured = shop.addresses().rpartition(",")[0]
        nginx = start_nginx(configured, QUERYABLE_PROXY_REFRESH="0.1")
        nginx.wait_for_map(shop.epoch)
        gone = shop.backends[2]
        gone.stop()
        new = Backend(other, "o1", port=gone.port)
        other.backends.append(new)
        other.assign()
        # reads of the partitions of the instance that is gone show a newer epoch
        answering(nginx)
        wait_until(lambda: new.topology_requests, 10, "that nginx asks it")
        wait_until(lambda: "another deployment" in nginx.error_log(), 10, "the reason")
        assert set(nginx.epochs()) == {shop.epoch}
        # the group of the first deployment has noticed
        del shop.backends[2]
        shop.assign()
        shop.epoch = "1760000019000-5"
        nginx.wait_for_map(shop.epoch)
        assert answering(nginx) == {"b1", "b2"}
    finally:
        shop.stop()
        other.stop()

"""The admin page, metrics and health of three real backends after one is killed."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium import webdriver

from local.kafka.broker import Broker
from local.waiting import stretch, wait_until
from tests.support.backends import Backend
from tests.support.browser import AdminPage
from tests.support.deployment import Deployment, settle, views_toml
from tests.support.plugins.fixtures import MakeTopic
from tests.support.topics import Writer

PARTITIONS = 6


@pytest.fixture
def backends(broker: Broker, make_topic: MakeTopic, tmp_path: Path) -> Iterator[list[Backend]]:
    topic = make_topic(PARTITIONS)
    Writer(broker.bootstrap_servers).table(topic, {f"k{n}": n for n in range(30)})
    views = views_toml(things={"topic": topic, "path": "/things"})
    # the group notices late, so only heartbeats are fast
    with Deployment(
        tmp_path, broker.bootstrap_servers, views, standby_replicas="1", session_timeout_ms="15000"
    ) as deployment:
        started = deployment.start(3)
        settle(started)
        yield started


@pytest.fixture
def page(backends: list[Backend], driver: webdriver.Chrome) -> AdminPage:
    return AdminPage(driver, backends[0].port)


def metric(backend: Backend, name: str) -> float:
    lines = backend.get("/metrics").body.decode().splitlines()
    [found] = [line for line in lines if line.split("{")[0].split(" ")[0] == f"queryable_{name}"]
    return float(found.split()[-1])


def test_an_instance_that_is_killed(page: AdminPage, backends: list[Backend]) -> None:
    first, second, third = backends

    totals = page.totals

    def full(instances: str) -> bool:
        shown = totals()
        return (
            shown.get("Instances running") == instances
            and shown["Partitions answerable"] == f"{PARTITIONS} of {PARTITIONS}"
            and shown["Below replica target"] == "none"
        )

    page.wait(lambda: full("3 of 3"), "a deployment with all its replicas")
    assert metric(first, "view_partitions_below_replicas") == 0
    whole = {"wanted": 2, "below": 0, "unknown": 0, "lost": []}
    # reports of others are up to half a second old
    first.wait(lambda: first.get("/health/ready").json()["redundancy"] == whole, "their reports")
    held = [p["role"] for p in third.instance()["partitions"]]
    assert "active" in held

    killed = time.monotonic()
    third.kill()
    page.wait(lambda: page.instances()[third.id]["state"] == "lost", "that it is lost")
    # 3 s on a quiet machine; the session timeout of the group is 15 s
    assert time.monotonic() - killed < 5 * stretch()
    note = page.run("""return [...document.querySelectorAll(".instance")].map(
        (card) => card.querySelector(".note").textContent).join("|")""")
    assert re.search(r"Lost \d s ago\.", note)
    found = page.attention()
    assert next(iter(found)) == "instance-lost", "the worst comes first"
    [lost] = found["instance-lost"]
    assert re.fullmatch(rf"{third.id} was lost \d s ago: .*[Cc]onnection refused\.", lost)

    # standbys answer for all partitions; the page counts missing replicas
    assert all(first.get(f"/things/k{n}").status == 200 for n in range(30))
    shown = totals()
    assert shown["Instances running"] == "2 of 3"
    assert shown["Partitions answerable"] == f"{PARTITIONS} of {PARTITIONS}"
    assert shown["Below replica target"] == f"{len(held)} of {PARTITIONS}"
    [below] = page.attention()["below-replicas"]
    assert below.startswith(f"View things: {len(held)} of {PARTITIONS} partitions can be read, but")
    amber = page.run("return getComputedStyle(document.querySelector(arguments[0])).color",
                     "[data-code='below-replicas'] b")  # fmt: skip
    assert amber == page.run(
        "return getComputedStyle(document.querySelector(arguments[0])).color",
        "#totals [data-tone='warn'] b",
    )
    by_standbys = [t for t in page.grid("things").values() if t["how"].startswith("by ")]
    assert len(by_standbys) == held.count("active")
    assert metric(second, "view_partitions_answerable") == PARTITIONS
    assert metric(second, "view_partitions_standby_only") == held.count("active")
    assert metric(second, "view_partitions_below_replicas") == len(held)
    assert metric(second, "lost_instances") == 1
    # each instance decides by its own heartbeats: the metrics contain what the first one has found
    redundancy = {"wanted": 2, "below": len(held), "unknown": 0, "lost": [third.id]}
    second.wait(
        lambda: second.get("/health/ready").json()["redundancy"] == redundancy, "that it is lost"
    )
    assert second.get("/health/ready").status == 200, "readiness does not depend on others"

    # the next topology has all replicas again, and the loss is still listed
    page.wait_long(lambda: full("2 of 3"), "the replicas to be back")
    assert page.instances()[third.id]["state"] == "lost"
    assert list(page.attention()) == ["instance-lost"]

    # the last instance reports that redundancy is missing
    second.kill()
    page.wait_long(
        lambda: totals()["Below replica target"] == f"{PARTITIONS} of {PARTITIONS}",
        "that all partitions lack a replica",
    )
    page.wait_long(
        lambda: {t["owner"] for t in page.grid("things").values()} == {first.id},
        "the last one to be active for all",
    )
    assert totals()["Partitions answerable"] == f"{PARTITIONS} of {PARTITIONS}"
    assert totals()["Instances running"] == "1 of 3"
    assert metric(first, "view_partitions_below_replicas") == PARTITIONS

    # an instance that is back is no longer lost
    third.launch()
    page.wait_long(lambda: page.instances()[third.id]["state"] == "running", "its return")
    page.wait_long(lambda: full("2 of 3"), "the replicas to be back")


def test_an_instance_that_is_stopped_is_not_lost(backends: list[Backend]) -> None:
    first, second, third = backends
    assert third.stop() == 0
    wait_until(lambda: len(first.processors()["processors"]) == 2, 30, "a map of two")
    for backend in (first, second):
        assert backend.instance()["lost"] == []
        # the cached document is up to a second old
        backend.wait(lambda b=backend: metric(b, "lost_instances") == 0, "the metric to say so")


def test_a_replica_that_cannot_be_opened_is_missing(backends: list[Backend]) -> None:
    """Regression: it was assigned, so it counted as one that can answer."""
    first, second, third = backends

    def below() -> list[int]:
        return [b.get("/health/ready").json()["redundancy"]["below"] for b in (first, second)]

    first.wait(lambda: below() == [0, 0], "all replicas")
    assert third.stop() == 0
    # a folder that is not its own cannot be opened, as a store on a full disk
    foreign = [third.data_dir / "things" / str(n) / "foreign" for n in range(PARTITIONS)]
    for file in foreign:
        shutil.rmtree(file.parent, ignore_errors=True)
        file.parent.mkdir(parents=True)
        file.touch()
    third.launch()

    def unable() -> int:
        held = third.instance()["partitions"]
        return sum(p["state"] != "answerable" and p["role"] != "warming" for p in held)

    third.wait(lambda: third.try_get("/health/live") and unable(), "its share of the partitions")
    first.wait(lambda: below() == [unable()] * 2, "both to know what it cannot answer")
    first.wait(lambda: metric(first, "view_partitions_below_replicas") == unable(), "the metric")
    assert third.get("/health/ready").status == 503
    for file in foreign:
        shutil.rmtree(file.parent)
    third.wait_ready(3)
    first.wait(lambda: below() == [0, 0], "all replicas")

"""What the admin page says in faults, through nginx, in a real browser. One deployment, whose parts
fail one after the other."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import TopicPartition
from selenium import webdriver

from local.kafka.broker import Broker, quiet_admin
from local.kafka.topics import Topic, create_topics
from local.waiting import stretch
from tests.support.backends import Backend
from tests.support.browser import AdminPage
from tests.support.deployment import Deployment, views_toml
from tests.support.nginx import Nginx
from tests.support.topics import Writer, commit_offsets

PARTITIONS = 4
JOB = "job"
SERVICE = "shop"


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that a test stops."""
    with Broker(tmp_path_factory.mktemp("own")) as running:
        create_topics(
            quiet_admin(running.bootstrap_servers), [Topic("things", PARTITIONS), Topic("raw", 1)]
        )
        writer = Writer(running.bootstrap_servers)
        writer.table("things", {f"k{n}": n for n in range(30)})
        writer.send("raw", [(b"k", b"v")] * 3)
        yield running


@pytest.fixture(scope="module")
def deployment(own: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    views = views_toml(things={"topic": "things", "pipeline": JOB})
    folder = tmp_path_factory.mktemp("faults")
    settings = {"standby_replicas": "1", "service": SERVICE}
    with Deployment(folder, own.bootstrap_servers, views, **settings) as deployment:
        deployment.start(2)
        yield deployment


@pytest.fixture(scope="module")
def nginx(deployment: Deployment) -> Nginx:
    return deployment.proxy(workers=2)


@pytest.fixture(scope="module")
def page(nginx: Nginx, driver: webdriver.Chrome) -> AdminPage:
    return AdminPage(driver, nginx.port)


@contextlib.contextmanager
def running_job(broker: Broker) -> Iterator[None]:
    """Heartbeats of a pipeline, as those of a Spark job, until it is killed."""
    admin, over = quiet_admin(broker.bootstrap_servers), threading.Event()

    def beat() -> None:
        while not over.wait(0.3):
            heartbeat = json.dumps({"state": "running", "at": time.time_ns() // 1_000_000})
            commit_offsets(admin, JOB, [TopicPartition("raw", 0, 1, metadata=heartbeat)])

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_a_job_that_is_killed(page: AdminPage, own: Broker) -> None:
    with running_job(own):
        page.wait(lambda: page.totals().get("Pipelines running") == "1 of 1", "a running job")
        page.wait(lambda: page.attention() == {}, "that nothing needs attention")
        assert page.one("#calm").is_displayed()
    page.wait(lambda: "pipeline-stopped" in page.attention(), "that it has stopped")
    [said] = page.attention()["pipeline-stopped"]
    assert said.startswith("View things: The pipeline of topic things (consumer group job) has")
    assert "2 records behind its sources" in said
    assert page.totals()["Partitions answerable"] == f"{PARTITIONS} of {PARTITIONS}"


def test_a_broker_that_stops(page: AdminPage, own: Broker) -> None:
    size = page.totals()["Size (estimate)"]
    assert page.totals()["Records behind"] == "0"
    own.stop()
    stopped = time.monotonic()
    try:
        page.wait(lambda: "broker-silent" in page.attention(), "the sentence")
        assert time.monotonic() - stopped < 10 * stretch()
        [said] = page.attention()["broker-silent"]
        assert said.startswith("The Kafka broker has not answered for ")
        page.wait(lambda: page.totals()["Records behind"] == "unknown", "an unknown lag")
        assert page.totals()["Size (estimate)"] == size != "unknown"
        assert {card["Lag"] for card in page.instances().values()} == {"unknown"}
        assert {tile["how"] for tile in page.grid("things").values()} == {"lag unknown"}
        assert page.totals()["Partitions answerable"] == f"{PARTITIONS} of {PARTITIONS}"
        assert page.look_up("things", "k1")["outcome"] == "found"
    finally:
        own.start()
    page.wait_long(lambda: "broker-silent" not in page.attention(), "that it is back")
    page.wait_long(lambda: page.totals()["Records behind"] == "0", "the lag")


def test_a_worker_of_nginx_with_an_old_map(
    page: AdminPage, deployment: Deployment, nginx: Nginx
) -> None:
    hanging = sorted(nginx.workers())[0]
    os.kill(hanging, signal.SIGSTOP)
    try:
        third = deployment.new().launch()
        page.wait_long(lambda: third.id in page.instances(), "a new epoch")
        page.wait_long(lambda: "proxy-old-map" in page.attention(), "the old map")
        [said] = page.attention()["proxy-old-map"]
        assert f"worker {hanging} has " in said
    finally:
        os.kill(hanging, signal.SIGCONT)
    page.wait(lambda: "proxy-old-map" not in page.attention(), "that it has read the map")
    assert third.stop() == 0


def test_two_deployments_behind_one_proxy(
    page: AdminPage, deployment: Deployment, driver: webdriver.Chrome
) -> None:
    mine = deployment.all[0].settings["QUERYABLE_APPLICATION_ID"]
    other = deployment.new("other", application_id="another-shop", service="").launch()
    other.wait_ready()
    assert "two-deployments" not in page.attention()
    nginx = deployment.proxy(deployment.all[0], other, wait_for_topology=False)
    through = AdminPage(driver, nginx.port)
    through.wait(lambda: "two-deployments" in through.attention(), "the two")
    [said] = through.attention()["two-deployments"]
    assert f"another-shop (127.0.0.1:{other.port})" in said
    assert f"{mine} (127.0.0.1:{deployment.all[0].port})" in said

    # both are deployments of one service, which says which one is current
    assert other.stop() == 0
    other.launch(service=SERVICE)
    through.wait_long(lambda: "two-deployments" not in through.attention(), "one service")
    through.wait(
        lambda: through.text("#deployment") == f"{mine} (of {SERVICE}: is current)", "the header"
    )
    direct = AdminPage(driver, other.port)
    said = f"another-shop (of {SERVICE}: {mine} is current)"
    direct.wait(lambda: direct.text("#deployment") == said, "the other one's header")
    other.kill()


def test_all_backends_are_dead(
    deployment: Deployment, nginx: Nginx, driver: webdriver.Chrome
) -> None:
    backends: list[Backend] = [b for b in deployment.all if b.is_running]
    assert len(backends) == 2
    page = AdminPage(driver, nginx.port)
    page.wait(lambda: len(page.grid("things")) == PARTITIONS, "the grid")
    for backend in backends:
        backend.kill()
    page.wait(lambda: page.one("#alert").is_displayed(), "that nobody answers")
    page.wait(lambda: "nginx runs, but no backend answers" in page.text("#alert"), "the message")
    assert "The page shows the state at " in page.text("#alert")

    # also a page that is opened now
    page = AdminPage(driver, nginx.port)
    page.wait(lambda: page.one("#alert").is_displayed(), "that nobody answers")
    said = page.text("#alert")
    assert "503 no-backend" in said
    assert all(f"{b.id} (127.0.0.1:{b.port})" in said for b in backends)
    assert not page.one("#data").is_displayed()

    backends[0].launch()
    page.wait_long(lambda: len(page.grid("things")) == PARTITIONS, "the grid")
    assert not page.one("#alert").is_displayed()
    assert page.text("#live-text").startswith("live")
    drain = page.one(".instance .action")
    page.wait(drain.is_enabled, "that commands can be sent: it is known what the token allows")

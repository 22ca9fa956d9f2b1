"""The profiles `demo` and `monitoring`: answers, rights, health, faults; one deployment for all."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from local.demo.datasets import flight_rows
from local.waiting import wait_until
from tests.support.client import Client, Response
from tests.support.containers.compose import PROXY, Compose, get, wait_for_status
from tests.support.containers.engine import Engine
from tests.support.read_loop import ReadLoop

BACKENDS = ("backend-1", "backend-2", "backend-3")
RUNNING = ("broker", "spark", "tailer", "proxy", *BACKENDS)
DERIVED = ("latest-departure", "word-count", "airports", "aircraft")
_VERIFY = """
from local.demo.verify import verify
findings = verify("http://proxy:8080", "broker:9092")
print(findings.checked)
print(findings.summary())
"""
PROMETHEUS = 9090


@pytest.fixture(scope="module")
def demo(engine: Engine) -> Iterator[Compose]:
    """The demo, with all containers healthy. It is also named `monitoring`, so that `up prometheus`
    knows the service; Grafana, which Debian does not have, does not start."""
    compose = Compose(engine, "demo", ["demo", "monitoring"])
    try:
        compose.up(*RUNNING)
        for service in RUNNING:
            compose.wait_until_healthy(service, timeout_s=300)
        yield compose
    finally:
        compose.down()


def check_all_keys(demo: Compose) -> None:
    """Compare all keys with the raw data, once Spark has read it. This runs in a container: one of
    the topics has texts of Python, and the image may have another version of it."""

    def is_complete() -> bool:
        answers = [get(f"/views/{view}/keys/missing") for view in DERIVED]
        lags = [answer and answer.headers["Pipeline-Lag"] for answer in answers]
        return lags == ["0"] * len(DERIVED)

    wait_until(is_complete, 240, "Spark to read all records", 1)
    checked, _, summary = demo.execute("spark", "python", "-c", _VERIFY).partition("\n")
    assert int(checked) > 1000
    assert not summary.strip(), summary


def test_all_keys_are_answered_right(demo: Compose) -> None:
    check_all_keys(demo)
    for path in ("/admin", "/openapi.json", "/proxy/health"):
        wait_for_status(path)


@pytest.mark.parametrize("service", RUNNING)
def test_containers_have_no_more_rights_than_they_need(demo: Compose, service: str) -> None:
    for process in demo.processes(service):
        try:
            text = (process / "status").read_text()
        except (FileNotFoundError, ProcessLookupError):  # such as a health check that has ended
            continue
        status = dict(line.split(":", 1) for line in text.splitlines())
        assert set(status["Uid"].split()) == {"1000"}
        assert {int(status[field], 16) for field in ("CapEff", "CapPrm", "CapBnd")} == {0}
        assert status["NoNewPrivs"].strip() == "1"
    description = demo.engine.inspect(demo.container(service))["HostConfig"]
    assert description["ReadonlyRootfs"]
    with pytest.raises(AssertionError, match=r"Read-only file system|Permission denied"):
        demo.execute(service, "touch", "/usr/file")
    assert 0 < limit_of(demo, service) == description["Memory"] <= 3 << 30
    assert 0 < description["PidsLimit"] <= 2048
    demo.execute(service, "touch", "/tmp/file")


def limit_of(compose: Compose, service: str) -> int:
    """The limit of memory that the kernel keeps, bytes."""
    version_1, version_2 = "memory/memory.limit_in_bytes", "memory.max"
    script = f"cd /sys/fs/cgroup; cat {version_1} 2> /dev/null || cat {version_2}"
    return int(compose.execute(service, "sh", "-c", script))


def test_ports_are_published_on_loopback_only(demo: Compose) -> None:
    for service in RUNNING:
        ports = demo.engine.inspect(demo.container(service))["NetworkSettings"]["Ports"]
        addresses = {each["HostIp"] for bound in ports.values() for each in bound or ()}
        assert addresses <= {"127.0.0.1"}


def test_nginx_has_workers_for_the_containers_and_files_for_many_clients(demo: Compose) -> None:
    [_, *others] = demo.processes("proxy")
    workers = [
        process for process in others if b"worker process" in (process / "cmdline").read_bytes()
    ]
    assert 2 <= len(workers) <= max(2, os.cpu_count() or 2)
    limits = (workers[0] / "limits").read_text()
    [open_files] = [line for line in limits.splitlines() if line.startswith("Max open files")]
    soft, hard = open_files.split()[3:5]
    assert soft == hard
    with ExitStack() as stack:
        for _ in range(1500):
            stack.enter_context(socket.create_connection(("127.0.0.1", PROXY)))
        wait_for_status("/proxy/health")
    assert "accept4() failed" not in demo.log("proxy")


def test_a_backend_that_hangs_is_unhealthy_until_it_goes_on(demo: Compose) -> None:
    processes = demo.processes("backend-1")
    for process in processes:
        os.kill(int(process.name), signal.SIGSTOP)
    try:
        demo.wait_until_healthy("backend-1", health="unhealthy")
    finally:
        for process in processes:
            os.kill(int(process.name), signal.SIGCONT)
    demo.wait_until_healthy("backend-1")


def is_200(path: str, answer: Response) -> str:
    return "" if answer.status == 200 else "not answered"


@pytest.fixture
def reads() -> Iterator[ReadLoop]:
    """Reads of the demo's flights; fails if one is not answered."""
    keys = sorted({row["tailnum"] for row in flight_rows()} - {"NA"})[:60]
    loop = ReadLoop([PROXY], [f"/messages/{key}" for key in keys], is_200)
    with loop:
        loop.all_again()
        yield loop
        loop.all_again()
    assert set(loop.outcomes) == {"200"}, loop.outcomes


@pytest.mark.parametrize("end", ["dies", "is stopped"])
def test_no_read_fails_when_a_backend_ends(demo: Compose, reads: ReadLoop, end: str) -> None:
    service = "backend-2"
    if end == "dies":  # the engine starts it again by itself
        before = demo.engine.inspect(demo.container(service))["RestartCount"]
        os.kill(int(demo.processes(service)[0].name), signal.SIGKILL)
        wait_until(
            lambda: demo.engine.inspect(demo.container(service))["RestartCount"] == before + 1,
            60, "the engine to start it again",
        )  # fmt: skip
    else:
        demo.run("stop", service)
        reads.all_again()
        demo.run("start", service)
    demo.wait_until_healthy(service)


@pytest.mark.parametrize("service", ["proxy", "spark", "tailer", "broker"])
def test_a_container_whose_process_dies_is_started_again(demo: Compose, service: str) -> None:
    os.kill(int(demo.processes(service)[0].name), signal.SIGKILL)
    wait_until(
        lambda: demo.engine.inspect(demo.container(service))["RestartCount"] > 0,
        60, "the engine to start it again",
    )  # fmt: skip
    demo.wait_until_healthy(service, timeout_s=240)
    for backend in BACKENDS:
        demo.wait_until_healthy(backend, timeout_s=240)
    wait_for_status("/views/flights/keys?limit=1")


def test_logs_are_rotated(demo: Compose) -> None:
    demo.execute("proxy", "truncate", "--size", "101M", "/srv/logs/access.log")

    def is_rotated() -> bool:
        return "access.log.1" in demo.execute("proxy", "ls", "/srv/logs").split()

    wait_until(is_rotated, 90, "the access log to be rotated", 1)
    wait_for_status("/health/proxy")
    wait_until(
        lambda: int(demo.execute("proxy", "stat", "-c", "%s", "/srv/logs/access.log")) > 0,
        30, "nginx to write to the new file", 1,
    )  # fmt: skip


def test_the_stop_of_spark_is_short_and_quiet(demo: Compose) -> None:
    began = time.monotonic()
    demo.run("stop", "spark")
    assert time.monotonic() - began < 30, "it was killed after the time of grace"
    assert "StackOverflowError" not in demo.log("spark", lines="all")
    demo.run("start", "spark")
    demo.wait_until_healthy("spark", timeout_s=240)


def test_everything_is_back_after_a_restart_of_the_engine(demo: Compose) -> None:
    demo.engine.stop()
    assert get("/health/proxy") is None
    demo.engine.start()
    for service in RUNNING:
        demo.wait_until_healthy(service, timeout_s=300)
    check_all_keys(demo)


def test_prometheus_finds_all_targets_and_says_when_one_is_down(demo: Compose) -> None:
    demo.up("prometheus")
    demo.wait_until_healthy("prometheus")

    def states() -> dict[str, str]:
        found = api("targets")["activeTargets"]
        return {each["labels"]["queryable_instance"]: each["health"] for each in found}

    wanted = dict.fromkeys(("proxy", *BACKENDS), "up")
    wait_until(lambda: states() == wanted, 90, "all targets to be scraped", 1)
    rules = [rule["name"] for group in api("rules")["groups"] for rule in group["rules"]]
    assert "QueryableTargetDown" in rules
    # a job that has just started has not read its sources yet: these alerts are pending
    wait_until(lambda: api("alerts")["alerts"] == [], 240, "all alerts to end", 2)

    demo.engine.docker("kill", demo.container("backend-3"))  # so it stays away
    wait_until(lambda: states().get("backend-3") == "down", 60, "its scrapes to fail", 1)

    def firing() -> set[str]:
        return {
            alert["labels"]["alertname"]
            for alert in api("alerts")["alerts"]
            if alert["state"] == "firing"
        }

    # the scrape's interval, the rule's `for` of 2 minutes, and the evaluation's interval
    wait_until(lambda: "QueryableTargetDown" in firing(), 240, "the alert", 2)
    assert states()["backend-3"] == "down", "it stays listed"
    demo.run("start", "backend-3")
    demo.wait_until_healthy("backend-3")
    wait_until(lambda: states() == wanted, 90, "it to be scraped again", 1)


def api(path: str) -> Any:
    """The data of a request of Prometheus' API."""
    with Client(PROMETHEUS) as client:
        return client.get(f"/api/v1/{path}").json()["data"]

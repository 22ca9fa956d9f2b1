"""/proxy/metrics: durations of requests, retries, and the topologies of the workers."""

from __future__ import annotations

import json
import re
import statistics
import subprocess
import time
from itertools import pairwise
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from backend.http.router import Router
from backend.telemetry.buckets import BOUNDS, quantile
from local.errors import LocalError
from local.waiting import wait_until
from tests.support.in_process.instance import context
from tests.support.nginx import Nginx
from tests.support.prometheus.promtool import promtool
from tests.system.proxy.backends import CATCHING_UP, EPOCH, Answer, Cluster, Request, always
from tests.system.proxy.conftest import KEY, Roles, StartNginx
from tests.system.proxy.crowd import LINE, PATIENT, Crowd, Gate, send_behind_first

ROOT = Path(__file__).parents[3]
README = (ROOT / "docs/reference/metrics.md").read_text()
DURATION = "queryable_proxy_request_duration_seconds"

Labels = tuple[str, str, str, str]
"""route, view, role and status."""


def scrape(nginx: Nginx) -> str:
    with nginx.client() as client:
        return client.get("/proxy/metrics").body.decode()


def value(nginx: Nginx, name: str) -> float:
    [found] = re.findall(rf"^queryable_proxy_{name} (\S+)$", scrape(nginx), re.M)
    return float(found)


def histograms(nginx: Nginx) -> dict[Labels, list[int]]:
    """The counts of each bucket, not cumulative."""
    found: dict[Labels, list[float]] = {}
    for family in text_string_to_metric_families(scrape(nginx)):
        for sample in family.samples:
            if sample.name == f"{DURATION}_bucket":
                at = tuple(sample.labels[name] for name in ("route", "view", "role", "status"))
                found.setdefault(at, [0]).append(sample.value)  # type: ignore[arg-type]
    return {at: [int(b - a) for a, b in pairwise(counts)] for at, counts in found.items()}


def counted(nginx: Nginx) -> dict[Labels, int]:
    return {at: sum(counts) for at, counts in histograms(nginx).items() if at[0] != "proxy"}


def wait_counted(nginx: Nginx, *expected: tuple[Labels, int]) -> None:
    """Other workers report within a second."""
    try:
        wait_until(lambda: counted(nginx).items() >= set(expected), 3, "the counts")
    except LocalError:
        assert counted(nginx) == dict(expected)


def answer_of(role: str, status: int = 200, delay: float = 0.0) -> object:
    def behave(_: Request) -> Answer:
        time.sleep(delay)
        return Answer(status, b"{}", {"served-by": f"b1; {role}"})

    return behave


def test_bounds_and_labels_are_those_of_the_backends() -> None:
    router = Router(context(), None)  # type: ignore[arg-type]
    paths = {
        route.pattern.replace("{path}", "/orders")
        .replace("{view}", "orders")
        .replace("{topic}", "orders")
        .replace("{key}", "a")
        .replace("{rest}", "x"): route.label
        for route in router.routes
        if not route.is_internal and route.pattern != "{other}"
    }
    done = subprocess.run(
        ["luajit", "tests/support/lua/labels.lua"],
        cwd=ROOT, input="\n".join(paths), capture_output=True, text=True, check=True,
    )  # fmt: skip
    bounds, *labels = done.stdout.splitlines()
    assert tuple(map(float, bounds.split())) == BOUNDS
    assert dict(zip(paths, labels, strict=True)) == paths


def test_names_follow_the_conventions_and_are_documented(nginx: Nginx) -> None:
    with nginx.client() as client:
        client.get(KEY)
    text = scrape(nginx)
    assert promtool("check", "metrics", stdin=text.encode()) == ""
    documented = dict(re.findall(r"^\| `(queryable_proxy_\w+)` \| (\w+) \|", README, re.M))
    assert documented == {
        family.name + ("_total" if family.type == "counter" else ""): family.type
        for family in text_string_to_metric_families(text)
    }


def test_requests_are_counted_by_route_view_role_and_status(nginx: Nginx, cluster: Cluster) -> None:
    with nginx.client() as client:
        for backend in cluster.backends:
            backend.behave = answer_of("active")  # type: ignore[assignment]
        client.get(KEY)
        client.get(f"{KEY}/windows?limit=1")
        client.get("/views/words/count")
        client.get("/views/none/count")
        client.get("/nothing/here/../at?all")
        for backend in cluster.backends:
            backend.behave = answer_of("standby", 404)  # type: ignore[assignment]
        client.get(KEY)
        client.get("/internal/reads")
    wait_counted(
        nginx,
        (("key", "words", "active", "200"), 1),
        (("key/windows", "words", "active", "200"), 1),
        (("count", "words", "active", "200"), 1),
        (("count", "", "active", "200"), 1),
        (("key", "words", "standby", "404"), 1),
        (("other", "", "active", "200"), 1),
        (("other", "", "", "404"), 1),
    )


def test_a_scrape_of_many_histograms_logs_nothing(nginx: Nginx, cluster: Cluster) -> None:
    statuses = range(440, 480)
    with nginx.client() as client:
        for status in statuses:
            for backend in cluster.backends:
                backend.behave = answer_of("active", status)  # type: ignore[assignment]
            client.get("/views/words/count")
    wait_counted(nginx, *((("count", "words", "active", str(each)), 1) for each in statuses))
    assert "[warn]" not in nginx.error_log()


def test_coalesced_reads_are_counted_one_by_one(
    cluster: Cluster, roles: Roles, start_nginx: StartNginx
) -> None:
    nginx = start_nginx(cluster.addresses(), 1, QUERYABLE_PROXY_REFRESH="60", **PATIENT)
    nginx.wait_for_map(cluster.epoch)
    active, *_ = roles
    gate = Gate(active)
    active.answer = answer_of("active")  # type: ignore[method-assign, assignment]
    with Crowd(nginx) as crowd:
        send_behind_first(crowd, nginx, active, [LINE] * 3)
        gate.open()
        assert [answer.status for answer in crowd.answers()] == [200] * 4
    assert active.batches == [1, 3]
    wait_counted(nginx, (("key", "words", "active", "200"), 4))


def test_durations_are_those_of_the_clients(nginx: Nginx, cluster: Cluster) -> None:
    for backend in cluster.backends:
        backend.behave = answer_of("active", delay=0.2)  # type: ignore[assignment]
    taken = []
    with nginx.client() as client:
        for _ in range(10):
            began = time.perf_counter()
            client.get("/views/words/count")
            taken.append(time.perf_counter() - began)
    at = ("count", "words", "active", "200")
    wait_counted(nginx, (at, len(taken)))
    found = quantile(histograms(nginx)[at], 0.5)
    assert found == pytest.approx(statistics.median(taken), rel=0.1)


def test_retries_and_refused_requests_are_counted(
    cluster: Cluster, roles: Roles, start_nginx: StartNginx
) -> None:
    nginx = start_nginx(cluster.addresses(), 1, QUERYABLE_PROXY_REFRESH="60")
    nginx.wait_for_map(cluster.epoch)
    active, standby, other = roles
    active.behave = always(CATCHING_UP)
    with nginx.client() as client:
        assert client.get(KEY).status == 200
        assert value(nginx, "retries_total") == 1
        for backend in (active, standby, other):
            backend.behave = always(None)
        assert client.get(KEY).status == 503
    assert value(nginx, "fallbacks_total") == 1
    assert value(nginx, "retries_total") >= 3
    assert value(nginx, "denied_retries_total") == 0
    wait_counted(nginx, (("key", "words", "", "503"), 1))


def test_each_worker_reports_the_age_of_its_topology(nginx: Nginx) -> None:
    def found() -> dict[str, float]:
        text = scrape(nginx)
        name = "queryable_proxy_topology_confirmed_timestamp_seconds"
        return {
            worker: float(at)
            for worker, at in re.findall(rf'^{name}{{worker="(\d+)"}} (\S+)$', text, re.M)
        }

    wait_until(lambda: len(found()) == len(nginx.workers()), 5, "all workers")
    assert all(abs(time.time() - at) < 5 for at in found().values())
    epoch = float(EPOCH.partition("-")[0]) / 1000
    assert f'topology_epoch_timestamp_seconds{{worker="0"}} {epoch:.3f}\n' in scrape(nginx)


def test_targets_are_all_instances_and_nginx(nginx: Nginx, cluster: Cluster) -> None:
    with nginx.client() as client:
        found = json.loads(client.get("/metrics/targets").body)
        by_name = client.get("/metrics/targets", Host="q.local").body
    addresses = {
        each["labels"]["queryable_instance"]: (*each["targets"], each["labels"]["__metrics_path__"])
        for each in found
    }
    assert addresses == {
        **{b.name: (f"127.0.0.1:{b.port}", "/metrics") for b in cluster.backends},
        "proxy": (f"127.0.0.1:{nginx.port}", "/proxy/metrics"),
    }
    assert {each["labels"]["__scheme__"] for each in found} == {"http"}
    assert json.loads(by_name)["code"] == "host-not-allowed"


@pytest.mark.parametrize("path", ["/metrics", "/metrics?name=x", "/%6Detrics"])
def test_metrics_of_one_backend_are_refused(nginx: Nginx, cluster: Cluster, path: str) -> None:
    with nginx.client() as client:
        answer = client.get(path)
    assert (answer.status, answer.code) == (421, "metrics-of-instances")
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert set(answer.json()["targets"]) == {
        *(f"http://127.0.0.1:{backend.port}/metrics" for backend in cluster.backends),
        f"http://127.0.0.1:{nginx.port}/proxy/metrics",
    }
    assert not any(request.path == path for b in cluster.backends for request in b.requests)

"""One id finds the lines of nginx and of all instances that work for a request."""

from __future__ import annotations

import json
from typing import Any

import pytest

from local.waiting import wait_until
from tests.support.backends import Backend
from tests.support.deployment import Deployment, settle, views_toml
from tests.support.nginx import Nginx
from tests.support.plugins.fixtures import Deploy, MakeTopic
from tests.support.topics import Writer

KEYS = [f"k{number}" for number in range(12)]
SERDE = "org.apache.kafka.common.serialization.Serdes$StringSerde"
KIQR = f"/api/v1/kv/things?keySerde={SERDE}&valueSerde={SERDE}"
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def deployment(
    module_deploy: Deploy, make_topic: MakeTopic, writer: Writer
) -> tuple[Deployment, list[Backend], Nginx]:
    topic = make_topic(4)
    writer.table(topic, dict.fromkeys(KEYS, 1))
    deployment = module_deploy(
        views_toml(things={"topic": topic, "path": "/things"}),
        log_format="json", request_log="on", standby_replicas="0",
    )  # fmt: skip
    backends = deployment.start(2)
    settle(backends)
    return deployment, backends, deployment.proxy()


def lines(text: str, trace_id: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines() if trace_id in line]


def found_by(
    trace_id: str, backends: list[Backend], nginx: Nginx
) -> tuple[list[dict[str, Any]], dict[str, list[dict[str, Any]]]]:
    """The lines of nginx, and those of each backend."""
    access = nginx.prefix / "logs" / "access.log"
    return lines(access.read_text(), trace_id), {
        backend.id: lines(backend.log(), trace_id) for backend in backends
    }


@pytest.mark.parametrize(
    ("method", "path", "body", "routes"),
    [
        ("GET", "/views/things/count", None, ("count", "internal/scan")),
        ("GET", "/views/things/keys?limit=20", None, ("keys", "internal/scan")),
        ("POST", "/views/things/batch", {"keys": KEYS}, ("batch", "internal/batch")),
        ("GET", KIQR, None, ("api", "internal/scan")),
    ],
)
def test_one_id_finds_all_lines_of_a_request(
    deployment: tuple[Deployment, list[Backend], Nginx],
    method: str,
    path: str,
    body: Any,
    routes: tuple[str, str],
) -> None:
    _, backends, nginx = deployment
    encoded = None if body is None else json.dumps(body).encode()
    with nginx.client() as client:
        answer = client.request(method, path, body=encoded, headers=JSON)
    assert answer.status == 200, answer
    access = nginx.prefix / "logs" / "access.log"

    def last_line() -> dict[str, Any]:
        of_path = [line for line in access.read_text().splitlines() if f'"{path}"' in line]
        return json.loads(of_path[-1]) if of_path else {}

    trace_id = wait_until(last_line, 5, "the line of nginx")["trace_id"]
    assert len(trace_id) == 32

    def hops() -> set[str]:
        _, by_backend = found_by(trace_id, backends, nginx)
        return {line["route"] for of in by_backend.values() for line in of if "route" in line}

    wait_until(lambda: hops() >= set(routes), 5, "the lines of both hops")
    of_nginx, by_backend = found_by(trace_id, backends, nginx)
    assert len(of_nginx) == 1
    assert all(by_backend.values())
    # the second hop says which part has caused it
    [first] = [line for of in by_backend.values() for line in of if line["route"] == routes[0]]
    seconds = [line for of in by_backend.values() for line in of if line["route"] == routes[1]]
    assert {line["parent_id"] for line in seconds} == {first["span_id"]}
    assert first["parent_id"] == trace_id[-16:]


@pytest.mark.parametrize("search", [False, True])
def test_a_forwarded_read_has_the_id_of_the_client(
    deployment: tuple[Deployment, list[Backend], Nginx], search: bool
) -> None:
    _, backends, nginx = deployment
    first, second = backends
    served = {key: first.get(f"/things/{key}").headers["Served-By"] for key in KEYS}
    key = next(key for key, by in served.items() if by.startswith(f"{second.id};"))
    trace_id = f"{'ab' * 15}{search:02x}"
    headers = {**JSON, "traceparent": f"00-{trace_id}-00f067aa0ba902b7-01"}
    with first.client() as client:
        if search:
            body = json.dumps({"query": key}).encode()
            answer = client.request("POST", "/views/things/search", body=body, headers=headers)
        else:
            answer = client.request("GET", f"/things/{key}", headers=headers)
    assert answer.status == 200, answer

    def both() -> bool:
        _, by_backend = found_by(trace_id, backends, nginx)
        return all(by_backend.values())

    wait_until(both, 5, "the lines of both instances")
    _, by_backend = found_by(trace_id, backends, nginx)
    [one], [other] = by_backend[first.id], by_backend[second.id]
    assert one["parent_id"] == "00f067aa0ba902b7"
    assert (other["parent_id"], other["forwarded_by"]) == (one["span_id"], first.id)
    assert one["route"] == ("search" if search else "key")
    # a search is forwarded as the read that it stands for
    assert (other["route"], other["view"], other["role"]) == ("key", "things", "active")
    assert other["duration_ms"] <= one["duration_ms"]


def test_every_line_is_json_and_frequent_requests_have_none(
    deployment: tuple[Deployment, list[Backend], Nginx],
) -> None:
    _, backends, _ = deployment
    for backend in backends:
        events = [json.loads(line) for line in backend.log().splitlines()]
        assert {event["instance"] for event in events} == {backend.id}
        assert {"gunicorn.error", "backend.instance.app", "backend.requests"} <= {
            event["logger"] for event in events
        }
        routes = {event.get("route") for event in events}
        assert not routes & {"internal/heartbeat", "health", "processors", "metrics"}

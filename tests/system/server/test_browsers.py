"""Pages in a real browser, the audit log and quotas, on real instances and through nginx."""

from __future__ import annotations

import json
import stat
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver

from local.kafka.broker import Broker
from local.waiting import wait_until
from tests.support.backends import Backend
from tests.support.browser import chromium
from tests.support.client import Client, raw
from tests.support.deployment import views_toml
from tests.support.nginx import Nginx
from tests.support.plugins.fixtures import Deploy, MakeTopic
from tests.support.topics import history

REBOUND = "evil.example"


class _Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b"<!doctype html><title>page</title><iframe name=frame></iframe>"
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@dataclass
class Running:
    backends: list[Backend]
    nginx: Nginx
    topic: str
    page_port: int
    audit_log: Path

    @property
    def ports(self) -> tuple[int, int]:
        return self.backends[0].port, self.nginx.port

    def audited(self, event: str) -> list[dict[str, Any]]:
        lines = self.audit_log.read_text().splitlines()
        return [line for line in map(json.loads, lines) if line["event"] == event]


@pytest.fixture(scope="module")
def running(
    module_deploy: Deploy, make_topic: MakeTopic, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    # threads: the browser opens connections in advance, and sends nothing on them
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Page)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    port, topic = server.server_address[1], make_topic(2)
    audit_log = tmp_path_factory.mktemp("audit") / "audit.log"
    deployment = module_deploy(
        views_toml(
            v={"topic": topic, "append": "on"},
            limited={"topic": make_topic(2), "quota": "4/m"},
        ),
        cors_origins=f"http://127.0.0.1:{port}",
        audit_log=str(audit_log),
    )
    backends = deployment.start(2)
    yield Running(backends, deployment.proxy(), topic, port, audit_log)
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    rules = f"--host-resolver-rules=MAP {REBOUND} 127.0.0.1"
    with chromium(tmp_path_factory.mktemp("chromium"), rules) as driver:
        yield driver


FETCH = """
const [url, options, done] = arguments;
fetch(url, options).then(
  async (answer) => done([answer.type, answer.status, await answer.text(),
                          answer.headers.get("Partition")]),
  () => done(null),
);
"""
FORM = """
const form = document.createElement("form");
form.action = arguments[0]; form.method = "post"; form.target = "frame";
form.enctype = "text/plain";
const field = document.createElement("input");
field.name = arguments[1];
form.append(field); document.body.append(form); form.submit();
"""
APPEND = json.dumps({"key": "from a page", "value": 1})


def fetch(driver: webdriver.Chrome, port: int, path: str, **options: Any) -> Any:
    """[type, status, text, Partition] as a page sees the answer; None if it sees none."""
    return driver.execute_async_script(FETCH, f"http://127.0.0.1:{port}{path}", options)


def test_a_page_of_another_site_cannot_read_or_append(
    running: Running, driver: webdriver.Chrome, broker: Broker
) -> None:
    driver.get(f"http://localhost:{running.page_port}")
    append = f"/topics/{running.topic}/records"
    as_json = {"Content-Type": "application/json"}
    nothing = (None, ["opaque", 0, "", None])
    for port in running.ports:
        assert fetch(driver, port, "/views") is None
        assert fetch(driver, port, "/views", headers={"Authorization": "Bearer x"}) is None
        assert fetch(driver, port, "/views", mode="no-cors") in nothing
        post = {"method": "POST", "body": APPEND}
        assert fetch(driver, port, append, **post) is None
        assert fetch(driver, port, append, **post, headers=as_json) is None
        assert fetch(driver, port, append, **post, mode="no-cors") in nothing
        driver.execute_script(FORM, f"http://127.0.0.1:{port}{append}", APPEND)
    # of each port: a fetch, a preflight, a fetch without CORS, and a form
    wait_until(
        lambda: sum(line["name"] == running.topic for line in running.audited("refused")) == 8,
        20,
        "the refusals",
    )
    assert running.audited("append") == []
    logs = history(broker.bootstrap_servers, running.topic, 2)
    assert [log.records for log in logs] == [[], []]


def test_a_page_under_a_name_that_resolves_to_the_server_gets_nothing(
    running: Running, driver: webdriver.Chrome
) -> None:
    for port in running.ports:
        for path in ("/views", "/views/v/keys/a", "/admin", "/health/live"):
            driver.get(f"http://{REBOUND}:{port}{path}")
            assert "host-not-allowed" in driver.page_source
            assert fetch_own(driver, path) == 403


def fetch_own(driver: webdriver.Chrome, path: str) -> int:
    script = "fetch(arguments[0]).then((answer) => arguments[1](answer.status))"
    return int(driver.execute_async_script(script, path))


def test_a_page_of_a_listed_origin_can_read_and_append(
    running: Running, driver: webdriver.Chrome
) -> None:
    driver.get(f"http://127.0.0.1:{running.page_port}")
    before = len(running.audited("append"))
    for number, port in enumerate(running.ports):
        body = json.dumps({"key": f"key {number}", "value": number})
        kind, status, text, _ = fetch(
            driver, port, f"/topics/{running.topic}/records", method="POST", body=body,
            headers={"Content-Type": "application/json", "Authorization": "Bearer x"},
        )  # fmt: skip
        assert (kind, status) == ("cors", 200)
        at = json.loads(text)
        path = f"/views/v/keys/key%20{number}?min_offset={at['partition']}:{at['offset']}"
        kind, status, text, partition = fetch(driver, port, path)
        assert (kind, status, json.loads(text)["value"]) == ("cors", 200, number)
        assert partition == str(at["partition"])
        _, status, text, _ = fetch(driver, port, "/views/v/keys/missing")
        assert (status, json.loads(text)["code"]) == (404, "key-not-found")
        line = running.audited("append")[before + number]
        assert (line["partition"], line["offset"]) == (at["partition"], at["offset"])
        assert (line["name"], line["status"], line["client"]) == (running.topic, 200, "127.0.0.1")
        through_nginx = port == running.nginx.port
        assert line["claimed_client"] == ("127.0.0.1" if through_nginx else None)
    assert "key 0" not in running.audit_log.read_text()
    assert stat.S_IMODE(running.audit_log.stat().st_mode) == 0o600


def test_other_sites_may_link_to_the_admin_page(running: Running, driver: webdriver.Chrome) -> None:
    for port in running.ports:
        for path, is_shown in (("/admin", True), ("/views", False)):
            driver.get(f"http://localhost:{running.page_port}")
            driver.execute_script("location = arguments[0]", f"http://127.0.0.1:{port}{path}")
            wait_until(lambda p=path: p in driver.current_url, 20, "the page")
            assert ("cross-site" in driver.page_source) is not is_shown


@pytest.mark.parametrize("direct", [True, False])
def test_no_answer_may_be_taken_for_another_type(running: Running, direct: bool) -> None:
    port = running.ports[0] if direct else running.ports[1]
    host = "Host: t\r\n"
    requests = [
        *(f"GET /views/v/keys/k{n} HTTP/1.1\r\n{host}\r\n" for n in range(4)),
        *(
            f"GET {path} HTTP/1.1\r\n{host}Connection: close\r\n\r\n"
            for path in ("/views", "/admin", "/health/live", "/metrics", "/no/such", "/processors",
                         "/views/v/keys", "/views/v/count", "/api/v1/kv/v/count", "/views/v/keys/%")
        ),
        f"GET /views/v/keys HTTP/1.1\r\n{host}Accept: application/x-ndjson\r\n\r\n",
        f"OPTIONS /views HTTP/1.1\r\n{host}Origin: http://127.0.0.1:{running.page_port}\r\n"
        "Access-Control-Request-Method: GET\r\n\r\n",
        f"POST /views/v/batch HTTP/1.1\r\n{host}Content-Length: 2\r\n\r\n{{}}",
        f"GET /views HTTP/1.1\r\nHost: {REBOUND}\r\n\r\n",
        f"GET /views HTTP/1.1\r\n{host}X: {'x' * 40_000}\r\n\r\n",
        "NONSENSE\r\n\r\n",
    ]  # fmt: skip
    answers = [raw(port, request.encode()) for request in requests]
    assert {200, 204, 400, 403, 404, 415, 431} <= {answer.status for answer in answers}
    for request, answer in zip(requests, answers, strict=True):
        assert answer.headers.get_all("X-Content-Type-Options") == ["nosniff"], request[:80]


def test_a_read_that_the_client_knows_may_not_be_taken_for_another_type(running: Running) -> None:
    def etags() -> set[str]:
        return {backend.get("/processors").headers["ETag"] for backend in running.backends}

    # instances hear of one another's states by heartbeats; nginx asks any of them
    wait_until(lambda: len(etags()) == 1, 20, "one ETag of all instances")
    (etag,) = etags()
    for port in running.ports:
        with Client(port) as client:
            for _ in range(4):
                known = client.get("/processors", If_None_Match=etag)
                assert known.status == 304
                assert known.headers.get_all("X-Content-Type-Options") == ["nosniff"]


def test_a_quota_is_for_the_whole_view(running: Running) -> None:
    """4 requests in nginx, and 2 in each of two instances; nginx's are not counted again."""
    targets = ["/views/limited/keys/a", "/views/limited/count", "/api/v1/kv/limited/count"]

    def statuses(client: Client) -> list[int]:
        return [client.get(targets[n % 3]).status for n in range(6)]

    with running.nginx.client() as client:
        found = statuses(client)
        assert found[:4].count(429) == 0
        assert found[4:] == [429, 429]
        refused = client.get(targets[0])
        assert refused.code == "quota-exceeded"
        assert 1 <= int(refused.headers["Retry-After"]) <= 15
        shown = {view["name"]: view.get("quota") for view in client.get("/views").json()["views"]}
        assert shown == {"v": None, "limited": "4/m"}
        assert client.get("/views/v/count").status == 200
    for backend in running.backends:
        with Client(backend.port) as client:
            found = statuses(client)
            assert found.count(429) == 4
            assert found[2:] == [429] * 4
            assert (
                'queryable_over_quota_total{view="limited"} 4.0'
                in backend.get("/metrics").body.decode()
            )

"""A deployment whose requests need tokens."""

from __future__ import annotations

import base64
import http.client
import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlencode

import pytest
from confluent_kafka import Producer
from selenium import webdriver
from selenium.webdriver.common.by import By

from local.kafka.broker import Broker
from local.waiting import wait_until
from tests.support.backends import Backend
from tests.support.browser import AdminPage, chromium
from tests.support.client import Client, Response
from tests.support.deployment import Deployment, views_toml
from tests.support.in_process.tokens import SECRET, token
from tests.support.nginx import Nginx
from tests.support.plugins.fixtures import MakeTopic
from tests.support.security.cluster_secret import SECRET as CLUSTER_SECRET
from tests.support.security.private_file import write_private

KEYS = [f"key-{n}" for n in range(12)]  # some are on each of the instances
SERDE = "org.apache.kafka.common.serialization.Serdes$ByteArraySerde"
SERDES = urlencode({"keySerde": SERDE, "valueSerde": SERDE})
BATCH = ("/views/orders/batch", json.dumps({"keys": KEYS}).encode())
NEXT = b"the next secret of the deployment's issuer"


@pytest.fixture(scope="module")
def key_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_private(tmp_path_factory.mktemp("keys") / "secret", SECRET)


@pytest.fixture(scope="module")
def deployment(
    broker: Broker, make_topic: MakeTopic, tmp_path_factory: pytest.TempPathFactory, key_file: Path
) -> Iterator[Deployment]:
    topic = make_topic(4)
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "partitioner": "murmur2_random"}
    )
    for key in KEYS:
        producer.produce(topic, key=key, value=json.dumps({"n": 1}))
    assert producer.flush(20) == 0
    deployment = Deployment(
        tmp_path_factory.mktemp("tokens"),
        broker.bootstrap_servers,
        views_toml(orders={"topic": topic}, others={"topic": topic, "value": "string"}),
        auth="jwt",
        jwt_key_file=str(key_file),
        jwt_header="X-Forwarded-Access-Token",
    )
    deployment.use_secrets(CLUSTER_SECRET)
    deployment.token = token("read:*", "append:*", "metrics", seconds=600)
    with deployment:
        deployment.start(2)
        yield deployment


@pytest.fixture(scope="module")
def backends(deployment: Deployment) -> list[Backend]:
    return deployment.all


@pytest.fixture(scope="module")
def nginx(deployment: Deployment) -> Nginx:
    return deployment.proxy()


def ask(server: Backend | Nginx, target: str, of: str = "", body: bytes | None = None) -> Response:
    headers = {"Authorization": f"Bearer {of}"} if of else {}
    with Client(server.port) as client:
        method = "GET" if body is None else "POST"
        return client.request(method, target, body, headers)


def decision(nginx: Nginx, target: str, of: str = "") -> Response:
    """The answer for one of nginx's own pages, once an instance has answered nginx in time."""

    def decided() -> Response | None:
        answer = ask(nginx, target, of)
        return None if answer.status == 503 else answer

    return wait_until(decided, 20, f"the decision about {target}")


def questions() -> list[tuple[str, bytes | None]]:
    """Each has to ask both instances."""
    in_base64 = [base64.b64encode(key.encode()).decode() for key in KEYS]
    return [
        *((f"/views/orders/keys/{key}?stale=never", None) for key in KEYS),
        *(("/views/orders/search", json.dumps({"query": key}).encode()) for key in KEYS),
        BATCH,
        ("/views/orders/keys?limit=100", None),
        ("/views/orders/count", None),
        *((f"/api/v1/kv/orders/values/{key}?{SERDES}", None) for key in in_base64),
        (f"/api/v1/kv/orders?{SERDES}", None),
        ("/api/v1/kv/orders/count", None),
    ]


def test_every_question_reaches_other_instances_with_the_token(backends: list[Backend]) -> None:
    reader, stranger = token("read:orders"), token("read:others", "metrics")
    for backend in backends:
        for target, body in questions():
            assert ask(backend, target, reader, body).status == 200, target
            assert ask(backend, target, stranger, body).code == "forbidden", target
            assert ask(backend, target, body=body).code == "unauthenticated", target
    items = ask(backends[0], BATCH[0], reader, BATCH[1]).json()["items"]
    assert [item["value"] for item in items] == [{"n": 1}] * len(KEYS)


def test_the_header_of_an_oidc_proxy(backends: list[Backend]) -> None:
    """It goes to other instances as Authorization."""
    for key in KEYS:
        with Client(backends[0].port) as client:
            headers = {"X-Forwarded-Access-Token": token("read:orders")}
            answer = client.request("GET", f"/views/orders/keys/{key}", headers=headers)
        assert answer.status == 200
    with Client(backends[0].port) as client:
        for path in ("/admin", "/admin/topology.json", "/admin/identity"):
            assert client.request("GET", path).status == 401, path
            assert client.request("GET", path, headers=headers).status == 200, path
        # a token in Authorization comes first
        wrong = {**headers, "Authorization": f"Bearer {token('openid')}"}
        assert client.request("GET", "/admin/topology.json", headers=wrong).status == 403


def test_what_an_instance_says_of_all_others_needs_a_token(backends: list[Backend]) -> None:
    """The instance that is asked passes the token on, and signs with the cluster secret."""
    reader = token("read:orders")
    ids = {backend.id for backend in backends}
    for backend in backends:
        for target in ("/admin/history", "/admin/deployment", "/admin/topology.json"):
            assert ask(backend, target).code == "unauthenticated", target
            instances = ask(backend, target, reader).json()["instances"]
            found = {each if type(each) is str else each["id"]: each for each in instances}
            assert set(found) == ids, target
            if target != "/admin/history":
                assert {each["state"] for each in found.values()} == {"running"}, target
        command = f"/admin/deployments/{backend.settings['QUERYABLE_APPLICATION_ID']}/switch"
        assert ask(backend, command, reader, b"{}").code == "forbidden"
        assert ask(backend, command, token("admin"), b"{}").code == "no-service"


def test_the_pages_of_nginx_need_a_token(backends: list[Backend], nginx: Nginx) -> None:
    reader, monitoring = token("read:orders"), token("metrics")
    assert ask(nginx, "/health/proxy").json() == {"status": "ok"}
    for target in ("/proxy/health", "/proxy/metrics", "/metrics", "/metrics/targets"):
        answer = decision(nginx, target)
        assert (answer.status, answer.code) == (401, "unauthenticated"), target
        assert answer.headers["WWW-Authenticate"].startswith("Bearer ")
        foreign = decision(nginx, target, token("read:*", key=NEXT))
        assert foreign.code == "unauthenticated", target
        for size in (9_000, 31_000):  # more than a token may have; more than an instance reads
            assert decision(nginx, target, "t" * size).status in (400, 401, 431), (target, size)
    assert len(decision(nginx, "/proxy/health", reader).json()["backends"]) == len(backends)
    for target in ("/proxy/metrics", "/metrics", "/metrics/targets"):
        assert decision(nginx, target, reader).code == "forbidden", target
    assert len(decision(nginx, "/metrics/targets", monitoring).json()) == len(backends) + 1
    assert decision(nginx, "/metrics", monitoring).json()["code"] == "metrics-of-instances"
    assert b"queryable_proxy_build_info" in decision(nginx, "/proxy/metrics", monitoring).body
    with Client(nginx.port) as client:
        of_proxy = {"X-Forwarded-Access-Token": monitoring}
        assert client.request("GET", "/proxy/metrics", headers=of_proxy).status == 200


def test_streams_end_when_the_token_expires(backends: list[Backend]) -> None:
    """Also those of other instances."""
    seconds = 2.0
    headers = {"Authorization": f"Bearer {token('read:orders', seconds=seconds)}"}
    expires = time.time() + seconds
    with ExitStack() as stack:
        answers = []
        for key in KEYS:
            connection = http.client.HTTPConnection("127.0.0.1", backends[0].port, timeout=20)
            stack.callback(connection.close)
            connection.request("GET", f"/views/orders/keys/{key}/changes", headers=headers)
            answers.append(connection.getresponse())
        for answer in answers:
            assert answer.status == 200
            assert b"data:" in answer.read()  # to its end
    assert expires - 0.5 <= time.time() <= expires + 10


def test_the_data_of_the_admin_page_is_of_all_instances(backends: list[Backend]) -> None:
    document = ask(backends[0], "/admin/topology.json", token("read:orders")).json()
    states = {instance["id"]: instance["state"] for instance in document["instances"]}
    assert states == {"b1": "running", "b2": "running"}


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    with chromium(tmp_path_factory.mktemp("chromium")) as driver:
        yield driver


def test_the_admin_page_asks_for_a_token(
    backends: list[Backend], nginx: Nginx, driver: webdriver.Chrome
) -> None:
    page = AdminPage(driver, nginx.port)
    form = page.one("#sign-in")

    def sign_in(text: str) -> None:
        page.one("#token").send_keys(text)
        form.find_element(By.TAG_NAME, "button").click()

    page.wait(form.is_displayed, "the form")
    assert not page.one("#data").is_displayed()
    assert "orders" not in driver.page_source
    sign_in("not a token")
    assert page.text("#refused") == "This is not a token."
    for refused, why in (
        (token("read:*", key=NEXT), "no key verifies its signature"),
        (token("read:*", seconds=-60), "it has expired"),
        (token("openid"), "no scope of this service"),
    ):
        sign_in(refused)
        page.wait(lambda why=why: why in page.text("#refused"), why)
    of = token("read:orders", seconds=600)
    sign_in(of)
    page.wait(lambda: len(page.grid("orders")) == 4, "the grid")
    assert not form.is_displayed()
    page.wait(page.one("#proxy").is_displayed, "what nginx knows")
    buttons = "return [...document.querySelectorAll('.instance .action')].map((b) => b.disabled"
    page.wait(lambda: page.run(f"{buttons} && b.title)"), "the buttons")
    assert set(page.run(f"{buttons} && b.title)")) == {"Your token does not have the scope admin."}
    answer = page.look_up("orders", KEYS[0])
    assert (answer["outcome"], json.loads(answer["value"])) == ("found", {"n": 1})
    assert page.look_up("others", KEYS[0])["outcome"] == "forbidden"
    asked = page.refreshes()
    page.wait(lambda: page.refreshes() > asked, "that it refreshes itself")
    with backends[0].client() as client:
        headers = {"Authorization": f"Bearer {of}", "Content-Type": "application/json"}
        refused = client.request("POST", "/admin/instances/b1/drain", b"{}", headers)
        assert (refused.status, refused.code) == (403, "forbidden")
        headers["Authorization"] = f"Bearer {token('admin')}"
        unknown = client.request("POST", "/admin/instances/b9/undrain", b"{}", headers)
        assert (unknown.status, unknown.code) == (404, "instance-not-found")
        forwarded = client.request("POST", "/admin/instances/b2/undrain", b"{}", headers)
        assert forwarded.status == 200, "the token is passed on"
        who = client.request("GET", "/admin/identity", None, headers).json()
        assert (who["auth"], who["scopes"], who["admin"]) == ("jwt", ["admin"], True)
    # in memory only
    kept = "return JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])"
    assert page.run(kept) == '[{},{},""]'
    assert of not in driver.current_url + driver.page_source
    assert page.console() == []
    driver.refresh()
    page.wait(page.one("#sign-in").is_displayed, "the form after a reload")
    assert page.console() == []


def test_a_rotated_key_revokes_its_tokens(backends: list[Backend], key_file: Path) -> None:
    """The last test: it replaces the secret."""
    old, new = token("read:orders"), token("read:orders", key=NEXT)
    target = "/views/orders/keys?limit=1"
    assert ask(backends[0], target, old).status == 200
    assert ask(backends[0], target, new).status == 401
    key_file.write_bytes(NEXT)
    for backend in backends:
        backend.wait(lambda b=backend: ask(b, target, new).status == 200, "the new key", 10)
        assert ask(backend, target, old).code == "unauthenticated"

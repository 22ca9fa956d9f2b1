"""A value that is not in the view's format, through nginx, from each instance, and from copies."""

from __future__ import annotations

import json

from tests.support.client import Client, key_path
from tests.support.deployment import settle, views_toml
from tests.support.plugins.fixtures import Deploy, MakeTopic
from tests.support.topics import Writer

BATCH = json.dumps({"keys": [f"k{n}" for n in range(20)]}).encode()
OCTETS = {"Accept": "application/octet-stream"}


def check(client: Client) -> None:
    for n in range(20):
        answer = client.get(key_path("v", f"k{n}"))
        if n % 5:
            assert (answer.status, answer.json()["value"]) == (200, n)
            continue
        assert (answer.status, answer.code) == (406, "value-unreadable")
        assert "retry-after" not in {name.lower() for name in answer.headers}
        raw = client.request("GET", key_path("v", f"k{n}"), headers=OCTETS)
        assert (raw.status, raw.body) == (200, b"{%d" % n)
    items = client.request("POST", "/views/v/batch", BATCH).json()["items"]
    assert [item["status"] for item in items] == [200 if n % 5 else 406 for n in range(20)]
    items = client.get("/views/v/keys").json()["items"]
    assert {item["key"] for item in items if "unreadable" in item} == {"k0", "k5", "k10", "k15"}
    assert len(items) == 20
    count = client.get("/views/v/count?exact=true").json()
    assert count == {"count": 20, "exact": True, "unreadable": 4}


def test_all_say_that_it_cannot_be_read(
    deploy: Deploy, make_topic: MakeTopic, writer: Writer
) -> None:
    topic = make_topic(4)
    writer.send(topic, [(b"k%d" % n, b"%d" % n) for n in range(20)])
    writer.send(topic, [(b"k%d" % n, b"{%d" % n) for n in range(0, 20, 5)])
    deployment = deploy(views_toml(v={"topic": topic}))
    # a copy is taken of each partition, however few records it has
    for _ in range(2):
        backend = deployment.new()
        backend.constants["copy_threshold"] = "1"
        backend.launch()
    started = deployment.all
    settle(started)
    nginx = deployment.proxy()
    for port in (*(each.port for each in started), nginx.port):
        with Client(port) as client:
            check(client)
    started[1].kill()
    started[1].start()
    settle(started)
    with Client(started[1].port) as client:
        check(client)

"""Protobuf keys and values through real instances: from a descriptor set, and from a registry."""

from __future__ import annotations

import json

from local.kafka.broker import Broker
from local.ports import free_ports
from model.formats.base64url import to_base64url
from tests.support.backends import Backend
from tests.support.client import Client, Response
from tests.support.deployment import settle, views_toml
from tests.support.in_process.avro_examples import registry
from tests.support.in_process.protobuf_examples import (
    DESCRIPTORS,
    SHOP,
    framed,
    key,
    order,
    serialized,
)
from tests.support.plugins.fixtures import Deploy, MakeTopic
from tests.support.topics import Writer
from tests.system.ingest.test_dead_letters import letters

KEYS = 20


def path(view: str, raw: bytes) -> str:
    return f"/views/{view}/keys/{to_base64url(raw).decode()}"


def post(backend: Backend, target: str, document: object) -> Response:
    with Client(backend.port) as client:
        return client.request(
            "POST", target, json.dumps(document).encode(), Content_Type="application/json"
        )


def order_ids(backend: Backend, view: str, keys: list[bytes]) -> list[str | None]:
    """The order of each key, or the code of the refusal."""
    answers = [backend.get(path(view, each)) for each in keys]
    return [a.json()["value"]["orderId"] if a.status == 200 else a.code for a in answers]


def test_messages_of_a_descriptor_set(
    deploy: Deploy, broker: Broker, make_topic: MakeTopic, writer: Writer
) -> None:
    topic = make_topic(2)
    writer.send(topic, [(key(n), order(order_id=n, price=n / 4)) for n in range(1, KEYS)])
    writer.send(topic, [(key(1), b"\x80"), (b"\x80", order())])
    fields = {"key": "protobuf", "key_schema": "shop.desc", "key_message": "shop.Key"}
    fields |= {"value": "protobuf", "value_schema": "shop.desc", "value_message": "shop.Order"}
    deployment = deploy(views_toml(v={"topic": topic, "append": "on", **fields}))
    (deployment.folder / "shop.desc").write_bytes(DESCRIPTORS)
    started = deployment.start(2)
    settle(started)
    keys = [key(n) for n in range(1, KEYS)]
    for backend in started:
        others = [str(n) for n in range(2, KEYS)]
        assert order_ids(backend, "v", keys) == ["value-unreadable", *others]
        answer = backend.get(path("v", key(3)), accept="application/protobuf")
        assert answer.body == order(order_id=3, price=0.75)
        assert backend.get(path("v", key(99))).status == 404
        items = backend.get("/views/v/keys").json()["items"]
        assert [item["key"] for item in items] == [{"id": n} for n in range(1, KEYS)]
        top = backend.get("/views/v/top?by=price&limit=2").json()["items"]
        assert [item["key"]["id"] for item in top] == [KEYS - 1, KEYS - 2]
        top = backend.get("/views/v/top?by=orderId&limit=2").json()["items"]  # strings in JSON
        assert [item["value"]["orderId"] for item in top] == [str(KEYS - 1), str(KEYS - 2)]
        groups = backend.get("/views/v/aggregate?by=status&value=orderId").json()
        assert f'"sum":{sum(range(2, KEYS))}' in json.dumps(groups, separators=(",", ":"))
        described = backend.get("/views/v").json()
        assert described["schemas"]["value"]["message"] == "shop.Order"
        assert described["routed_encodings"] == ["base64url"]
        found = post(
            backend, "/views/v/batch", {"keys": [{"id": 2}, {"id": 99}, {"id": "x"}]}
        ).json()["items"]
        assert [item["status"] for item in found] == [200, 404, 400]
        sought = post(backend, "/views/v/search", {"query": {"id": 2}})
        assert sought.json()["value"]["orderId"] == "2"
    record = {"key": {"id": 77}, "value": {"orderId": "77", "tags": ["new"]}}
    appended = post(started[0], f"/topics/{topic}/records", record)
    assert appended.status == 200
    started[1].wait(lambda: order_ids(started[1], "v", [key(77)]) == ["77"], "the record")
    wrong = {"key": {"id": 77}, "value": {"orderId": "x"}}
    assert post(started[0], f"/topics/{topic}/records", wrong).code == "value-undecodable"
    found_letters = letters(broker, f"{topic}.dead-letter", 2)
    reasons = sorted(dict(letter.headers() or [])["reason"].decode() for letter in found_letters)
    assert reasons[0].startswith("key: not a shop.Key")
    assert reasons[1].startswith("value: not a shop.Order")


def test_framed_messages_wait_for_their_schema(
    deploy: Deploy, broker: Broker, make_topic: MakeTopic, writer: Writer
) -> None:
    topic = make_topic(2)
    [port] = free_ports(1)
    keys = [framed(7, key(n), b"\2\2") for n in range(1, KEYS)]
    writer.send(topic, [(each, framed(7, order(order_id=n))) for n, each in enumerate(keys)])
    writer.send(topic, [(keys[0], framed(9, order()))])  # the registry does not know the id
    fields = {"key": "protobuf", "key_schema": "confluent"}
    fields |= {"value": "protobuf", "value_schema": "confluent"}
    views = views_toml(v={"topic": topic, **fields})
    deployment = deploy(f'{views}[schemas]\nregistry = "http://127.0.0.1:{port}"\n')
    backend = deployment.new(schema_missing_after="0.5").launch()
    backend.wait_listening()

    def waiting() -> list[str]:
        return [p["waiting_for"] for p in backend.partitions("v") if p.get("waiting_for")]

    backend.wait(lambda: any("schema 7: " in each for each in waiting()), "a waiting partition")
    with registry(port) as running:
        about = {"schemaType": "PROTOBUF"}
        running.answers["/schemas/ids/7"] = (200, {"schema": "message Order {}", **about})
        running.answers["/schemas/ids/7?format=serialized"] = (
            200,
            {"schema": serialized(SHOP), **about},
        )
        settle([backend])
        assert order_ids(backend, "v", keys[1:]) == [str(n) for n in range(1, KEYS - 1)]
        assert backend.get(path("v", keys[0])).code == "value-unreadable"
        answer = backend.get(path("v", keys[3]), accept="application/protobuf")
        assert (answer.body, answer.headers["Schema-Id"]) == (order(order_id=3), "7")
        [letter] = letters(broker, f"{topic}.dead-letter", 1)
        assert b"has no schema with" in dict(letter.headers() or [])["reason"]
    assert not waiting()
